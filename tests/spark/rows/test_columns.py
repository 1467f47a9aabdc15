"""The array code under the decoder, piece by piece."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.rows import columns
from stratalog.spark.rows.columns import (
    constant_text,
    headers_column,
    odd_batches,
    slices,
    timestamp_column,
    varints,
)
from stratalog.wire.errors import Corrupt

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def zigzag(value: int) -> bytes:
    """The varint of protocol buffers' sint64."""
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def array(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@given(st.lists(INT64, min_size=1, max_size=20))
def test_varints_are_those_of_the_format(values: list[int]) -> None:
    """Every 64-bit number comes back, and the position behind it."""
    encoded = [zigzag(value) for value in values]
    ends = np.cumsum([len(each) for each in encoded])
    starts = ends - [len(each) for each in encoded]
    found, after = varints(np.frombuffer(b"".join(encoded), np.uint8), starts)
    assert found.tolist() == values
    assert after.tolist() == ends.tolist()


@pytest.mark.parametrize("payload", [b"\xff" * 11, b"\xff" * 10 + b"\x01", b"\x80"])
def test_endless_varints_are_refused(payload: bytes) -> None:
    """More than ten bytes, or none that ends it, is an error."""
    with pytest.raises(IndexError):
        varints(np.frombuffer(payload, np.uint8), array(0))


@pytest.mark.parametrize("payload", [b"\x02\x80", b"\x80", b"\x80\x80"])
def test_varints_that_leave_the_payload_are_refused(payload: bytes) -> None:
    """Alone or beside whole ones, a varint that the payload cuts off is an error."""
    with pytest.raises(IndexError):
        varints(np.frombuffer(payload, np.uint8), np.arange(len(payload), dtype=np.int64))


def test_slices_keep_empty_and_null_apart() -> None:
    """A negative length is null, a length of zero is empty."""
    column = slices(pa.py_buffer(b"abcdef"), array(0, 2, 2, 3), array(2, 0, -1, 3))
    assert column.to_pylist() == [b"ab", b"", None, b"def"]
    assert slices(pa.py_buffer(b""), array(), array()).to_pylist() == []
    nulls = slices(pa.py_buffer(b"abc"), array(1, 2), array(-1, -7))
    nulls.validate(full=True)
    assert nulls.to_pylist() == [None, None]


def test_slices_outside_the_payload_are_refused() -> None:
    """Arrow would read beyond the buffer without complaint."""
    with pytest.raises(IndexError):
        slices(pa.py_buffer(b"abc"), array(0, 2), array(1, 5))


def test_timestamps_become_microseconds() -> None:
    """Spark's timestamps are microseconds in UTC; a missing time is one ms before 1970, as in Spark's Kafka source."""
    assert [each.isoformat() for each in timestamp_column(array(0, -1)).to_pylist()] == [
        "1970-01-01T00:00:00+00:00",
        "1969-12-31T23:59:59.999000+00:00",
    ]


def test_times_that_no_timestamp_holds_are_the_last_that_one_does() -> None:
    """Nanoseconds that a producer took for milliseconds must not come back as a time that looks right."""
    nanoseconds = 1_700_000_000_000_000_000
    last, first = 9_223_372_036_854_775, -9_223_372_036_854_775
    times = array(5, nanoseconds, (1 << 63) - 1, last, last + 1, first, first - 1, -(1 << 63))
    found = timestamp_column(times).cast(pa.int64()).to_pylist()
    assert found == [each * 1000 for each in (5, last, last, last, last, first, first, first)]


def test_constant_text_repeats_utf8() -> None:
    """Lengths are bytes, not characters."""
    assert constant_text("größe", 3).to_pylist() == ["größe"] * 3
    assert constant_text("x", 0).to_pylist() == []


def headers(*records: list[tuple[bytes, bytes | None]]) -> pa.Array:
    payload = b""
    positions, ends = [], []
    for record in records:
        positions.append(len(payload))
        for key, value in record:
            payload += zigzag(len(key)) + key + (zigzag(-1) if value is None else zigzag(len(value)) + value)
        ends.append(len(payload))
    counts = array(*map(len, records))
    column = headers_column(
        np.frombuffer(payload, np.uint8), pa.py_buffer(payload), array(*positions), array(*ends), counts
    )
    column.validate(full=True)
    return column


def test_headers_stay_with_their_record() -> None:
    """Records with different numbers of headers keep theirs in order; none is null."""
    column = headers([(b"a", b"1"), (b"b", None)], [], [(b"c", b"")])
    assert column.to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        [{"key": "c", "value": b""}],
    ]


