"""The compiled kernel against array code: the same rows, the same refusals, whatever the bytes."""

from __future__ import annotations

import os
from itertools import product
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.spark.rows.decode import Window, _Rows, decode_batches
from stratalog.spark.rows.kernel import VARIABLE, installed_kernel
from stratalog.spark.rows.kernel_columns import record_columns
from stratalog.spark.rows.schema import COLUMNS, DELETE_HORIZON, TOMBSTONE, arrow_schema
from stratalog.wire.batch import BATCH_HEADER, HEADER_BYTES, Header, Record, build_batch, iter_headers
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

pytest.importorskip("stratalog_kernel.records", reason="the compiled kernel is not built (make test-kernel does it)")

ORDERS = TopicPartition("orders", 3)
NOON_MS = 1_372_939_200_000
EVERY_COLUMN = (*COLUMNS, TOMBSTONE, DELETE_HORIZON)
EVERYTHING = Window(0, (1 << 63) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def decoded(
    path: str,
    data: bytes,
    columns: tuple[str, ...] = EVERY_COLUMN,
    window: Window = EVERYTHING,
    batch_bytes: int = 2 << 20,
) -> list[pa.RecordBatch] | str:
    """Result of one of both paths for the bytes: Arrow batches, or the words of an error."""
    with mock.patch.dict(os.environ, {VARIABLE: path}):
        try:
            made = list(decode_batches(data, ORDERS, columns, window, batch_bytes=batch_bytes, checked=True))
        except Corrupt as error:
            return str(error)
    for batch in made:
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(columns))
    return made


