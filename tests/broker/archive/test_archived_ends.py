"""Tests of broker/archive/archived_ends.py: markers that a log behind its archive gets again."""

from types import SimpleNamespace

import pytest

from stratalog.broker.archive.archived_ends import end_archived, open_below
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)


class Rig:
    """A log with open transactions of producers 7, 8 and 9, at offsets 0, 2 and 4."""

    def __init__(self, path) -> None:
        self.log = Log.open(
            str(path / "t-0"), NAME, bytes(16), LogConfig(), files=RealFilesystem(), now_ms=0, clean=True
        )
        for producer_id in (7, 8, 9):
            self.append(producer_id)
        self.refusals, self.timers = [], []
        partition = SimpleNamespace(leader=SimpleNamespace(append_marker=self.append_marker))
        self.unified = SimpleNamespace(log=self.log, partition=partition, topic_partition=NAME)

    def append(self, producer_id, epoch=3, sequence=0):
        """Two records of a transaction."""
        records = [Record(n, 1000, None, b"v") for n in range(2)]
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        return self.log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=0)

    def append_marker(self, marker, _version, acknowledge):
        if self.refusals:
            acknowledge(self.refusals.pop())
            return
        acknowledge(
            self.log.append_as_leader(memoryview(marker), leader_epoch=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
        )

    def end(self, remote_end, aborted=()):
        end_archived(
            self.unified, remote_end, set(aborted), now_ms=lambda: 5, later=lambda _, call: self.timers.append(call)
        )

    def open(self):
        return [entry.producer_id for _, entry in self.log.producer_state.open_transactions()]


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_transactions_with_archived_records_end_as_the_archive_says(rig):
    """Those above its end are the coordinator's."""
    assert [first for first, _ in open_below(rig.log, 3)] == [0, 2]
    rig.end(3, [(8, 2)])
    assert rig.open() == [9]
    aborted = rig.log.aborted_transactions(0, rig.log.log_end_offset)
    assert [(one.producer_id, one.first_offset) for one in aborted] == [(8, 2)]


def test_an_aborted_transaction_is_known_by_its_first_offset_too(rig):
    """Another one of the same producer may overlap the object."""
    rig.end(6, [(7, 2), (8, 0), (9, 5)])
    assert rig.open() == []
    assert rig.log.aborted_transactions(0, rig.log.log_end_offset) == []


def test_the_producer_of_an_ended_transaction_writes_no_more(rig):
    """It has the epoch of the time that is missing."""
    rig.end(1)
    with pytest.raises(KafkaError) as refusal:
        rig.append(7, sequence=2)
    assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_that_finds_no_room_is_tried_again(rig):
    """Until then the transaction is open."""
    rig.refusals = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")]
    rig.end(1)
    assert rig.open() == [7, 8, 9]
    rig.timers.pop()()
    assert rig.open() == [8, 9]
    assert rig.timers == []


def test_a_partition_that_is_led_no_longer_gets_no_marker(rig):
    """A retry that comes after the role has ended leaves the transaction to the next leader."""
    rig.refusals = [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another epoch")]
    rig.end(1)
    rig.unified.partition.leader = None
    rig.timers.pop()()
    assert rig.open() == [7, 8, 9]
    assert rig.timers == []
