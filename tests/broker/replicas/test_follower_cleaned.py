"""A copy is cut below where its own cleaner has been: what is left of it lacks records that its leader has."""

from contextlib import suppress

import pytest

from stratalog.hot.cleaner.cleaner import Cleaning
from stratalog.hot.cleaner.plan import Section
from stratalog.hot.cleaner_offsets import follow_cuts, note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.recovery.quarantine import Quarantine
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.test_follower import LEADER, NOW_MS, batch, bench, data, heard, leading  # noqa: F401 - fixtures

NAME = TopicPartition("t", 0)


@pytest.fixture
def directory(tmp_path):
    """The log directory of the copy."""
    return LogDirectory.load(str(tmp_path), RealFilesystem())


@pytest.fixture
def cleaned(bench, directory):  # noqa: F811
    """A copy with six segments from its time as leader in epoch 4, clean below offset 5."""
    bench.lead(4)
    for _ in range(6):
        leading(bench, 1)
        bench.partition.log.roll()
    bench.disk.write()
    bench.disk.flush()
    follow_cuts(directory, bench.partition.log)
    note_cleaner_offset(directory, NAME, 5)()
    bench.partition.high_watermark = 6
    return bench


def stray(path):
    return sorted(one.name for found in path.glob("*-stray") for one in found.glob("*.log"))


def test_a_copy_that_is_cut_below_its_cleaner_is_copied_again(cleaned, heard, caplog, tmp_path):  # noqa: F811
    """An unclean election dropped the later values of keys, and the older ones were gone here alone."""
    role, log = cleaned.partition.follow(LEADER, 6), cleaned.partition.log
    assert role.take(data(diverging=(4, 3)), heard) is None
    cleaned.disk.flush()
    assert (log.first_base_offset, log.log_end_offset, cleaned.partition.high_watermark) == (0, 0, 0)
    assert "all of it is kept beside it as -stray, and copied again" in caplog.text
    assert stray(tmp_path) == [f"{offset:020d}.log" for offset in range(7)]
    role.take(data(batch(0, 3, epoch=4), batch(3, 1, epoch=6), high_watermark=4), heard)
    cleaned.disk.write()
    cleaned.disk.flush()
    assert (log.log_end_offset, cleaned.partition.high_watermark) == (4, 4)


@pytest.mark.parametrize("offset", [5, 6])
def test_a_copy_that_is_cut_above_its_cleaner_keeps_the_rest(cleaned, heard, offset, tmp_path):  # noqa: F811
    """As after each clean election: what goes was never cleaned."""
    role, log = cleaned.partition.follow(LEADER, 6), cleaned.partition.log
    role.take(data(diverging=(4, offset)), heard)
    assert (log.first_base_offset, log.log_end_offset, stray(tmp_path)) == (0, offset, [])


def test_a_copy_that_is_cut_while_it_is_cleaned_is_copied_again(bench, heard):  # noqa: F811
    """The older value of a key is gone already; the row of the cleaner comes at its end."""
    log, compaction = bench.partition.log, bench.partition.log.compaction
    for key in (b"k", b"other", b"k", b"last"):
        built = build_batch([Record(0, NOW_MS, key, b"v")])
        log.append_as_leader(memoryview(built), leader_epoch=4, now_ms=NOW_MS)
        log.roll()
    log.write_queued()
    log.sync()
    section = Section(0, 4, 0, 0, overdue=False)
    job = compaction.clean_job(section, now_ms=0, map_bytes=4096, map_load_factor=0.9)
    cleaning = Cleaning(job, RealFilesystem(), lambda _: None)
    cleaning.build_map()
    assert not compaction.has_passed(2)
    swap = compaction.begin_replace(cleaning.clean_group(0))
    for _ in swap.stage():
        swap.sync()
    compaction.put_in(swap)
    assert (compaction.has_passed(3), compaction.has_passed(4)) == (True, False)
    bench.partition.follow(LEADER, 6).take(data(diverging=(4, 2)), heard)
    assert (log.log_end_offset, compaction.has_passed(0)) == (0, False)


@pytest.mark.parametrize("renames", range(25))
def test_a_crash_in_between_leaves_no_copy_that_passes_for_whole(cleaned, renames, tmp_path, monkeypatch):
    """Either the next cut finds the row of the cleaner, or the log has lost its beginning, or nothing is left of it."""
    role, log = cleaned.partition.follow(LEADER, 6), cleaned.partition.log
    done, rename = [], RealFilesystem.rename

    def crash(self, source, target):
        if len(done) == renames:
            raise OSError("power cut")
        done.append(source)
        rename(self, source, target)

    monkeypatch.setattr(RealFilesystem, "rename", crash)
    with suppress(OSError):
        role.truncate(3, "")
    monkeypatch.undo()
    log.abandon()
    again = LogDirectory.load(str(tmp_path), RealFilesystem())
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    found = again.open_log(NAME, b"i" * 16, config, now_ms=1, others_have_it=True)
    follow_cuts(again, found)
    assert found.missing_ranges() or found.compaction.has_passed(3) or found.log_end_offset == 0
    assert found.log_start_offset == 0


def test_many_segments_are_kept_aside_in_one_turn(cleaned, monkeypatch):
    """Each on its own took syncs, and a longer note: 400 were two seconds of the event loop."""
    notes, finish = [], Quarantine._finish
    monkeypatch.setattr(Quarantine, "_finish", lambda self: (notes.append(1), finish(self)))
    cleaned.partition.follow(LEADER, 6).truncate(3, "")
    assert len(notes) <= 4
