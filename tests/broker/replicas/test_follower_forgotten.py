"""A copy whose leader has forgotten tombstones that it may never have had is copied again as a whole."""

import errno

import pytest

from stratalog.hot.directory import LogDirectory
from stratalog.hot.forgotten_offsets import know_forgotten
from stratalog.hot.storage.checkpoint import FORGOTTEN_OFFSETS, read_offsets
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.test_follower import LEADER, batch, bench, data, heard  # noqa: F401 - fixtures
from tests.broker.replicas.test_follower_turns import PART, many

NAME = TopicPartition("t", 0)


def told(*batches, below, **others):
    """An answer of a leader that has forgotten tombstones below an offset."""
    answer = data(*batches, **others)
    answer.forgotten_below = below
    return answer


@pytest.fixture
def directory(bench, tmp_path):  # noqa: F811
    """The log directory of the copy."""
    made = LogDirectory.load(str(tmp_path), RealFilesystem())
    know_forgotten(made, bench.partition.log)
    return made


@pytest.fixture
def copy(bench, directory, heard):  # noqa: F811
    """A copy that ends at offset 4."""
    bench.partition.follower.take(data(batch(0, 4), high_watermark=4), heard)
    finish(bench, directory)
    return bench


def finish(bench, directory):  # noqa: F811
    bench.disk.write()
    bench.disk.flush()
    if bench.disk.waits_for_bounds:
        directory.write_bounds({NAME: bench.partition.log})
        if directory.forgotten_stored != directory.forgotten_offsets:
            bench.partition.log.forgotten._keep(directory.forgotten_offsets[NAME])()
        bench.disk.keep_bounds()


def written(directory):
    return read_offsets(directory.files, directory.path, FORGOTTEN_OFFSETS)


def test_a_disk_that_was_put_back_is_copied_again(copy, directory, heard, tmp_path, caplog):  # noqa: F811
    """It appends no record of the answer that says so; the next one begins at the log start, and gives the offset."""
    role, log = copy.partition.follower, copy.partition.log
    assert role.take(told(batch(6, 2), below=6, high_watermark=8), heard) is None
    finish(copy, directory)
    assert (log.log_end_offset, copy.partition.high_watermark, heard.told[-1][:2]) == (0, 0, ("taken", 0))
    assert [one.name for one in tmp_path.glob("*-stray/*.log")] == ["00000000000000000000.log"]
    assert "t-0 is copied again as a whole" in caplog.text
    assert (log.forgotten.below, written(directory)) == (0, {})
    role.take(told(batch(0, 2), below=6, high_watermark=8), heard)
    finish(copy, directory)
    assert (log.log_end_offset, written(directory), heard.told[-1][:2]) == (2, {NAME: 6}, ("taken", 2))
    role.take(told(batch(2, 6), below=6, high_watermark=8), heard)
    role.take(data(high_watermark=8), heard)
    finish(copy, directory)
    assert (log.log_end_offset, copy.partition.high_watermark) == (8, 8)
    assert len(list(tmp_path.glob("*-stray"))) == 1


def test_a_copy_is_counted_once_its_offset_is_on_the_disk(bench, directory, heard):  # noqa: F811
    """It may lead soon, and would tell others nothing of what it lacks."""
    bench.partition.follower.take(told(batch(0, 2), below=6, high_watermark=8), heard)
    bench.disk.write()
    bench.disk.flush()
    assert (bench.disk.waits_for_bounds, heard.told) == (True, [])
    finish(bench, directory)
    assert (heard.told[-1][:2], written(directory)) == (("taken", 2), {NAME: 6})


def test_a_crash_in_between_leaves_no_copy_that_passes_for_whole(copy, directory, heard, monkeypatch):  # noqa: F811
    """The offset comes to the disk when the old log has left, and not before."""
    failed = OSError(errno.EIO, "power cut")

    def crash(*_):
        raise failed

    with monkeypatch.context() as patch:
        patch.setattr(RealFilesystem, "rename", crash)
        copy.disk.report = lambda error, _owner: setattr(copy.disk, "offline", error)
        copy.partition.follower.take(told(batch(6, 2), below=6, high_watermark=8), heard)
    assert (copy.disk.offline, heard.told[-1][0], written(directory)) == (failed, "refused", {})


def test_a_leader_that_has_forgotten_more_begins_the_copy_again(copy, directory, heard, tmp_path):  # noqa: F811
    """The copy of the first one may hold what the second one's tombstones had ended."""
    log = copy.partition.log
    copy.partition.follower.take(told(batch(6, 2), below=6, high_watermark=8), heard)
    copy.partition.follower.take(told(batch(0, 2), below=6, high_watermark=8), heard)
    finish(copy, directory)
    role = copy.partition.follow(LEADER + 1, 6)
    role.take(told(batch(2, 2), below=7, high_watermark=8), heard)
    assert (log.log_end_offset, len(list(tmp_path.glob("*-stray")))) == (0, 2)


def test_a_leader_that_has_forgotten_less_lowers_the_offset_first(copy, directory, heard, monkeypatch):  # noqa: F811
    """Its records are cleaned less far. No record of it is appended while the disk says more."""
    role, log = copy.partition.follower, copy.partition.log
    log.forgotten.noting(9)()
    log.forgotten.dropped(9)
    with monkeypatch.context() as patch:
        patch.setattr(RealFilesystem, "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        copy.disk.report = lambda *_: None
        role.take(data(batch(4, 2), high_watermark=8), heard)
    assert (log.log_end_offset, heard.told[-1][0]) == (4, "refused")
    role.take(data(batch(4, 2), high_watermark=8), heard)
    assert (log.log_end_offset, written(directory)) == (6, {NAME: 4})


def test_an_answer_of_many_batches_is_taken_under_one_offset(bench, directory, heard):  # noqa: F811
    """Its parts end below and behind what the leader has forgotten."""
    role, left = bench.partition.follower, many(2 * PART)
    left.forgotten_below = PART + 5
    while left is not None:
        left = role.take(left, heard)
    assert (bench.partition.log.log_end_offset, bench.partition.log.forgotten.below) == (2 * PART, PART + 5)


@pytest.mark.parametrize("below", [0, 2, 4])
def test_a_copy_that_was_away_or_lags_goes_on(copy, directory, heard, tmp_path, below):  # noqa: F811
    """Tombstones stay while it is out of sync, so its leader has forgotten no further than to its end."""
    copy.partition.follow(LEADER, 6).take(told(batch(4, 2, epoch=6), below=below, high_watermark=6), heard)
    finish(copy, directory)
    assert (copy.partition.log.log_end_offset, list(tmp_path.glob("*-stray"))) == (6, [])
    assert (copy.partition.log.forgotten.below, written(directory)) == (0, {})


def test_a_copy_that_is_elected_has_forgotten_nothing_behind_its_end(copy):
    """An unclean election of a copy that was not complete: what it appends is new."""
    copy.partition.log.forgotten.dropped(9)
    copy.lead(6)
    assert copy.partition.log.forgotten.below == 4
