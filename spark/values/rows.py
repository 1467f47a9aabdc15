"""Shared by all decoders of values: texts, columns out of Python objects, and rows put back into their places. Pure.

Decoding gives an array and, by row, what is wrong with those of its rows that are null for it: a row is never lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Decoder", "TextDecoder", "array_of", "decode_rows", "decode_text", "scatter"]

_FAILED: Final = (ValueError, TypeError, OverflowError, NotImplementedError)
"""Exceptions of pyarrow for an object that does not fit its type; its own errors are kinds of these."""


class Decoder(Protocol):
    """Decodes values of one schema; ``kind`` is what it makes of them."""

    kind: pa.DataType

    def decode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The decoded form of a binary array without nulls, and what is wrong with those rows that are null in it."""


def decode_text(values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """The UTF-8 texts of a binary array; a row that is no UTF-8 is empty and told, a null stays null."""
    try:
        return values.cast(pa.string()), {}
    except pa.ArrowInvalid:
        pass
    errors = {}
    texts = []
    for row, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            errors[row] = f"no UTF-8: {error.reason} at byte {error.start}"
            texts.append("")
    return pa.array(texts, pa.string()), errors


def array_of(objects: Sequence[Any], kind: pa.DataType, errors: dict[int, str]) -> pa.Array:
    """Python objects as an array of ``kind``; one that does not fit is null, and told in ``errors`` by its row."""
    try:
        return pa.array(objects, kind)
    except _FAILED:
        pass
    fitting = list(objects)
    for row, each in enumerate(objects):
        try:
            pa.array([each], kind)
        except _FAILED as error:
            errors[row] = f"does not fit its type: {error}"
            fitting[row] = None
    return pa.array(fitting, kind)


def scatter(values: pa.Array, rows: npt.NDArray[np.int64], count: int) -> pa.Array:
    """``count`` rows that are ``values`` at ``rows``, and null elsewhere."""
    places = np.zeros(count, np.int64)
    places[rows] = np.arange(len(rows))
    missing = np.ones(count, np.bool_)
    missing[rows] = False
    return values.take(pa.array(places, mask=missing))


class TextDecoder:
    """Decodes UTF-8."""

    kind = pa.string()

    def decode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The texts of a binary array without nulls, and what is wrong with those rows that are null in it."""
        texts, errors = decode_text(values)
        if not errors:
            return texts, {}
        good = np.array([row for row in range(len(values)) if row not in errors], np.int64)
        return scatter(texts.take(pa.array(good)), good, len(values)), errors


def decode_rows(decoder: Decoder, column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """A binary column decoded, and a column of texts that say what is wrong with a row. Nulls stay null, without words."""
    if column.null_count:
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        present, wrong = decoder.decode(column.drop_null())
        decoded = scatter(present, rows, len(column))
        wrong = {int(rows[row]): reason for row, reason in wrong.items()}
    else:
        decoded, wrong = decoder.decode(column)
    if not wrong:
        return decoded, pa.nulls(len(column), pa.string())
    reasons: list[str | None] = [None] * len(column)
    for row, reason in wrong.items():
        reasons[row] = reason
    return decoded, pa.array(reasons, pa.string())