columns_drawn = st.lists(st.sampled_from(EVERY_COLUMN), min_size=1, unique=True).map(tuple)
blobs = st.none() | st.binary(max_size=40) | st.integers(0, 9000).map(bytes)
headers = st.lists(st.builds(Header, st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(tuple)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of every codec and kind of time, with gaps."""
    data = b""
    offset = draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(1, 5))):
        content = []
        for _ in range(draw(st.integers(1, 12))):
            time_ms = draw(st.sampled_from([NOON_MS, NOON_MS + 70, -1, 0, 1 << 42]))
            content.append(Record(offset, time_ms, draw(blobs), draw(blobs), draw(headers)))
            offset += draw(st.sampled_from([1, 1, 1, 100]))
        append_time = draw(st.none() | st.integers(0, 1 << 42))
        data += build_batch(content, codec=draw(st.sampled_from(Codec)), log_append_time_ms=append_time)
    return data


@given(logs(), columns_drawn, st.data())
def test_sound_records_give_the_same_columns(data: bytes, columns: tuple[str, ...], choice: st.DataObject) -> None:
    """Any columns, any window, any grouping; none of it is left to array code."""
    offsets = [header.base_offset for _, header in iter_headers(data)] + [0, 1 << 62]
    window = Window(
        choice.draw(st.sampled_from(offsets)) + choice.draw(st.integers(0, 2)), choice.draw(st.sampled_from(offsets))
    )
    batch_bytes = choice.draw(st.sampled_from([1, 300, 2 << 20]))
    expected = decoded("off", data, columns, window, batch_bytes)
    with mock.patch.object(_Rows, "_records", side_effect=AssertionError("left to array code")):
        assert decoded("require", data, columns, window, batch_bytes) == expected


@settings(max_examples=300, deadline=None)
@given(
    logs(), columns_drawn, st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=6)), max_size=3)
)
def test_damaged_bytes_give_the_same_columns_or_the_same_words(
    data: bytes, columns: tuple[str, ...], damage: list[tuple[int, bytes]]
) -> None:
    """Rubbish behind the header of a batch, as if its CRC were right."""
    _, header = next(iter_headers(data))
    batch = bytearray(data)
    for position, rubbish in damage:
        at = HEADER_BYTES + position % (header.size_bytes - HEADER_BYTES)
        batch[at : at + len(rubbish)] = rubbish[: header.size_bytes - at]
    damaged = bytes(batch)
    assert decoded("require", damaged, columns) == decoded("off", damaged, columns)


def varint(value: int, padding: int = 0) -> bytes:
    """The zigzag varint of ``value`` with needless bytes."""
    number = ((value << 1) ^ (value >> 63)) & ((1 << 64) - 1)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number | 0x80, *[0x80] * (padding - 1), 0] if padding else [*out, number])


lies = st.sampled_from([0] * 12 + [-1, 1, -2, 2, 5, 64, 1 << 31, 1 << 32, (1 << 62) - 1, -(1 << 63)])
paddings = st.sampled_from([0] * 8 + [1, 2, 8, 9, 10])


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """One record whose lengths may lie a little or a lot, and whose varints may be longer than they need."""

    def number(value: int) -> bytes:
        return varint(max(-(1 << 63), min((1 << 63) - 1, value + draw(lies))), draw(paddings))

    def text() -> bytes:
        content = draw(st.none() | st.binary(max_size=9) | st.just(bytes(100)))
        return number(-1) if content is None else number(len(content)) + content

    count = draw(st.integers(0, 2))
    body = b"\0" + varint(draw(INT64 | st.integers(-70, 70)), draw(paddings)) + number(draw(st.integers(0, 100)))
    body += text() + text() + number(count) + b"".join(text() + text() for _ in range(count))
    return number(len(body)) + body


def sealed(payload: bytes, count: int, last: int, *, base_offset: int = 0, base_ms: int = NOON_MS) -> bytes:
    """A batch of these bytes, whose CRC is not compared."""
    length = HEADER_BYTES - 12 + len(payload)
    header = (base_offset, length, 0, 2, 0, 0, last, base_ms, base_ms, -1, -1, -1, count)
    return BATCH_HEADER.pack(*header) + payload


@settings(max_examples=600, deadline=None)
@given(
    st.lists(st.lists(records(), min_size=1, max_size=4), min_size=1, max_size=3),
    columns_drawn,
    st.sampled_from([0, 0, 0, 0, -1, 1]),
    st.sampled_from([EVERYTHING, Window(0, 2), Window(1, 60), Window(1, 1 << 62)]),
    INT64,
)
def test_records_that_lie_give_the_same_columns_or_the_same_words(
    batches: list[list[bytes]], columns: tuple[str, ...], more: int, window: Window, base_ms: int
) -> None:
    """Lengths that are a little too long or far too long, negative ones, endless varints, wrong numbers of records."""
    data = b""
    for number, content in enumerate(batches):
        payload, count = b"".join(content), max(1, len(content) + more)
        data += sealed(payload, count, 100, base_offset=101 * number, base_ms=base_ms)
    assert decoded("require", data, columns, window) == decoded("off", data, columns, window)


@pytest.mark.parametrize("base_ms", [0, -5, 9223372036854775, -9223372036854775, (1 << 63) - 1, -(1 << 63)])
@pytest.mark.parametrize("delta", [0, 1, -1, 9223372036854776, -9223372036854776, (1 << 63) - 1, -(1 << 63)])
def test_times_that_spark_cannot_hold_are_the_last_that_it_can(base_ms: int, delta: int) -> None:
    """Any 64 bits are a time in ms; in microseconds they would be another one."""
    body = b"\0" + varint(delta) + varint(0) + varint(-1) + varint(-1) + varint(0)
    data = sealed(varint(len(body)) + body, 1, 0, base_ms=base_ms)
    assert decoded("require", data, ("timestamp",), EVERYTHING) == decoded("off", data, ("timestamp",), EVERYTHING)


@pytest.mark.parametrize("columns", [("offset",), ("key",), ("value",), ("headers",), EVERY_COLUMN])
@pytest.mark.parametrize("lying", ["record", "key", "value", "count"])
def test_one_byte_more_or_less_gives_the_same_columns_or_the_same_words(columns: tuple[str, ...], lying: str) -> None:
    """Where a length goes up to its limit, and beyond it, between two sound records."""
    for key, value, more in product((None, b"", b"k"), (None, b"", b"v"), range(-3, 4)):
        lie = {lying: more}
        body = bytes(3) + varint((-1 if key is None else len(key)) + lie.get("key", 0)) + (key or b"")
        body += varint((-1 if value is None else len(value)) + lie.get("value", 0)) + (value or b"")
        body += varint(lie.get("count", 0))
        record = varint(len(body) + lie.get("record", 0)) + body
        sound = varint(6) + bytes(3) + varint(-1) + varint(-1) + bytes(1)
        for before, after in product((b"", sound), repeat=2):
            data = sealed(before + record + after, 1 + bool(before) + bool(after), 0)
            assert decoded("require", data, columns) == decoded("off", data, columns)


@pytest.mark.parametrize("columns", [("offset",), ("key",), ("value",), ("headers",)])
@pytest.mark.parametrize(
    "record",
    [
        varint(5) + bytes(3) + varint(-1) + varint(-1),  # one byte less than there must be
        b"\x8c" + b"\x80" * 8 + b"\x02" + bytes(3) + varint(-1) + varint(-1) + bytes(1),  # 6, and a bit above the 64th
        b"\x8c" + b"\x80" * 8 + b"\x00" + bytes(3) + varint(-1) + varint(-1) + bytes(1),  # 6 in ten bytes
    ],
)
def test_odd_lengths_of_records_give_the_same_columns_or_the_same_words(
    columns: tuple[str, ...], record: bytes
) -> None:
    """Which the chain of lengths may follow to the end of the batch."""
    long = varint(26) + bytes(3) + varint(-1) + varint(20) + bytes(21)
    data = sealed(record + long + record, 3, 2)
    assert decoded("require", data, columns) == decoded("off", data, columns)


@pytest.mark.parametrize("column", ["key", "value", TOMBSTONE, "headers"])
@pytest.mark.parametrize("field", [None, b"", b"x" * 70])
def test_columns_of_one_kind_are_equal(column: str, field: bytes | None) -> None:
    """All null, all empty, all alike."""
    data = bytes(build_batch([Record(i, NOON_MS, field, field) for i in range(20)]))
    assert decoded("require", data, (column,)) == decoded("off", data, (column,))


def test_a_number_of_records_that_cannot_be_true_is_left_to_array_code() -> None:
    """Before anything of that size is made."""
    kernel = installed_kernel().kernel
    assert kernel is not None
    ((_, header),) = iter_headers(sealed(bytes(70), (1 << 31) - 1, 100))
    assert record_columns(kernel, bytes(70), [header], [(0, 70)], None, {"value"}) is None