def test_header_keys_that_are_no_utf8_are_replaced() -> None:
    """Bytes that Java would replace are replaced, the rest of the batch is unharmed."""
    assert headers([(b"\xff", b"1")], [(b"ok", None)]).to_pylist()[0] == [
        {"key": "\N{REPLACEMENT CHARACTER}", "value": b"1"}
    ]


HEADER = st.tuples(st.text("ab", max_size=2).map(str.encode), st.none() | st.binary(max_size=2))


@given(st.lists(st.lists(HEADER, max_size=4), min_size=25, max_size=45))
def test_headers_of_many_records_and_of_few_are_read_alike(records: list[list[tuple[bytes, bytes | None]]]) -> None:
    """The last ones of some records are walked one by one."""
    expected = [[{"key": key.decode(), "value": value} for key, value in each] or None for each in records]
    assert headers(*records).to_pylist() == expected


def test_a_record_with_very_many_headers_takes_no_array_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of some kilobytes, compressed, may hold a hundred million."""
    asked: list[int] = []

    def counted(payload: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append(len(positions))
        return varints(payload, positions)

    monkeypatch.setattr(columns, "varints", counted)
    many = [(b"", b"")] * 5_000
    assert headers(many, *[[(b"k", None)]] * 40).to_pylist()[0] == [{"key": "", "value": b""}] * 5_000
    assert len(asked) < 10


@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"\x01\x00", 1),
        (b"\x08a\x00", 1),
        (b"\x02a\x08", 1),
        (b"\x02a\x00\x00", 1),
        (b"\x02a\x00", -1),
        (b"\x02a\x00", 99),
    ],
)
def test_headers_that_do_not_fill_their_record_are_corrupt(payload: bytes, count: int, times: int) -> None:
    """A null key, a key or value beyond the record, bytes left over, a count that cannot be; of one record and of many."""
    starts = np.arange(times) * len(payload)
    data = payload * times
    with pytest.raises(Corrupt):
        headers_column(
            np.frombuffer(data, np.uint8), pa.py_buffer(data), starts, starts + len(payload), np.full(times, count)
        )


@pytest.mark.parametrize("payload", [b"\x02a\x80", b"\x80", b"\xff" * 11])
@pytest.mark.parametrize("times", [1, 40])
def test_headers_whose_varints_do_not_end_are_no_headers(payload: bytes, times: int) -> None:
    """They leave the payload, or have more than ten bytes."""
    data = payload * times
    starts = np.arange(times) * len(payload)
    with pytest.raises((Corrupt, IndexError)):
        headers_column(
            np.frombuffer(data, np.uint8), pa.py_buffer(data), starts, starts + len(payload), np.full(times, 1)
        )


@pytest.mark.parametrize(
    ("offsets", "odd"),
    [
        ((10, 11, 12, 20, 25), None),
        ((10, 12, 11, 20, 25), [True, False]),
        ((10, 11, 12, 20, 20), [False, True]),
        ((9, 11, 12, 20, 26), [True, True]),
        ((10, 11, 15, 13, 14), [True, True]),
    ],
)
def test_batches_with_odd_offsets_are_those_that_do_not_ascend_in_their_range(
    offsets: tuple[int, ...], odd: list[bool] | None
) -> None:
    """Two batches, of the offsets 10 to 14 and 20 to 25."""
    found = odd_batches(array(*offsets), array(3, 2), array(4, 5), array(10, 20))
    assert (None if found is None else found.tolist()) == odd
