"""A partition that is only read, in place of one with a log."""

from __future__ import annotations

import asyncio

import pytest

from stratalog.broker.runtime.metrics import TopicMetrics
from stratalog.broker.views.archived_log import LEADER_EPOCH, archived_log
from stratalog.hot.segments.batch_search import TimestampOffset
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition


class Archive:
    """An archive of the offsets ``[start, end)``."""

    def __init__(self, start: int = 0, end: int = 0, epochs=()) -> None:
        self.start_offset, self.end_offset, self.known = start, end, True
        self.leader_epochs = tuple(LeaderEpoch(*entry) for entry in epochs)
        self.asked: list[tuple] = []

    def read(self, _reader, offset, max_bytes, *, min_one_batch):
        """Never has a chunk."""
        self.asked.append((offset, max_bytes, min_one_batch))

    def throttle_ms(self, _reader):
        """Throttles no reader."""
        return 0

    def crossed(self, _reader, _offset):
        """Keeps nothing for readers."""

    def may_hold(self, _timestamp_ms, _before_offset):
        """Maybe."""
        return True

    async def find_timestamp(self, timestamp_ms, from_offset, before_offset):
        """The last one."""
        self.asked.append((timestamp_ms, from_offset, before_offset))
        return TimestampOffset(timestamp_ms, before_offset - 1, 0)

    async def find_max_timestamp(self, before_offset):
        """The first one."""
        return TimestampOffset(1, 0, before_offset)


@pytest.fixture
def make():
    """Makes a partition on an archive."""

    def partition(archive):
        return archived_log(TopicPartition("t", 0), b"i" * 16, archive, TopicMetrics(), now_ms=lambda: 7)

    return partition


def read(unified, offset):
    """The answer to a reader at an offset."""
    end = unified.partition.high_watermark
    return unified.read("reader", offset, limit=end, max_bytes=10, committed=True, min_one_batch=True)


def test_it_ends_where_its_archive_ends_and_grows_with_it(make):
    """Everything below is committed, stable and remote."""
    archive = Archive(3, 10)
    unified = make(archive)
    partition, log = unified.partition, unified.log
    assert (unified.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (3, 10, 10)
    assert (partition.high_watermark, partition.last_stable_offset) == (10, 10)
    archive.end_offset = 12
    assert (log.log_end_offset, partition.last_stable_offset) == (12, 12)
    archive.start_offset = 20  # a log start that moved beyond all that was archived
    assert (unified.log_start_offset, log.log_end_offset) == (20, 20)


def test_reads_go_to_the_archive_and_stop_at_its_end(make):
    """Outside of it an offset is out of range, at its end there is nothing yet."""
    archive = Archive(3, 10)
    unified = make(archive)
    assert read(unified, 4).pending
    assert not read(unified, 10).pending
    assert archive.asked == [(4, 10, True)]
    for offset in (2, 11):
        with pytest.raises(KafkaError) as caught:
            read(unified, offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_times_are_looked_up_in_the_archive_alone(make):
    """From its start to its end."""
    archive = Archive(3, 10)
    unified = make(archive)
    found = asyncio.run(unified.find_timestamp(5, committed=True, search=None))
    assert (found.offset, archive.asked) == (9, [(5, 3, 10)])
    assert asyncio.run(unified.find_max_timestamp(search=None)).leader_epoch == 10
    assert asyncio.run(make(Archive()).find_timestamp(5, committed=True, search=None)) is None


def test_epochs_are_those_of_the_archive_and_clients_get_one_above_all(make):
    """History by the manifest; what was imported without an epoch has none."""
    unified = make(Archive(0, 10, [(-1, 0), (2, 4), (5, 8)]))
    assert unified.offset_for_leader_epoch(2) == (2, 8)
    assert unified.log.leader_epochs.epoch_for(9) == 5
    unified.partition.check_leader_epoch(-1)
    unified.partition.check_leader_epoch(LEADER_EPOCH)
    unified.partition.check_reader_epoch(LEADER_EPOCH)
    for epoch, code in ((5, ErrorCode.FENCED_LEADER_EPOCH), (LEADER_EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(KafkaError) as caught:
            unified.partition.check_leader_epoch(epoch)
        assert caught.value.code is code


def test_before_the_manifest_is_known_clients_hear_why(make):
    """An error that they try again after; and it is noted that they asked."""
    archive = Archive()
    unified = make(archive)
    archive.known = False
    unified.partition.held_back = "it is damaged"
    with pytest.raises(KafkaError, match="it is damaged") as caught:
        unified.partition.check_leader_epoch(-1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert unified.partition.asked_ms == 7


def test_a_failing_cache_is_reported(make, caplog):
    """There is no directory to take offline."""
    directory = make(Archive()).partition.directory
    directory.report(OSError("no space"))
    assert directory.offline is None
    assert "no space" in caplog.text
