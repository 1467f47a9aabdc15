"""A copy is cut below where its own cleaner has been: what is left of it lacks records that its leader has."""

import os
from contextlib import suppress

import pytest

from stratalog.hot.cleaner.cleaner import Cleaning
from stratalog.hot.cleaner.plan import Section
from stratalog.hot.cleaner_offsets import follow_cuts, note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.recovery.quarantine import Quarantine
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch, read_header
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.test_follower import LEADER, NOW_MS, batch, bench, data, following, heard, leading  # noqa: F401 - fixtures

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


@pytest.fixture
def half_cleaned(tmp_path, directory):
    """A copy from whose log the cleaner has just taken the older value of a key: its row comes at the end of the section."""
    bench = following(str(tmp_path / "t-0"), cleanup_policy=frozenset({"compact"}))  # noqa: F811
    log, compaction = bench.partition.log, bench.partition.log.compaction
    follow_cuts(directory, log)
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
    assert compaction.expect_gaps(section.end_offset, log.log_end_offset)
    directory.write_bounds({NAME: log})
    swap = compaction.begin_replace(cleaning.clean_group(0))
    for steps in (swap.stage(), compaction.retire(swap)):
        for _ in steps:
            swap.sync()
        compaction.put_in(swap)
    return bench


def test_a_copy_that_is_cut_while_it_is_cleaned_is_copied_again(half_cleaned, heard):  # noqa: F811
    """The older value of a key is gone already; the row of the cleaner comes at its end."""
    log = half_cleaned.partition.log
    assert (log.compaction.has_passed(3), log.compaction.has_passed(4)) == (True, False)
    half_cleaned.partition.follow(LEADER, 6).take(data(diverging=(4, 2)), heard)
    assert (log.log_end_offset, log.compaction.has_passed(0)) == (0, False)


def test_a_cleaned_copy_that_is_cut_before_damage_still_lacks_what_its_cleaner_took(half_cleaned):
    """The later value of the key went with the damage. It comes again from a leader that has it, and from no other."""
    log = half_cleaned.partition.log
    log.truncate_to(2)
    log.append_as_follower(memoryview(batch(2, 5, epoch=4)), leader_epoch=5, now_ms=NOW_MS)
    assert (log.log_end_offset, log.compaction.has_passed(3), log.compaction.has_passed(4)) == (7, True, False)
    half_cleaned.partition.follower.truncate(3, "")
    assert (log.log_end_offset, log.compaction.has_passed(0)) == (0, False)


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_copy_whose_cleaning_a_crash_has_ended_is_copied_again(half_cleaned, directory, tmp_path, policy):
    """It has no row of the cleaner: it was cut like a log that was never cleaned, and led in order later without the key."""
    half_cleaned.partition.log.abandon()
    again = LogDirectory.load(str(tmp_path), RealFilesystem())
    assert NAME not in again.cleaner_offsets
    found = again.open_log(
        NAME, b"i" * 16, LogConfig(cleanup_policy=frozenset({policy})), now_ms=1, others_have_it=True
    )
    assert (found.log_end_offset, found.compaction.has_passed(3), found.compaction.has_passed(4)) == (4, True, False)


def test_a_copy_of_a_cleaned_range_is_copied_again_when_it_is_cut_within(bench, heard, tmp_path):  # noqa: F811
    """Its leader's cleaner took older values for those that are cut here: other replicas have them."""
    role, log = bench.partition.follow(LEADER, 5), bench.partition.log
    role.take(data(batch(0, 2), batch(8, 2), high_watermark=20), heard)
    bench.disk.write()
    bench.disk.flush()
    bench.disk.keep_bounds()
    role.take(data(batch(8, 2), batch(10, 15), high_watermark=20), heard)
    bench.disk.write()
    bench.disk.flush()
    assert (log.log_end_offset, log.compaction.has_passed(19), log.compaction.has_passed(20)) == (25, True, False)
    role = bench.partition.follow(LEADER, 6)
    role.take(data(diverging=(5, 20)), heard)
    assert (log.first_base_offset, log.log_end_offset, stray(tmp_path)) == (0, 10, []), (
        "cut at the batch that begins below"
    )


