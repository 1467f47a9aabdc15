"""Shared by all decoders: texts, columns of objects, rows in their places."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stratalog.spark.values.rows import TextDecoder, array_of, decode_rows, decode_text, scatter


def test_texts_are_decoded_and_invalid_utf8_is_reported() -> None:
    """By row, with the byte; a null is none."""
    texts, errors = decode_text(pa.array([b"a", None, "ü".encode()], pa.binary()))
    assert (texts.to_pylist(), errors) == (["a", None, "ü"], {})
    texts, errors = decode_text(pa.array([b"a", b"b\xff", None], pa.binary()))
    assert texts.to_pylist() == ["a", "", None]
    assert errors == {1: "no UTF-8: invalid start byte at byte 1"}


def test_objects_that_do_not_fit_are_null_and_told() -> None:
    """The others keep their places."""
    errors: dict[int, str] = {}
    assert array_of([1, 2, None], pa.int8(), errors).to_pylist() == [1, 2, None]
    assert errors == {}
    assert array_of([1, 300, "x", None], pa.int8(), errors).to_pylist() == [1, None, None, None]
    assert set(errors) == {1, 2}
    assert errors[1].startswith("does not fit its type: ")


def test_rows_are_scattered_to_their_places() -> None:
    """Null where none is; nothing scattered is all null."""
    assert scatter(pa.array(["a", "b"]), np.array([3, 1]), 5).to_pylist() == [None, "b", None, "a", None]
    assert scatter(pa.nulls(0, pa.string()), np.array([], np.int64), 2).to_pylist() == [None, None]


def test_nulls_stay_null_without_words() -> None:
    """And words stand at the row that they are about; a slice is decoded as what it is a slice of."""
    column = pa.array([b"skipped", None, b"\xff", b"a", None, b"b"], pa.binary())[1:]
    decoded, reasons = decode_rows(TextDecoder(), column)
    assert decoded.to_pylist() == [None, None, "a", None, "b"]
    assert reasons.to_pylist() == [None, "no UTF-8: invalid start byte at byte 0", None, None, None]
    decoded, reasons = decode_rows(TextDecoder(), pa.nulls(2, pa.binary()))
    assert decoded.to_pylist() == reasons.to_pylist() == [None, None]
