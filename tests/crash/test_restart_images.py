"""A log begins anew behind its archive: a power cut anywhere leaves the log of before, or one with the archive's producers."""

import random

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

NAME, ID = TopicPartition("t", 0), b"i" * 16
CONFIG = LogConfig(flush_messages=1, retention_ms=-1, remote_storage_enable=True)


def opened(files):
    """The log directory and its log, as a start finds them."""
    directory = LogDirectory.load("/d", files)
    return directory, directory.open_log(NAME, ID, CONFIG, now_ms=1, others_have_it=True)


def producer_at(end_offset):
    """A snapshot with one producer, whose last batch ends there."""
    state = ProducerStateManager(str(NAME))
    last = end_offset - 1
    state.apply_batch(7, 0, 0, base_offset=last, last_offset=last, timestamp_ms=1, transactional=False)
    state.end_offset = end_offset
    return state.to_bytes()


@pytest.mark.parametrize("is_kept_aside", [False, True], ids=["removed", "kept aside"])
@pytest.mark.parametrize("begin", [80, 40, 20], ids=["above its end", "at its end", "below its end"])
def test_a_log_behind_the_archive_has_its_producers(journaled, power_cut, begin, is_kept_aside):
    """Without them a batch that is sent again is appended again, and a producer that was fenced is heard."""
    files = journaled()
    directory, log = opened(files)
    for number in range(40):
        log.append_as_leader(build_batch([Record(0, number, b"k", bytes(100))]), leader_epoch=1, now_ms=1)
    log.sync()
    directory.write_checkpoints({NAME: log})
    calls = len(files.journal)
    history = begin, (EpochEntry(1, 0),), producer_at(begin)
    if is_kept_aside:
        log.quarantine_and_restart_at(*history, now_ms=2, reason="its archive wins", log_start_offset=0)
    else:
        log.truncate_fully_and_start_at(*history, log_start_offset=0)
    log.sync()
    ends = set()
    for call in range(calls, len(files.journal) + 1):
        for seed in range(8):
            _, found = opened(power_cut(files, None, call, random.Random(seed)))
            begun = found.first_base_offset == begin
            assert not begun or 7 in found.producer_state.entries, (call - calls, seed)
            ends.add(found.log_end_offset)
    assert begin in ends