def copy(bench, heard, *batches, high_watermark, epoch=5):  # noqa: F811
    """Have the batches copied from a leader of ``epoch``; those before a gap first, and all to the disk."""
    follower = bench.partition.follower
    role = follower if follower is not None and follower.epoch == epoch else bench.partition.follow(LEADER, epoch)
    log = bench.partition.log
    for _ in range(2):
        left = [one for one in batches if read_header(one).base_offset >= log.log_end_offset]
        if left:
            role.take(data(*left, high_watermark=high_watermark), heard)
        bench.disk.write()
        bench.disk.flush()
        if bench.disk.waits_for_bounds:
            bench.disk.keep_bounds()
    return log


def test_a_copy_that_the_cleaner_of_its_leader_overtakes_is_copied_again_when_it_is_cut_there(bench, heard):  # noqa: F811
    """No gap was to be written down any more: those that it had were, with the mark of an hour before."""
    log = copy(bench, heard, batch(0, 2), batch(8, 2), high_watermark=20)
    assert (log.log_end_offset, log.bounds.gaps_below) == (10, 20)
    copy(bench, heard, batch(15, 5), high_watermark=100)
    assert (log.log_end_offset, log.gaps.below, log.bounds.gaps_below, log.gaps.is_in_row) == (20, 20, 100, True)
    copy(bench, heard, batch(20, 80), high_watermark=100)
    assert (log.log_end_offset, log.gaps.kept_below) == (100, 100)
    assert (log.compaction.has_passed(99), log.compaction.has_passed(100)) == (True, False)


def test_a_copy_that_was_cut_before_damage_is_copied_again_when_it_is_cut_where_a_cleaner_was(bench, heard):  # noqa: F811
    """Older values are gone for those that went with the damage, and have not all come again."""
    log = copy(bench, heard, batch(0, 2), batch(8, 2), *map(batch, range(10, 100)), high_watermark=100)
    log.truncate_to(60)
    assert not bench.disk.waits_for_bounds
    copy(bench, heard, *map(batch, range(60, 90)), high_watermark=100)
    assert (log.log_end_offset, log.gaps.kept_below) == (90, 100)
    assert log.compaction.has_passed(80)
    log.compaction.begin_again(NOW_MS, "")
    copy(bench, heard, *map(batch, range(90)), high_watermark=90)
    assert (log.log_end_offset, log.bounds.gaps_below, log.compaction.has_passed(0)) == (90, 0, False)


def test_a_copy_of_a_cleaned_range_is_copied_again_where_another_history_begins_within(bench, heard, tmp_path):  # noqa: F811
    """It had not come as far as the records for whose sake others are gone, and after an unclean election they never come: no cut shows it."""
    log = copy(bench, heard, batch(0, 2), batch(8, 2), high_watermark=100)
    role = bench.partition.follow(LEADER, 6)
    role.take(data(batch(10, 5), batch(15, 5, epoch=6), high_watermark=20), heard)
    bench.disk.keep_bounds()
    assert (log.log_end_offset, heard.told[-1], stray(tmp_path)) == (0, ("taken", 0, -1, 0), [f"{0:020d}.log"])
    copy(bench, heard, batch(0, 15), batch(15, 5, epoch=6), high_watermark=20, epoch=6)
    assert (log.log_end_offset, log.leader_epochs.entries) == (20, ((5, 0), (6, 15)))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_copy_of_a_cleaned_range_is_copied_again_if_its_leader_ends_before_it(bench, heard, tmp_path, restarted):  # noqa: F811
    """An unclean leader that has written nothing since: the copy was put in sync, and led in order without what others still had."""
    log = copy(bench, heard, batch(0, 2), batch(8, 2), high_watermark=100)
    if restarted:
        log.gaps.know_passed(100)
    role = bench.partition.follow(LEADER, 6)
    assert role.is_overtaken
    assert not role.move_into(0, 10)
    assert (log.log_end_offset, role.is_overtaken, stray(tmp_path)) == (0, False, [f"{0:020d}.log"])
    assert not role.move_into(0, 10)
    copy(bench, heard, *map(batch, range(10)), high_watermark=10, epoch=6)
    assert (log.log_end_offset, role.is_overtaken) == (10, False)


@pytest.mark.parametrize("leaders_end", [100, 101])
def test_a_copy_of_a_cleaned_range_goes_on_at_a_leader_that_has_the_rest(bench, heard, tmp_path, leaders_end):  # noqa: F811
    """As after each clean election."""
    log = copy(bench, heard, batch(0, 2), batch(8, 2), high_watermark=100)
    role = bench.partition.follow(LEADER, 6)
    assert not role.move_into(0, leaders_end)
    assert (log.log_end_offset, role.is_overtaken, stray(tmp_path)) == (10, True, [])
    copy(bench, heard, batch(10, 90), high_watermark=100, epoch=6)
    assert not role.is_overtaken


