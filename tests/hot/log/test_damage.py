"""Damage that a reader meets while the log is open, and the cut before it where other replicas have what is lost."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(index_interval_bytes=200)
EACH = 4
"""Batches of one record in each segment."""
FROZEN = 3
END = (FROZEN + 1) * EACH


def batch_of(number):
    return build_batch([Record(0, NOW_MS + number, b"k%d" % number, b"value %4d" % number)])


def open_log(directory, *, recovery_point=0, **options) -> Log:
    return Log.open(
        f"{directory}/t-0", NAME, bytes(16), CONFIG, files=RealFilesystem(), now_ms=NOW_MS, clean=False,
        recovery_point=recovery_point, **options,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path):
    """Three frozen segments and an active one, all synced."""
    log = open_log(tmp_path)
    fill(log, range(END))
    log.sync()
    return log


def fill(log, numbers):
    for number in numbers:
        if number and number % EACH == 0:
            log.roll()
        log.append_as_leader(memoryview(batch_of(number)), leader_epoch=1, now_ms=NOW_MS)
    log.write_queued()


def damage(log, number) -> UnreadableBatch:
    """Flip a bit of a record at rest; the error of a reader that checks it."""
    path = Path(log.directory, f"{number // EACH * EACH:020d}.log")
    content = bytearray(path.read_bytes())
    at = content.index(b"value %4d" % number)
    content[at] ^= 1
    path.write_bytes(content)
    position = at // (len(content) // EACH) * (len(content) // EACH)
    return UnreadableBatch(str(path), position, "its CRC is another")


def contents(log):
    """All bytes of the log."""
    read = log.read_range(0, log.log_end_offset)
    return b"".join(bytes(part.file.pread(part.length, part.position)) for part in read.parts)


@pytest.mark.parametrize("number", [0, 2, EACH, EACH + 3, 3 * EACH, 3 * EACH + 2])
def test_a_log_that_is_cut_before_damage_and_written_again_is_as_it_was(log, tmp_path, number):
    """In the first segment, in a later one, in the active one; at the first batch of a segment or behind. Also for the next start."""
    whole = contents(log)
    missing = log.set_aside(damage(log, number), rolls=True)
    assert (missing.base_offset, missing.end_offset) == (number, number // EACH * EACH + EACH)
    with pytest.raises(MissingRange):
        log.read(number, max_bytes=100, max_offset=END)
    kept = log.cut_before_damage(NOW_MS)
    assert log.log_end_offset == log.written_offset == number
    assert log.missing_ranges() == []
    (rest,) = Path(kept).glob("*.log.from-*")
    assert len(rest.read_bytes()) == sum(len(batch_of(each)) for each in range(number, missing.end_offset))
    fill(log, range(number, END))
    log.sync()
    assert contents(log) == whole
    log.abandon()
    again = open_log(tmp_path, recovery_point=END)
    assert (again.missing_ranges(), again.recovery.damaged_offset, again.log_end_offset) == ([], None, END)
    assert contents(again) == whole


@pytest.mark.parametrize("number", [2, EACH, EACH + 3])
def test_a_log_that_stops_right_after_the_cut_goes_on_there(log, tmp_path, number):
    """The next start finds no damage, and offsets that were flushed before are no loss."""
    log.set_aside(damage(log, number), rolls=True)
    log.cut_before_damage(NOW_MS)
    log.abandon()
    again = open_log(tmp_path, recovery_point=END, others_have_it=True)
    assert (again.missing_ranges(), again.recovery.damaged_offset, again.log_end_offset) == ([], None, number)


@pytest.mark.parametrize("offset", [EACH + 2, EACH + 3])
def test_a_cut_inside_a_missing_range_ends_before_it(log, offset):
    """The range is gone as a whole: an end inside of it would hide the hole."""
    whole = contents(log)
    log.set_aside(damage(log, EACH + 1))
    log.truncate_to(offset)
    assert log.log_end_offset == EACH + 1
    assert log.missing_ranges() == []
    assert log.active_base_offset == EACH
    fill(log, range(EACH + 1, END))
    assert contents(log) == whole


def test_damage_of_the_active_segment_is_not_set_aside_where_nothing_else_has_the_records(log):
    """Sound batches behind it would be missing as well."""
    assert log.set_aside(damage(log, END - 2)) is None


def test_damage_that_the_last_start_has_cut_off_is_cut_with_what_follows_it(log, tmp_path):
    """Its bytes are in quarantine already."""
    log.abandon()
    path = Path(log.directory, f"{EACH:020d}.log")
    path.write_bytes(path.read_bytes()[:-30])
    again = open_log(tmp_path, recovery_point=END, others_have_it=True)
    (missing,) = again.missing_ranges()
    assert again.recovery.quarantine is not None
    assert again.cut_before_damage(NOW_MS) is None
    assert again.log_end_offset == missing.base_offset == EACH + 3
    assert again.cut_before_damage(NOW_MS) is None
