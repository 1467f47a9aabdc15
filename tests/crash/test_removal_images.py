"""Power cuts while segments leave a log: what was removed on purpose is no lost file."""

from __future__ import annotations

import random

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.log.log import Log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

PARTITION = TopicPartition("flights", 0)
TOPIC_ID = bytes(range(16))


def opened(files, *, tiered: bool) -> tuple[LogDirectory, Log]:
    config = LogConfig(
        segment_bytes=600,
        index_interval_bytes=100,
        file_delete_delay_ms=0,
        retention_ms=-1,
        remote_storage_enable=tiered,
    )
    directory = LogDirectory.load("/d", files)
    return directory, directory.open_log(PARTITION, TOPIC_ID, config, now_ms=1)


@pytest.mark.parametrize("cycle", [False, True], ids=["no sync", "a sync"])
@pytest.mark.parametrize(
    "tiered", [pytest.param(False, marks=pytest.mark.story, id="local"), pytest.param(True, id="tiered")]
)
def test_no_offset_is_missing_after_a_removal(journaled, power_cut, tiered, cycle):
    """Cut at every call of it, and again at every call of the recovery, whether a sync cycle came before the removal or not."""
    files = journaled()
    directory, log = opened(files, tiered=tiered)
    for number in range(12):
        batch = build_batch([Record(0, number, b"key", bytes(200))])
        log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=number)
        log.sync()
    directory.write_checkpoints({PARTITION: log})
    begin = len(files.journal)
    for segment in [one for one in log.segments() if not one.active][:3]:
        log.delete_local_before(segment.end_offset)
        if cycle:
            log.sync()
        for now_ms in (1, 2):
            removal = log.take_removal(now_ms)
            if removal is not None:
                removal.run()
    for index in range(begin, len(files.journal) + 1):
        for seed in range(12):
            rng = random.Random(seed)
            image = power_cut(files, None, index, rng)
            frozen = power_cut(image, image, 0, rng)
            _, found = opened(image, tiered=tiered)
            assert (found.missing_ranges(), found.log_end_offset) == ([], 12), (index, seed)
            again = power_cut(image, frozen, rng.randrange(len(image.journal) + 1), rng)
            _, found = opened(again, tiered=tiered)
            assert (found.missing_ranges(), found.log_end_offset) == ([], 12), (index, seed, "again")


def test_producers_are_known_behind_all_that_leaves_in_the_turn_of_its_roll(journaled, power_cut):
    """Retention freezes an idle segment, lets all of them go, and their content goes before anything is synced again."""
    files = journaled()
    directory, log = opened(files, tiered=False)
    for sequence in range(4):
        options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
        batch = build_batch([Record(0, sequence, b"key", bytes(200))], **options)
        log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=sequence)
    log.sync()
    directory.write_checkpoints({PARTITION: log})
    log.roll()
    log.delete_local_before(4)
    for now_ms in (1, 2):
        removal = log.take_removal(now_ms)
        if removal is not None:
            removal.run()
    for seed in range(20):
        _, found = opened(power_cut(files, None, len(files.journal), random.Random(seed)), tiered=False)
        assert found.log_end_offset == 4
        assert [(first, one.last_sequence) for first, one in found.producer_state.open_transactions()] == [(0, 3)]


def test_producers_are_known_where_the_name_of_a_segment_comes_back(journaled, power_cut):
    """The name that went last is not durable: with its snapshot gone the next start reads that segment and knows none of before."""
    files = journaled()
    _, log = opened(files, tiered=False)
    for number in range(12):
        options = {"producer_id": 7 + (number > 0), "producer_epoch": 0, "base_sequence": number, "transactional": True}
        batch = build_batch([Record(0, number, b"key", bytes(200))], **options)
        log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=number)
        log.sync()
    begin = len(files.journal)
    for _ in range(3):
        log.delete_local_before(log.segments()[1].base_offset)
        log.sync()
    for index in range(begin, len(files.journal) + 1):
        for seed in range(12):
            _, found = opened(power_cut(files, None, index, random.Random(seed)), tiered=False)
            assert [first for first, _ in found.producer_state.open_transactions()] == [0, 1], (index, seed)