def test_a_copy_that_has_nothing_yet_lacks_nothing(bench, heard):  # noqa: F811
    """All of it is copied from the leader of the day."""
    log = bench.partition.log
    log.gaps.know_passed(100)
    role = bench.partition.follow(LEADER, 6)
    assert not role.is_overtaken
    assert not role.move_into(0, 10)
    assert (log.log_end_offset, heard.told) == (0, [])


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(("epoch", "is_anew"), [(4, False), (5, False), (6, True)])
def test_a_copy_of_a_cleaned_range_knows_after_a_restart_in_which_epoch_the_cleaner_was(
    bench,  # noqa: F811
    heard,  # noqa: F811
    directory,
    tmp_path,
    is_clean,
    epoch,
    is_anew,
):
    """Without it, another history below was taken for the rest of what was copied."""
    log = copy(bench, heard, batch(0, 2, epoch=4), batch(8, 2, epoch=4), high_watermark=100)
    directory.write_bounds({NAME: log})
    if is_clean:
        directory.close({NAME: log}, broker_epoch=1)
    else:
        log.abandon()
    again = LogDirectory.load(str(tmp_path), RealFilesystem())
    log = again.open_log(NAME, log.topic_id, log.config, now_ms=1, others_have_it=True)
    assert log.log_end_offset == 10
    found = log.gaps.first_of_another(memoryview(batch(10, 5, epoch=epoch)), 10, 6)
    assert found == (10 if is_anew else None)
    log.append_as_follower(memoryview(batch(10, 90, epoch=4)), leader_epoch=5, now_ms=NOW_MS)
    assert log.bounds.passed_epoch is None


def test_all_of_a_copy_is_kept_where_some_of_it_was_not_in_the_file_yet(bench, heard, tmp_path, monkeypatch):  # noqa: F811
    """A file of the same name, with what was written then, took the place of the one that was kept."""
    log = copy(bench, heard, batch(0, 2), batch(8, 2), high_watermark=100)
    monkeypatch.setattr("stratalog.hot.log.answer_parts.BATCHES_PER_TURN", 1)
    role = bench.partition.follow(LEADER, 6)
    rest = role.take(data(batch(10, 5), batch(15, 5, epoch=6), high_watermark=20), heard)
    assert (log.log_end_offset, log.written_offset) == (15, 10)
    assert role.take(rest, heard) is None
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    (kept,) = tmp_path.glob(f"*-stray/{0:020d}.log")
    assert kept.read_bytes() == batch(0, 2) + batch(8, 2) + batch(10, 5)


def test_a_copy_of_a_cleaned_range_goes_on_after_a_clean_election(bench, heard, tmp_path):  # noqa: F811
    """The next leader has all that was committed, of whatever epochs, and begins its own behind it."""
    log = copy(bench, heard, batch(0, 2, epoch=3), batch(8, 2, epoch=3), high_watermark=100)
    copy(bench, heard, batch(10, 10, epoch=4), high_watermark=90, epoch=6)
    copy(bench, heard, batch(20, 80), batch(100, 1, epoch=6), high_watermark=90, epoch=6)
    assert (log.log_end_offset, log.first_base_offset, stray(tmp_path)) == (101, 0, [])
    assert log.leader_epochs.entries == ((3, 0), (4, 10), (5, 20), (6, 100))


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_copy_of_a_cleaned_range_knows_after_restarts_how_far_the_cleaner_was(
    bench,  # noqa: F811
    heard,  # noqa: F811
    tmp_path,
    is_clean,
):
    """It ends below, or was cut: what it lacks may lie behind its end."""
    log = copy(bench, heard, batch(0, 2), batch(8, 2), *map(batch, range(10, 100)), high_watermark=100)
    log.truncate_to(10)
    assert log.gaps.is_in_row, "it need not be written down anew"
    for count in range(2):
        directory = LogDirectory.load(str(tmp_path), RealFilesystem())
        directory.close({NAME: log}, broker_epoch=1)
        if not is_clean:
            (tmp_path / ".kafka_cleanshutdown").unlink()
        again = LogDirectory.load(str(tmp_path), RealFilesystem())
        log = again.open_log(NAME, log.topic_id, log.config, now_ms=1, others_have_it=True)
        assert (log.log_end_offset, log.gaps.below) == (10 + 30 * count, 10 + 30 * count)
        log.append_as_follower(memoryview(batch(10 + 30 * count, 30)), leader_epoch=5, now_ms=NOW_MS)
        assert (log.compaction.has_passed(20), log.compaction.has_passed(100)) == (True, False)


