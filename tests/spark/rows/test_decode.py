"""The columnar decoder against the plain record loop of wire.batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.cleaner.records import batch_payload, emptied_batch, opened_batch, rebuilt_batch, record_spans
from stratalog.spark.rows.decode import Window, decode_batches
from stratalog.spark.rows.schema import COLUMNS, arrow_schema
from stratalog.wire.batch import (
    Header,
    Record,
    build_batch,
    build_control_batch,
    iter_headers,
    iter_records,
)
from stratalog.wire.compression import Codec, compress
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

ORDERS = TopicPartition("orders", 3)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVERYTHING = Window(0, 1 << 62)
NOON_MS = 1_372_939_200_000


def time_of(timestamp_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=timestamp_ms)


def expected_rows(data: bytes, window: Window) -> list[dict[str, object]]:
    """The rows, by a loop over single records."""
    rows: list[dict[str, object]] = []
    for position, header in iter_headers(data):
        if header.is_control:
            continue
        for record in iter_records(data, position):
            if not window.start_offset <= record.offset < window.end_offset:
                continue
            headers = [{"key": item.key, "value": item.value} for item in record.headers] or None
            rows.append(
                {
                    "key": record.key,
                    "value": record.value,
                    "topic": ORDERS.topic,
                    "partition": ORDERS.partition,
                    "offset": record.offset,
                    "timestamp": time_of(record.timestamp_ms),
                    "timestampType": int(header.is_log_append_time),
                    "headers": headers,
                }
            )
    return rows


def decoded_rows(
    data: bytes, window: Window = EVERYTHING, columns: tuple[str, ...] = COLUMNS, **options: int
) -> list[dict[str, object]]:
    batches = list(decode_batches(data, ORDERS, columns, window, **options))
    schema = arrow_schema(columns)
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(schema)
        assert batch.num_rows
    return pa.Table.from_batches(batches, schema).to_pylist()


def records(first: int, count: int, value_bytes: int = 20) -> list[Record]:
    return [Record(first + i, NOON_MS + i, b"k%d" % i, bytes([i % 251]) * value_bytes) for i in range(count)]


blobs = st.none() | st.binary(max_size=40) | st.integers(0, 20_000).map(bytes)
headers = st.lists(st.builds(Header, st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=4).map(tuple)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Some batches of every codec, time stamp type and gap, control batches between them."""
    data = b""
    offset = draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 4)) == 0:
            data += build_control_batch(1, b"\0\0\0\0\0\0", offset=offset, timestamp_ms=NOON_MS, leader_epoch=0)
            offset += 1
            continue
        content = []
        for _ in range(draw(st.integers(1, 6))):
            timestamp_ms = draw(st.integers(-1, 1 << 42))
            content.append(Record(offset, timestamp_ms, draw(blobs), draw(blobs), draw(headers)))
            offset += draw(st.sampled_from([1, 1, 1, 100]))
        append_time = draw(st.none() | st.integers(0, 1 << 42))
        data += build_batch(content, codec=draw(st.sampled_from(Codec)), log_append_time_ms=append_time)
        offset += draw(st.sampled_from([0, 0, 7]))
    return data


@pytest.mark.story
@given(logs(), st.data())
def test_rows_are_those_of_a_record_loop(data: bytes, choice: st.DataObject) -> None:
    """Random codecs, nulls, headers, gaps, windows and groupings give the rows of a plain loop, in its order."""
    offsets = [header.base_offset for _, header in iter_headers(data)] + [0, 1 << 62]
    window = Window(
        choice.draw(st.sampled_from(offsets)) + choice.draw(st.integers(0, 2)), choice.draw(st.sampled_from(offsets))
    )
    columns = tuple(choice.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True)))
    expected = [{name: row[name] for name in columns} for row in expected_rows(data, window)]
    assert decoded_rows(data, window, columns, batch_bytes=choice.draw(st.sampled_from([1, 300, 2 << 20]))) == expected


