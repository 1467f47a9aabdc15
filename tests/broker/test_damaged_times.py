"""Looking up times in a log with a missing range: the archive is asked for what the disk has lost."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.segments.batch_search import TimestampOffset
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch, iter_headers
from stratalog.wire.topic import TopicPartition

CONFIG = LogConfig(remote_storage_enable=True)


class Archive:
    """Notes what is asked; every offset ``n`` has the timestamp ``1000 + n``."""

    start_offset = 0

    def __init__(self, end_offset):
        self.end_offset = end_offset
        self.asked = []

    async def find_timestamp(self, timestamp_ms, from_offset, before_offset):
        self.asked.append((from_offset, before_offset))
        offset = max(from_offset, timestamp_ms - 1000)
        return TimestampOffset(1000 + offset, offset, 1) if offset < before_offset else None

    async def find_max_timestamp(self, before_offset):
        self.asked.append(before_offset)
        return TimestampOffset(999 + before_offset, before_offset - 1, 1)


def served(tmp_path, archived, harm):
    """Segments of ten records, each in a batch of its own; the second one is damaged at its third batch."""
    log = Log.open(
        str(tmp_path / "t-0"), TopicPartition("t", 0), bytes(16), CONFIG, files=RealFilesystem(), now_ms=0, clean=True
    )
    for number in range(31):
        if number and number % 10 == 0:
            log.roll()
        log.append_as_leader(memoryview(build_batch([Record(0, 1000 + number, None, b"v")])), leader_epoch=1, now_ms=0)
    log.write_queued()
    path = tmp_path / "t-0" / f"{10:020d}.log"
    data = bytearray(path.read_bytes())
    harm(data, [position for position, _ in iter_headers(data)][2])
    path.write_bytes(data)
    partition = SimpleNamespace(
        log=log,
        others_have_it=False,
        topic_partition=log.topic_partition,
        topic_id=bytes(16),
        high_watermark=31,
        last_stable_offset=31,
    )
    return UnifiedLog(partition, SimpleNamespace(), Archive(archived))


def magic(data, position):
    data[position + 16] ^= 0x40


async def open_batch(search):
    return search.find()


@pytest.mark.parametrize("wanted", [0, 5, 11, 12, 15, 19, 20, 25, 30])
async def test_a_time_is_found_where_its_record_is(tmp_path, wanted):
    """On the disk, or in the archive."""
    unified = served(tmp_path, 30, magic)
    found = await unified.find_timestamp(1000 + wanted, committed=False, search=open_batch)
    assert found.offset == wanted
    assert unified.remote.asked == ([(12, 20)] if 12 <= wanted < 20 else unified.remote.asked)


async def test_a_time_behind_a_lost_range_is_not_guessed(tmp_path):
    """The first record at that time may have been there."""
    unified = served(tmp_path, 14, magic)
    assert (await unified.find_timestamp(1013, committed=False, search=open_batch)).offset == 13
    with pytest.raises(MissingRange):
        await unified.find_timestamp(1015, committed=False, search=open_batch)


async def test_the_largest_timestamp_may_be_in_a_missing_range(tmp_path):
    """So the archive is asked up to its end, and the disk for what comes later."""
    unified = served(tmp_path, 30, magic)
    await unified.find_timestamp(1015, committed=False, search=open_batch)
    unified.remote.asked.clear()
    assert (await unified.find_max_timestamp(open_batch)).offset == 30
    assert unified.remote.asked == [20]