def test_the_cleaner_of_a_leader_allows_gaps_no_further_than_what_is_committed(bench):  # noqa: F811
    """Each clean election cuts a leader that was killed above that: all of its log was copied again."""
    log = bench.partition.log
    for _ in range(6):
        built = build_batch([Record(0, NOW_MS, b"k", b"v")])
        log.append_as_leader(memoryview(built), leader_epoch=4, now_ms=NOW_MS)
        log.roll()
    log.write_queued()
    log.sync()
    assert log.compaction.expect_gaps(2, 4)
    assert [log.compaction.has_passed(offset) for offset in (3, 4)] == [True, False]


@pytest.mark.parametrize(
    "config", [LogConfig(), LogConfig(cleanup_policy=frozenset({"compact"}))], ids=["plain", "compacted"]
)
def test_only_a_compacted_log_counts_as_cleaned_where_checkpoints_are_damaged(bench, tmp_path, config):  # noqa: F811
    """No file tells where logs have gaps: plain ones are not all copied again for it."""
    bench.lead(4)
    leading(bench, 3)
    bench.partition.log.abandon()
    for name in ("log-bounds", "cleaner-offset-checkpoint"):
        (tmp_path / name).write_bytes(b"damage")
    again = LogDirectory.load(str(tmp_path), RealFilesystem())
    found = again.open_log(NAME, b"i" * 16, config, now_ms=1, others_have_it=True)
    assert (found.log_end_offset, found.compaction.has_passed(2)) == (3, config.compacted)


COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))


def opened_again(bench, path, config=COMPACTED):  # noqa: F811
    """The log as a start after a kill finds it."""
    bench.partition.log.abandon()
    again = LogDirectory.load(str(path), RealFilesystem())
    found = again.open_log(NAME, b"i" * 16, config, now_ms=1, others_have_it=True)
    follow_cuts(again, found)
    return found


def test_a_copy_that_began_behind_its_cleaner_keeps_what_no_cleaner_has_seen(cleaned, directory, tmp_path):
    """Its leader's log, or archive, was further when it came back: each later cut after a kill had it copied again as a whole."""
    log = cleaned.partition.log
    log.gaps.expect(5)
    log.truncate_fully_and_start_at(20, (), None)
    leading(cleaned, 4)
    cleaned.disk.write()
    cleaned.disk.flush()
    directory.write_bounds({NAME: log})
    found = opened_again(cleaned, tmp_path)
    assert (found.log_end_offset, found.compaction.has_passed(22), found.gaps.below) == (24, False, 5)


def test_a_log_that_became_compacted_while_its_broker_was_away_was_never_cleaned(bench, directory, tmp_path):  # noqa: F811
    """Its row says so. All of it was copied again after the first cut, though no cleaner had been anywhere."""
    bench.lead(4)
    leading(bench, 3)
    bench.disk.write()
    bench.disk.flush()
    directory.write_bounds({NAME: bench.partition.log})
    found = opened_again(bench, tmp_path)
    assert (found.log_end_offset, found.compaction.has_passed(2)) == (3, False)


def test_a_kill_between_two_checkpoints_has_no_log_copied_again(half_cleaned, directory, tmp_path):
    """The checkpoint of log starts is the newer one, as where Kafka has run here: the rows from before hold, gaps come after them."""
    half_cleaned.disk.flush()
    log = half_cleaned.partition.log
    for _ in range(3):
        log.append_as_leader(memoryview(build_batch([Record(0, NOW_MS, b"k", b"v")])), leader_epoch=4, now_ms=NOW_MS)
    log.write_queued()
    log.sync()
    newer = (tmp_path / "log-bounds").stat().st_mtime_ns + 1
    os.utime(tmp_path / "log-start-offset-checkpoint", ns=(newer, newer))
    found = opened_again(half_cleaned, tmp_path)
    passed = found.compaction.has_passed
    assert (found.log_end_offset, passed(3), passed(4)) == (7, True, False)


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
