"""The row of a log in forgotten-offset-checkpoint lives as long as the log, and goes where it goes."""

import pytest

from stratalog.hot.checkpoint_steps import bounds_steps
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.forgotten_offsets import are_forgotten_kept, know_forgotten, note_forgotten
from stratalog.hot.leaving_logs import doom_partition
from stratalog.hot.stale_rows import drop_rows_of_topic, drop_stale_rows
from stratalog.hot.storage.checkpoint import FORGOTTEN_OFFSETS, read_offsets
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

NAME, OTHER, ID = TopicPartition("t", 0), TopicPartition("u", 3), b"i" * 16


@pytest.fixture
def directory(tmp_path):
    """A log directory."""
    return LogDirectory.load(str(tmp_path / "d"), RealFilesystem())


def opened(directory, count=0):
    log = directory.open_log(NAME, ID, LogConfig(), now_ms=1, others_have_it=True)
    for _ in range(count):
        log.append_as_leader(build_batch([Record(0, 1, b"k", b"v")]), leader_epoch=1, now_ms=1)
    log.sync()
    know_forgotten(directory, log)
    return log


def written(directory):
    return read_offsets(directory.files, directory.path, FORGOTTEN_OFFSETS)


def carry_out(steps):
    while True:
        try:
            next(steps)
        except StopIteration as end:
            end.value()
            return


def test_a_start_finds_the_row(directory):
    """In the form of Kafka's checkpoints; only logs that have forgotten something have one."""
    log = opened(directory, 10)
    log.forgotten.noting(7)()
    note_forgotten(directory, OTHER, 9)()
    note_forgotten(directory, OTHER, 0)()
    text = directory.files.read_bytes(f"{directory.path}/{FORGOTTEN_OFFSETS}").decode()
    assert text == "0\n1\nt 0 7\n"
    log.abandon()
    again = LogDirectory.load(directory.path, directory.files)
    assert opened(again).forgotten.below == 7
    assert (again.unknown, again.damaged_checkpoints, are_forgotten_kept(again)) == ([], [], True)


def test_an_offset_that_a_copy_took_over_is_written_with_the_bounds(directory):
    """One file for many copies."""
    log = opened(directory)
    log.forgotten.take_over(5)
    assert (written(directory), log.forgotten.is_kept) == ({}, False)
    carry_out(bounds_steps(directory, lambda: [log]))
    assert (written(directory), log.forgotten.is_kept) == ({NAME: 5}, True)


@pytest.mark.parametrize("drop", [doom_partition, None])
def test_the_row_goes_with_the_log(directory, drop):
    """The next one of its name would hide from its leader that it lacks deletions."""
    opened(directory, 1).abandon()
    for name in (NAME, OTHER):
        note_forgotten(directory, name, 5)()
    if drop is None:
        directory.partitions = LogDirectory.load(directory.path, directory.files).partitions
        directory.recovery_points.clear()
        drop_rows_of_topic(directory, NAME)
    else:
        doom_partition(directory, NAME, b"u" * 16)
        drop_stale_rows(directory, NAME)
    assert (written(directory), directory.forgotten_offsets) == ({OTHER: 5}, {OTHER: 5})


def test_a_damaged_file_says_nothing(directory, tmp_path):
    """Replicas hear less from here then. The logs are as sound as they were."""
    log = opened(directory, 2)
    log.forgotten.noting(2)()
    directory.close({NAME: log}, broker_epoch=1)
    (tmp_path / "d" / FORGOTTEN_OFFSETS).write_text("nonsense")
    again = LogDirectory.load(directory.path, directory.files)
    assert (again.forgotten_offsets, again.damaged_checkpoints, again.clean) == ({}, [FORGOTTEN_OFFSETS], True)


@pytest.mark.parametrize(("synced", "below"), [(10, 4), (4, 20)])
def test_a_log_that_has_lost_its_end_has_its_row_up_to_there(directory, synced, below):
    """Its directory alone was put back, perhaps, with files that were never cleaned. A copy that is not complete keeps it."""
    log = opened(directory, 4)
    directory.write_checkpoints({NAME: log})
    note_forgotten(directory, NAME, 20)()
    directory.recovery_points[NAME] = synced
    know_forgotten(directory, log)
    assert (log.forgotten.below, written(directory)) == (below, {NAME: below})
