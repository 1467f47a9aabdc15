"""The row of a log in cleaner-offset-checkpoint goes down with the log: what is copied again has not been cleaned."""

import errno

import pytest

from stratalog.hot.cleaner_offsets import follow_cuts, note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.leaving_logs import doom_partition
from stratalog.hot.stale_rows import drop_stale_rows, forget_removed
from stratalog.hot.storage.checkpoint import CLEANER_OFFSETS, read_offsets
from stratalog.hot.storage.filesystem import RealFile, RealFilesystem
from stratalog.wire.batch import Record, assign_offset, build_batch, iter_records
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition

NAME, ID = TopicPartition("t", 0), b"i" * 16
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), file_delete_delay_ms=0, delete_retention_ms=1000)


def sent(offset, *records, epoch=1):
    """A batch as a leader sends it."""
    built = build_batch([Record(number, 1_700_000_000_000, *each) for number, each in enumerate(records)])
    assign_offset(built, 0, offset, len(built) - 12, epoch)
    return memoryview(bytes(built))


@pytest.fixture
def directory(tmp_path):
    """A log directory."""
    return LogDirectory.load(str(tmp_path / "d"), RealFilesystem())


@pytest.fixture
def log(directory):
    """Ten records in the directory, clean below offset 8."""
    log = directory.open_log(NAME, ID, COMPACTED, now_ms=1)
    for offset in range(10):
        log.append_as_follower(sent(offset, (b"k", b"v")), leader_epoch=1, now_ms=1)
    log.sync()
    follow_cuts(directory, log)
    note_cleaner_offset(directory, NAME, 8)()
    return log


@pytest.mark.parametrize(
    ("cut", "row"),
    [
        (lambda log: log.truncate_to(3), 3),
        (lambda log: log.truncate_to(9), 8),
        (lambda log: log.truncate_fully_and_start_at(5, (), None), 5),
        (lambda log: log.truncate_fully_and_start_at(20, (), None), 8),
    ],
    ids=["cut", "cut above it", "begun anew", "begun anew above it"],
)
def test_the_row_goes_down_first_durably(directory, log, cut, row):
    """A kill right behind the cut leaves it so."""
    cut(log)
    assert read_offsets(directory.files, directory.path, CLEANER_OFFSETS) == {NAME: row}
    assert directory.cleaner_offsets == {NAME: row}


def test_a_row_above_a_log_that_a_start_has_cut_goes_down(directory, log):
    """Recovery ends a damaged log before the damage, and it grows again."""
    log.abandon()
    note_cleaner_offset(directory, NAME, 12)()
    again = LogDirectory.load(directory.path, directory.files)
    follow_cuts(again, again.open_log(NAME, ID, COMPACTED, now_ms=2))
    assert read_offsets(directory.files, directory.path, CLEANER_OFFSETS) == {NAME: 10}


def test_a_log_is_not_cut_whose_row_cannot_go_down(directory, log, monkeypatch):
    """The disk has failed: nothing may grow there."""
    monkeypatch.setattr(LogDirectory, "cleaner_lock", property(lambda _: (_ for _ in ()).throw(OSError("no disk"))))
    with pytest.raises(OSError, match="no disk"):
        log.truncate_to(3)
    with pytest.raises(KafkaError, match="takes no appends"):
        log.append_as_follower(sent(10, (b"k", b"v")), leader_epoch=1, now_ms=1)


def test_a_row_that_found_no_room_goes_down_with_the_next_try(directory, log, monkeypatch):
    """The leader says again where to cut; the log is not cut under a row that only memory has lowered."""
    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "writev", full)
        with pytest.raises(OSError, match="no space"):
            log.truncate_to(3)
    log.discard_unwritten()
    assert (log.log_end_offset, directory.cleaner_offsets) == (10, {NAME: 8})
    log.truncate_to(3)
    assert log.log_end_offset == 3
    assert read_offsets(directory.files, directory.path, CLEANER_OFFSETS) == directory.cleaner_offsets == {NAME: 3}


def full(_file, _buffers):
    """A disk without room."""
    raise OSError(errno.ENOSPC, "no space")


