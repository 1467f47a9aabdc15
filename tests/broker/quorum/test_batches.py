"""Batches of the metadata log, against bytes that Kafka 4.3.1 has written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.broker.quorum.batches import control_batch, data_batch, parse_batches
from stratalog.metadata.raft.messages import Batch, KRaftVersion, LeaderChange, Voters
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from stratalog.wire.batch import Record, build_batch, iter_records, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.control import ControlType, SnapshotFooterRecord, encode_key, encode_record

DIRECTORY_ID = bytes.fromhex("085b8afed601400ba3119fd5922dda4f")
FIRST_OF_KAFKA = bytes.fromhex(
    "0000000000000000000000a2000000010298bb5e15002000000002000001a209a9f4b6000001a209a9f4b6ffffffffffffffffffffffffff"
    "ff000000033a00000008000000022600000000000102000000010002000000010000001e00000208000000050a0000000100008201000004"
    "08000000066e00000200000001085b8afed601400ba3119fd5922dda4f020b434f4e54524f4c4c45520a3132372e302e302e3198b5000000"
    "000100000000"
)
"""The first batch of a log that ``kafka-storage format --standalone`` and one start have made."""
FIRST_OF_KAFKA_MS = 0x1A209A9F4B6
DATA_OF_KAFKA = bytes.fromhex(
    "000000000000000c00000112000000010214ee000c000000000000000001a209a9f655000001a209a9f655ffffffffffffffffffffffffff"
    "ff00000001be0300000001b003011b000000000110dfdbba93b84d469de2ff5707a5e0ee00020b434f4e54524f4c4c45520a3132372e302e"
    "302e3198b5000000080e67726f75702e76657273696f6e00000001000e6b726166742e76657273696f6e0000000100116d65746164617461"
    "2e76657273696f6e0007001e000e73686172652e76657273696f6e00000001001073747265616d732e76657273696f6e0000000100147472"
    "616e73616374696f6e2e76657273696f6e000000020021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e00"
    "000001000000"
)
"""A RegisterControllerRecord of the same log."""
DATA_OF_KAFKA_MS = 0x1A209A9F655


def test_control_batches_have_the_bytes_of_kafka():
    """The first batch of an epoch: who leads, the level of the quorum, its voters."""
    (batch,) = parse_batches(FIRST_OF_KAFKA)
    voter = Voter(ReplicaKey(1, DIRECTORY_ID), (Endpoint("CONTROLLER", "127.0.0.1", 39093),), (0, 1))
    leader = LeaderChange(1, (ReplicaKey(1),), (ReplicaKey(1),))
    assert batch == Batch(0, 3, 1, (leader, KRaftVersion(1), Voters(VoterSet((voter,)))), memoryview(FIRST_OF_KAFKA))
    assert control_batch(batch, timestamp_ms=FIRST_OF_KAFKA_MS) == FIRST_OF_KAFKA


def test_batches_of_records_have_the_bytes_of_kafka():
    """The records of the controller are what is in them, and nothing is looked at."""
    (batch,) = parse_batches(DATA_OF_KAFKA)
    assert batch == Batch(12, 13, 1, (), memoryview(DATA_OF_KAFKA))
    values = [record.value for record in iter_records(DATA_OF_KAFKA)]
    assert data_batch(values, base_offset=12, epoch=1, timestamp_ms=DATA_OF_KAFKA_MS) == DATA_OF_KAFKA


def test_control_records_come_out_as_they_went_in(drawn):
    """With their offsets and their epoch."""

    @settings(deadline=None)
    @given(st.lists(drawn.control_records, min_size=1, max_size=4).map(tuple), st.integers(0, 2**62), drawn.epochs)
    def check(records, base, epoch):
        batch = Batch(base, base + len(records), epoch, records)
        (read,) = parse_batches(control_batch(batch, timestamp_ms=5))
        assert (read.base_offset, read.end_offset, read.epoch, read.control) == (base, batch.end_offset, epoch, records)

    check()


@settings(deadline=None)
@given(st.lists(st.lists(st.binary(max_size=30), min_size=1, max_size=5), max_size=5), st.data())
def test_the_whole_batches_of_a_cut_are_found(groups, data):
    """Each with its own bytes; one that is cut off at the end is left out."""
    blob, ends, offset = b"", [0], 7
    for values in groups:
        blob += data_batch(values, base_offset=offset, epoch=2, timestamp_ms=1)
        offset += len(values)
        ends.append(len(blob))
    cut = data.draw(st.integers(0, len(blob)))
    read = parse_batches(blob[:cut])
    whole = [at for at in ends if at <= cut][1:]
    assert b"".join(batch.data for batch in read) == blob[: [0, *whole][-1]]
    assert len(read) == len(whole)
    expected = 7
    for batch, values in zip(read, groups, strict=False):
        assert (batch.base_offset, batch.end_offset, batch.control) == (expected, expected + len(values), ())
        assert [record.value for record in iter_records(batch.data)] == values
        expected = batch.end_offset


@settings(deadline=None)
@given(st.data())
def test_no_damaged_bit_is_read(data):
    """It fails the CRC, or, in the offset and the epoch outside of it, makes another batch of the same bytes."""
    at = data.draw(st.integers(0, len(FIRST_OF_KAFKA) * 8 - 1))
    damaged = bytearray(FIRST_OF_KAFKA)
    damaged[at // 8] ^= 1 << at % 8
    try:
        read = parse_batches(damaged, "the log")
    except Corrupt as error:
        assert str(error).startswith("the log, at byte 0: ")
    else:
        assert at // 8 < 16
        assert [len(batch.data) for batch in read] in ([], [len(damaged)])


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (
            build_batch([Record(5, 0, None, b"a"), Record(7, 0, None, b"b")], leader_epoch=1),
            "has 2 records up to offset 7",
        ),
        (build_batch([Record(5, 0, None, b"a")], leader_epoch=-1), "of epoch -1"),
        (build_batch([Record(-1, 0, None, b"a")], leader_epoch=1), "at offset -1"),
    ],
    ids=["gap", "no epoch", "no offset"],
)
def test_a_batch_that_no_leader_writes_is_corrupt(batch, words):
    """The quorum counts records by offsets: a gap would move all that follow."""
    with pytest.raises(Corrupt, match=words):
        parse_batches(batch)


def control(rows, **options):
    return build_batch([Record(at, 0, key, value) for at, key, value in rows], leader_epoch=1, control=True, **options)


FOOTER = encode_record(SnapshotFooterRecord())
LEVEL = encode_key(ControlType.KRAFT_VERSION)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (
            control([(0, encode_key(ControlType.SNAPSHOT_FOOTER), FOOTER)]),
            "SnapshotFooterRecord has no place in the log",
        ),
        (control([(0, b"\0\0\0\x09", b"\0\0")]), "type 9, which is not known"),
        (control([(0, None, b"\0\0")]), "key of a control record has 4 bytes, not 0"),
        (control([(0, LEVEL, b"\0\0\0\x02\0")]), "kraft.version is 2, known are 0 to 1: a newer release wrote it"),
        (control([(0, LEVEL, b"\0\0\0")]), "cut off|truncated|ends|needs"),
        (control([(0, LEVEL, b"\0\0\0\x01\0")], codec=Codec.GZIP), "is compressed"),
        (
            control([(0, LEVEL, b"\0\0\0\x01\0"), (2, LEVEL, b"\0\0\0\x01\0"), (2, LEVEL, b"\0\0\0\x01\0")]),
            "offset 2 in",
        ),
    ],
    ids=["of a snapshot", "unknown type", "no key", "unknown level", "cut off", "compressed", "offsets"],
)
def test_a_control_record_that_cannot_be_used_is_corrupt(batch, words):
    """The place of its batch is named."""
    first = data_batch([b"before"], base_offset=0, epoch=1, timestamp_ms=0)
    with pytest.raises(Corrupt, match=words) as error:
        parse_batches(first + batch, "the log")
    assert str(error.value).startswith(f"the log, at byte {len(first)}: ")


def test_batches_are_of_the_controller_and_not_of_a_producer():
    """No producer, no compression, one time for all records."""
    header = read_header(data_batch([b"a", b"b"], base_offset=3, epoch=4, timestamp_ms=9))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.attributes) == (-1, -1, -1, 0)
    assert (header.base_timestamp, header.max_timestamp) == (9, 9)
    assert (header.base_offset, header.next_offset, header.partition_leader_epoch) == (3, 5, 4)