def test_records_of_8_kib_and_more_are_found() -> None:
    """A record length of three or four varint bytes leads to the next record."""
    data = bytes(
        build_batch([Record(i, NOON_MS, None, bytes(size)) for i, size in enumerate((8000, 8200, 2_200_000, 1))])
    )
    assert [len(row["value"]) for row in decoded_rows(data)] == [8000, 8200, 2_200_000, 1]  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_long_batches_of_equal_records_are_those_of_a_record_loop(codec: Codec) -> None:
    """Where deltas grow by a byte, a value changes its size or headers begin, rows stay right."""
    content = [Record(i, NOON_MS + 3 * i, None, bytes(50 + i // 500), ()) for i in range(1200)]
    content += [Record(i, NOON_MS - i, b"k", b"v", (Header("h", b"x"),)) for i in range(1200, 1500)]
    more = [Record(2000 + i, NOON_MS, None, None) for i in range(700)]
    data = bytes(build_batch(content, codec=codec)) + bytes(build_batch(more, codec=codec))
    assert decoded_rows(data, Window(3, 2500)) == expected_rows(data, Window(3, 2500))


def test_batches_are_grouped_to_the_asked_size() -> None:
    """Many small record batches become few Arrow batches."""
    data = b"".join(build_batch(records(i * 10, 10)) for i in range(100))
    sizes = [batch.num_rows for batch in decode_batches(data, ORDERS, COLUMNS, EVERYTHING, batch_bytes=8000)]
    assert sum(sizes) == 1000
    assert len(sizes) < 8


def test_librdkafka_snappy_is_read() -> None:
    """A raw snappy block, without the Java client's framing, is decompressed."""
    import cramjam

    plain = bytes(build_batch(records(0, 5)))
    payload = bytes(cramjam.snappy.compress_raw(plain[61:]))
    header = bytearray(plain[:61] + payload)
    header[22] |= Codec.SNAPPY
    assert len(decoded_rows(seal(header))) == 5


def seal(batch: bytearray) -> bytes:
    """``batch`` with its length and CRC made right again."""
    from crc32c import crc32c

    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def test_aborted_batches_are_no_rows_and_uncommitted_readers_get_them() -> None:
    """A transactional batch inside an aborted transaction of its producer is skipped, another producer's is not."""
    data = (
        bytes(build_batch(records(0, 2), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
        + bytes(build_batch(records(2, 2), producer_id=8, producer_epoch=0, base_sequence=0, transactional=True))
        + bytes(
            build_control_batch(
                0, b"\0\0\0\0\0\0", offset=4, timestamp_ms=NOON_MS, leader_epoch=0, producer_id=7, transactional=True
            )
        )
        + bytes(build_batch(records(5, 2), producer_id=7, producer_epoch=0, base_sequence=2, transactional=True))
    )
    committed = Window(0, 100, aborted={7: [(0, 4)]})
    assert [row["offset"] for row in decoded_rows(data, committed)] == [2, 3, 5, 6]
    assert [row["offset"] for row in decoded_rows(data, Window(0, 100, aborted=None))] == [0, 1, 2, 3, 5, 6]
    both = Window(0, 100, aborted={7: [(0, 4), (5, 9)], 8: [(90, 99)]})
    assert [row["offset"] for row in decoded_rows(data, both)] == [2, 3]


def test_an_idempotent_batch_outside_transactions_is_never_filtered() -> None:
    """Only transactional batches can be aborted."""
    data = bytes(build_batch(records(0, 2), producer_id=7, producer_epoch=0, base_sequence=0))
    assert len(decoded_rows(data, Window(0, 100, aborted={7: [(0, 4)]}))) == 2


def test_without_record_columns_nothing_is_decompressed() -> None:
    """Counting by batch headers does not open the payload of a batch that lies whole inside the window."""
    broken = bytearray(build_batch(records(0, 9), codec=Codec.ZSTD))
    broken[61:] = bytes(len(broken) - 61)
    data = seal(broken)
    assert decoded_rows(data, columns=("partition",)) == [{"partition": 3}] * 9
    with pytest.raises(Corrupt, match="zstd"):
        decoded_rows(data, columns=("offset",))


def test_counting_trims_a_batch_that_reaches_over_the_border() -> None:
    """Even without an offset column rows outside the window are not counted."""
    data = bytes(build_batch(records(0, 10), codec=Codec.LZ4))
    assert len(decoded_rows(data, Window(3, 7), ("topic",))) == 4


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("window", [Window(1, 20), Window(0, 19), Window(1, 9), Window(11, 20)])
def test_a_cut_batch_stands_beside_whole_ones_that_are_not_opened(codec: Codec, window: Window) -> None:
    """Without columns of records, those that a border cuts are counted one by one, and compressed neighbours are not."""
    data = bytes(build_batch(records(0, 10))) + bytes(build_batch(records(10, 10), codec=codec))
    expected = [{"topic": row["topic"]} for row in expected_rows(data, window)]
    assert decoded_rows(data, window, ("topic",)) == expected


def test_a_batch_emptied_by_the_cleaner_gives_no_row() -> None:
    """A header that holds a producer's place with no record is passed over."""
    batch = bytearray(build_batch(records(0, 1))[:61])
    batch[57:61] = bytes(4)
    assert decoded_rows(seal(batch) + bytes(build_batch(records(1, 1))))[0]["offset"] == 1


@pytest.mark.parametrize("position", [17, 30, 61, 70, -1])
def test_a_flipped_byte_is_reported_with_partition_and_offset(position: int) -> None:
    """No damaged batch becomes rows."""
    data = bytearray(build_batch(records(40, 3)))
    data[position] ^= 0x10
    with pytest.raises(Corrupt, match=r"orders-3, offset 40.*CRC"):
        decoded_rows(bytes(data))


def test_torn_bytes_are_reported() -> None:
    """A range that does not end on a batch border is an error, not a short answer."""
    data = bytes(build_batch(records(0, 3)))
    with pytest.raises(Corrupt, match=r"orders-3.*no record batch"):
        decoded_rows(data + data[:40])


def set_count(batch: bytearray, count: int) -> bytes:
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    return seal(batch)


@pytest.mark.parametrize("count", [-1, 2, 4, 1 << 30])
def test_a_wrong_record_count_is_corrupt_even_under_a_right_crc(count: int) -> None:
    """A producer's lie about its records neither crashes nor becomes rows."""
    with pytest.raises(Corrupt, match="orders-3"):
        decoded_rows(set_count(bytearray(build_batch(records(0, 3))), count))


HUGE = b"\xfe" * 8 + b"\x7f"  # a varint of some 2 ** 62


@pytest.mark.parametrize(
    ("payload", "count", "column"),
    [
        (b"\x01" + b"\x18" + bytes(12), 2, "offset"),  # a length of -1
        (b"\x0a" + bytes(5) + b"\x0e" + bytes(7), 2, "offset"),  # a length of 5, one too few
        (b"\x20" + bytes(3) + HUGE + bytes(4), 1, "key"),  # a key beyond its record
        (b"\x20" + bytes(3) + b"\x16" + bytes(12), 1, "key"),  # a key that leaves no room for the rest
        (b"\x20" + bytes(4) + HUGE + bytes(3), 1, "value"),
        (b"\x20" + bytes(4) + b"\x16" + bytes(11), 1, "value"),
        (b"\x20" + bytes(5) + HUGE + bytes(2), 1, "headers"),
    ],
)
def test_records_that_contradict_themselves_are_corrupt(payload: bytes, count: int, column: str) -> None:
    """Lengths inside a record are checked, whichever column is asked for; nothing reads beyond it."""
    batch = bytearray(build_batch(records(0, 1))[:61]) + payload
    with pytest.raises(Corrupt, match="orders-3"):
        decoded_rows(set_count(batch, count), columns=(column,))


@pytest.mark.story
@given(logs(), st.integers(0, 1 << 20), st.binary(min_size=1, max_size=6))
def test_no_payload_crashes_the_decoder(data: bytes, position: int, rubbish: bytes) -> None:
    """Rubbish under a right CRC gives rows or `Corrupt`, nothing else."""
    _, header = next(iter_headers(data))
    batch = bytearray(data[: header.size_bytes])
    at = 61 + position % (len(batch) - 61)
    batch[at : at + len(rubbish)] = rubbish[: len(batch) - at]
    try:
        decoded_rows(seal(batch))
    except Corrupt:
        return


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_after_cleaning_are_decoded(codec: Codec) -> None:
    """Gaps, a delete horizon in the place of the base timestamp, a batch without records."""
    batches = [build_batch(records(first, 5), codec=codec) for first in (0, 5, 10)]
    cleaned = b""
    for horizon, batch in zip((None, NOON_MS + 86_400_000), batches, strict=False):
        header = next(iter_headers(batch))[1]
        payload = batch_payload(header, memoryview(batch))
        cleaned += rebuilt_batch(header, payload, record_spans(header, payload)[1::2], horizon)
    cleaned += emptied_batch(next(iter_headers(batches[2]))[1])
    rows = decoded_rows(cleaned)
    assert rows == expected_rows(cleaned, EVERYTHING)
    assert [row["offset"] for row in rows] == [1, 3, 6, 8]
    assert [row["timestamp"] for row in rows] == [time_of(NOON_MS + delta) for delta in (1, 3, 1, 3)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("damage", ["records", "bytes"])
def test_damaged_batches_are_left_out_where_damage_is_reported(codec: Codec, damage: str) -> None:
    """Whether the CRC fails or the records do not fit; without anybody to tell they are an error."""
    made = [build_batch(records(3 * i, 3), codec=codec, leader_epoch=0) for i in range(5)]
    if damage == "bytes":
        made[2][-1] ^= 1
    else:
        last = Record(8, NOON_MS, b"k", b"v")
        made[2] = build_batch([*records(6, 2), last], codec=codec, leader_epoch=0)
        made[2][60] = 9  # the number of records
        made[2][17:21] = crc32c(bytes(made[2][21:])).to_bytes(4, "big")
    data = b"".join(map(bytes, made))
    told: list[tuple[int, int, str]] = []
    batches = decode_batches(data, ORDERS, ("offset",), EVERYTHING, on_damage=lambda *what: told.append(what))
    assert [o for batch in batches for o in batch.column(0).to_pylist()] == [*range(6), *range(9, 15)]
    assert [what[:2] for what in told] == [(6, 9)]
    with pytest.raises(Corrupt, match="orders-3"):
        decoded_rows(data)


def test_a_part_of_the_bytes_is_decoded_where_it_lies() -> None:
    """Without those around it; the span must be whole batches."""
    made = [bytes(build_batch(records(3 * i, 3), leader_epoch=0)) for i in range(4)]
    data = b"".join(made)
    span = (len(made[0]), len(data) - len(made[3]))
    (batch,) = decode_batches(data, ORDERS, ("offset",), EVERYTHING, span=span)
    assert batch.column(0).to_pylist() == list(range(3, 9))
    with pytest.raises(Corrupt, match="1 bytes behind the last whole batch"):
        list(decode_batches(data, ORDERS, ("offset",), EVERYTHING, span=(span[0], span[1] + 1)))


def test_bytes_that_were_checked_are_not_checked_again() -> None:
    """A CRC over all of them has been compared; what is no batch is refused all the same."""
    data = bytearray(build_batch(records(0, 3), leader_epoch=0))
    data[17] ^= 1
    with pytest.raises(Corrupt, match="CRC"):
        list(decode_batches(bytes(data), ORDERS, ("offset",), EVERYTHING))
    (batch,) = decode_batches(bytes(data), ORDERS, ("offset",), EVERYTHING, checked=True)
    assert batch.column(0).to_pylist() == [0, 1, 2]
    data[16] = 1
    with pytest.raises(Corrupt, match="magic 1"):
        list(decode_batches(bytes(data), ORDERS, ("offset",), EVERYTHING, checked=True))


def numbered(*deltas: int, base: int = 40, last: int | None = None, codec: Codec = Codec.NONE) -> bytes:
    """A batch of records with these offset deltas and the keys 0, 1, 2 ..., which a client has sealed itself."""
    payload = b"".join(
        bytes([16, 0, 0, delta << 1 & 0x7F, 2, 48 + number, 2, 120, 0]) for number, delta in enumerate(deltas)
    )
    count = len(deltas)
    batch = bytearray(build_batch(records(base, count), codec=codec)[:61])
    batch[23:27] = (count - 1 if last is None else last).to_bytes(4, "big")
    return seal(batch + compress(codec, payload))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("deltas", [(50,), (1, 0), (0, 0, 0), (0, 2, 1), (1, 2, 3), (0, 63)])
def test_offset_deltas_that_a_client_made_up_are_numbered_anew(deltas: tuple[int, ...], codec: Codec) -> None:
    """As the cleaner does; batches beside it keep their own. By a window, too."""
    count = len(deltas)
    odd = numbered(*deltas, codec=codec)
    data = bytes(build_batch(records(35, 5))) + odd + bytes(build_batch(records(40 + count, 5)))
    rows = decoded_rows(data)
    assert [row["offset"] for row in rows] == [*range(35, 45 + count)]
    assert [row["key"] for row in rows[5 : 5 + count]] == [b"%d" % number for number in range(count)]
    assert [row["offset"] for row in decoded_rows(data, Window(40, 41))] == [40]
    kept = opened_batch(next(iter_headers(odd))[1], memoryview(odd), record_spans)[1]
    assert [40 + span[3] for span in kept] == [row["offset"] for row in rows[5 : 5 + count]]


def test_offsets_with_gaps_stay_and_more_records_than_offsets_are_corrupt() -> None:
    """Gaps are what a compaction leaves."""
    assert [row["offset"] for row in decoded_rows(numbered(0, 3, 9, last=9))] == [40, 43, 49]
    with pytest.raises(Corrupt, match=r"orders-3.*more records than offsets"):
        decoded_rows(numbered(0, 1, 1, last=1))