def test_a_key_that_was_deleted_stays_deleted_when_its_log_is_cut_and_copied_again(bench, compactor):
    """Its disk had lost a range: the copy is as dirty as the leader's, whatever the cleaner had done here before."""
    log = bench.open(COMPACTED)

    def cut(offset):
        compactor.cleaned_offset = min(compactor.cleaned_offset, offset)

    def follow(*records):
        for record in records:
            log.append_as_follower(sent(log.log_end_offset, record), leader_epoch=1, now_ms=bench.now_ms)
        log.roll()
        log.sync()

    log.compaction.call_before_cuts(cut)
    follow((b"a", b"1"), (b"deleted", b"value"), (b"deleted", None), (b"b", b"1"))
    compactor.clean(log, now_ms=bench.now_ms)
    log.truncate_to(0)
    follow((b"a", b"1"), (b"deleted", b"value"), (b"deleted", None), (b"b", b"1"))  # not cleaned by the leader
    for number in range(4):
        follow((b"c", b"%d" % number))
        bench.now_ms += 10_000  # beyond delete.retention.ms
        compactor.clean(log, now_ms=bench.now_ms)
    left, offset = {}, 0
    while offset < log.log_end_offset:
        found = log.read(offset, max_bytes=1, max_offset=log.log_end_offset)
        left |= {record.key: record.value for record in iter_records(bench.content(found), 0)}
        offset = found.next_offset
    assert left.get(b"deleted") is None


@pytest.mark.parametrize("orderly", [True, False])
def test_a_value_that_was_deleted_in_a_topic_made_again_stays_deleted(bench, compactor, directory, log, orderly):
    """By the row of the deleted topic's log its offsets counted as clean from the next start: the tombstone went, the value stayed."""

    def append(log, key, value):
        log.append_as_leader(build_batch([Record(0, bench.now_ms, key, value)]), leader_epoch=1, now_ms=bench.now_ms)
        log.roll()
        log.sync()

    log.abandon()
    doom_partition(directory, NAME, b"u" * 16)
    drop_stale_rows(directory, NAME)
    again = directory.open_log(NAME, b"j" * 16, COMPACTED, now_ms=1)
    append(again, b"k", b"value")
    append(again, b"k", None)
    for removal in directory.take_doomed():
        removal.run()
    if orderly:
        directory.close({NAME: again}, broker_epoch=1)
    else:
        directory.write_checkpoints({NAME: again})
        again.abandon()
    found = LogDirectory.load(directory.path, directory.files)
    forget_removed(found)
    log = found.open_log(NAME, b"j" * 16, COMPACTED, now_ms=1)
    follow_cuts(found, log)
    for _ in range(3):
        append(log, b"other", b"x")
        compactor.cleaned_offset = found.cleaner_offsets.get(NAME)
        compactor.clean(log, now_ms=bench.now_ms)
        note_cleaner_offset(found, NAME, compactor.cleaned_offset)()
        bench.now_ms += 10_000  # beyond delete.retention.ms
    left, offset = {}, 0
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=1, max_offset=log.log_end_offset)
        left |= {record.key: record.value for record in iter_records(bench.content(read), 0)}
        offset = read.next_offset
    assert left.get(b"k") is None


def test_a_cleaning_that_began_before_a_cut_swaps_nothing_in(bench, compactor):
    """After an unclean election the follower has other records of the same sizes at the same offsets."""
    log = bench.open(COMPACTED)

    def follow(start, epoch, value):
        for offset in range(start, start + 10, 2):
            keys = [b"k%03d" % ((offset + number) % 5) for number in range(2)]
            records = sent(offset, *((key, value) for key in keys), epoch=epoch)
            log.append_as_follower(records, leader_epoch=epoch, now_ms=bench.now_ms)
        log.roll()
        log.sync()

    for start in (0, 10):
        follow(start, 1, b"forked")
    cleaning = compactor.cleaning(log, now_ms=bench.now_ms)
    cleaning.build_map()
    cleaned = cleaning.clean_group(0)
    assert cleaned.changed
    log.truncate_to(0)
    for start in (0, 10):
        follow(start, 2, b"leader")
    assert log.compaction.begin_replace(cleaned) is None
