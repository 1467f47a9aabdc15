"""Where a log may lack offsets, and a copy of what a cleaner has left, over crashes."""

import os
from itertools import takewhile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.log.gaps import LogGaps
from stratalog.hot.storage.filesystem import RealFile, RealFilesystem
from stratalog.wire.batch import Record, assign_offset, build_batch, iter_headers
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))


def batch(base, count=2, *, has_hole=False) -> bytes:
    """As a leader stores it; with a hole its cleaner has taken the last record."""
    built = build_batch([Record(i, 1, b"k%d" % (base + i), b"v") for i in range(count)])
    built[23:27] = (count - 1 + has_hole).to_bytes(4, "big")
    assign_offset(built, 0, base, len(built) - 12, 1)
    return bytes(built)


def test_a_gap_is_kept_once_the_directory_has_it():
    """A row that was drawn up before the log was cut, or before the gap, counts for no more than it says."""
    gaps = LogGaps(10)
    assert gaps.is_in_row
    gaps.expect(30)
    assert (gaps.is_in_row, gaps.cleaned) == (False, True)
    gaps.kept(20, 10)
    assert not gaps.is_in_row
    gaps.kept(30, 10)
    assert gaps.is_in_row
    gaps.cut(15)
    assert gaps.is_in_row
    gaps.expect(25)
    assert not gaps.is_in_row, "the row of the cut may be under way"
    gaps.kept(None, None)
    assert not gaps.is_in_row


def test_a_row_that_allows_more_at_the_ends_of_segments_is_to_be_replaced():
    """A tail that is lost above the end of a log that was cut would pass for a gap; so would one above an earlier version's row."""
    gaps = LogGaps(30, 30, 100)
    gaps.expect(30)
    assert (gaps.is_in_row, gaps.are_kept_at_borders(30)) == (False, True)
    gaps.kept(*gaps.row(True, 0)[:2])
    assert gaps.is_in_row
    gaps.cut(20)
    assert (gaps.is_in_row, gaps.are_kept_at_borders(25)) == (False, False)
    gaps.kept(20, 20)
    assert gaps.is_in_row
    gaps.expect(50)
    gaps.kept(50, 20)
    assert (gaps.is_in_row, gaps.are_kept_at_borders(21)) == (True, False)
    gaps.expect_at_borders(40)
    assert (gaps.is_in_row, gaps.row(True, 0)) == (False, (50, 40, None))


def test_a_gap_that_no_row_allows_is_found():
    """The cleaner had allowed gaps and left none; the topic is compacted no longer, and its row says nothing of gaps."""
    gaps = LogGaps(30)
    gaps.kept(None, None)
    assert gaps.first_unkept(memoryview(batch(20)), 5) == (0, 20)
    gaps.expect(20)
    assert not gaps.is_in_row


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=6),
    st.integers(0, 30),
    st.integers(0, 70),
)
def test_the_first_unkept_gap_is_found(steps, kept, torn):
    """Between two batches or inside one; a torn batch at the end is left to the append."""
    gaps, records, end, unkept = LogGaps(kept), b"", 5, []
    for skipped, count, has_hole in steps:
        base, after = end + skipped, end + skipped + count + has_hole
        unkept += [(len(records), base)] if skipped and base > kept else []
        unkept += [(len(records), after)] if has_hole and after > kept else []
        records += batch(base, count, has_hole=has_hole)
        end = after
    assert gaps.first_unkept(memoryview(records + batch(end)[:torn]), 5) == (unkept[0] if unkept else None)


def test_a_length_that_leads_nowhere_ends_the_search():
    """The append says what is wrong with such a batch."""
    damaged = bytearray(batch(5))
    damaged[8:12] = (-12).to_bytes(4, "big", signed=True)
    assert LogGaps(0).first_unkept(memoryview(bytes(damaged) + batch(50)), 5) is None


@pytest.mark.parametrize("config", [COMPACTED, LogConfig()], ids=["compacted", "compacted once"])
@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("stop", ["killed", "orderly, and the summaries are lost"])
def test_a_gap_that_a_leader_sent_is_no_damage_after_a_restart(tmp_path, files, config, rolled, stop):
    """Its leader knows that it cleaned the log, and so does the copy once its directory has the bounds."""
    root = str(tmp_path)
    directory = LogDirectory.load(root, files)
    log = directory.open_log(NAME, b"i" * 16, config, now_ms=1)
    for base in (0, 2, 20, 22):
        assert log.append_as_follower(memoryview(batch(base)), leader_epoch=1, now_ms=1)
    if rolled:
        log.roll()
        assert log.append_as_follower(memoryview(batch(24)), leader_epoch=1, now_ms=1)
    log.sync()
    directory.write_bounds({NAME: log})
    end = log.log_end_offset
    log.update_config(LogConfig())  # what was compacted once keeps its gaps
    if stop == "killed":
        log.abandon()
    else:
        directory.close({NAME: log}, broker_epoch=1)
        (tmp_path / "log-summaries").unlink()
    again = LogDirectory.load(root, files).open_log(NAME, b"i" * 16, LogConfig(), now_ms=1, leader_epoch_max=1)
    found = again.recovery.damaged_offset, again.missing_ranges(), again.log_end_offset
    assert found == (None, [], end)


def test_the_cleaner_has_gaps_stored_that_a_follower_has_just_allowed(bench):
    """They are in memory only: the role of the follower ended before its directory had them."""
    log = bench.open(COMPACTED)
    bench.fill(log, 3)
    log.gaps.expect(40)
    assert log.compaction.expect_gaps(20, 40)
    assert log.gaps.below == 40
    log.gaps.kept(40, 40)
    assert not log.compaction.expect_gaps(20, 40)


def test_where_a_cleaner_was_stays_noted_until_the_log_begins_anew():
    """The earliest leader epoch that is known to have all of it counts: a batch of a later one below is of another history."""
    gaps = LogGaps(10)
    gaps.know_passed(10)
    records = memoryview(batch(5) + batch(30))  # of epoch 1
    assert gaps.first_of_another(records, 5, 1) is None, "the epoch is not known"
    for offset, epoch in ((10, 2), (10, 0), (10, 1), (8, 0)):
        gaps.passed(offset, epoch)
    assert (gaps.passed_below, gaps.passed_epoch) == (10, 0)
    assert [gaps.first_of_another(records, at, 1) for at in (5, 9, 10)] == [5, 5, None]
    assert gaps.first_of_another(records, 5, 0) is None, "its leader is of no such epoch: that is damage"
    assert gaps.first_of_another(records[len(batch(5)) :], 5, 1) is None
    gaps.passed(40, 0)
    assert gaps.first_of_another(records[len(batch(5)) :], 5, 1) == 30
    assert gaps.first_of_another(memoryview(bytes(80)), 5, 1) is None
    gaps.cut(3)
    assert (gaps.below, gaps.passed_below) == (3, 40)
    gaps.begin_anew(0)
    assert (gaps.below, gaps.passed_below) == (0, 0)


def test_a_tail_that_a_power_cut_takes_from_a_roll_is_no_gap(bench):
    """The name of the next segment was on the disk, and the cleaner had noted its gaps: a copy went on behind what it had lost."""
    log = bench.open(COMPACTED)
    bench.append(log, 5)
    log.roll()
    bench.append(log, 5)
    log.sync()
    synced_bytes = log.segments()[-1].size_bytes
    bench.append(log, 5)
    log.roll()
    assert log.compaction.expect_gaps(5, log.log_end_offset)
    path, gaps_below = log.segments()[1].path, log.bounds.gaps_below
    log.abandon()
    os.truncate(path, synced_bytes)
    log = bench.open(COMPACTED, clean=False, recovery_point=10, known_gaps_below=gaps_below)
    assert log.log_end_offset == 10


@pytest.mark.parametrize("config", [COMPACTED, LogConfig()], ids=["compacted", "compacted once"])
def test_a_tail_that_a_power_cut_takes_from_a_copys_roll_is_no_gap(tmp_path, files, config):
    """Its leader's mark was noted as the end of its gaps: the copy went on behind records that it had lost, and counted as in sync."""
    root = str(tmp_path)
    directory = LogDirectory.load(root, files)
    log = directory.open_log(NAME, b"i" * 16, config, now_ms=1)
    log.gaps.expect(100)
    for base in (0, 2, 20):
        assert log.append_as_follower(memoryview(batch(base)), leader_epoch=1, now_ms=1)
    log.sync()
    directory.write_checkpoints({NAME: log})
    synced_bytes = log.segments()[0].size_bytes
    assert log.append_as_follower(memoryview(batch(30)), leader_epoch=1, now_ms=1)
    log.roll()
    assert log.append_as_follower(memoryview(batch(40)), leader_epoch=1, now_ms=1)
    log.write_queued()
    directory.write_bounds({NAME: log})
    path = log.segments()[0].path
    log.abandon()
    os.truncate(path, synced_bytes)
    again = LogDirectory.load(root, files)
    log = again.open_log(NAME, b"i" * 16, config, now_ms=1, leader_epoch_max=1, others_have_it=True)
    assert (log.log_end_offset, log.recovery.damaged_offset) == (22, 22)


def segment_bytes(log):
    log.write_queued()
    return {one.path: one.size_bytes for one in log.segments()}


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0, 3, 30]), st.sampled_from(["", "", "roll", "sync", "checkpoint", "clean"])),
        min_size=2,
        max_size=14,
    ),
    st.integers(0, 3),
)
def test_a_copy_keeps_its_gaps_and_takes_no_lost_tail_for_one(tmp_path_factory, steps, left):
    """Over a power cut: it ends where its first batch is lost, and not before. The bytes of the last segments are ``left``."""
    root, files = str(tmp_path_factory.mktemp("power")), RealFilesystem()
    directory = LogDirectory.load(root, files)
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=300)
    log = directory.open_log(NAME, b"i" * 16, config, now_ms=1)
    log.gaps.expect(1000)
    directory.write_bounds({NAME: log})
    ends, synced = [], {}
    for skipped, then in steps:
        base = log.log_end_offset + skipped
        assert log.append_as_follower(memoryview(batch(base)), leader_epoch=1, now_ms=1)
        ends.append((base + 2, segment_bytes(log)))
        if then == "roll":
            log.roll()
        elif then == "clean":
            if log.compaction.expect_gaps(min(log.flushed_offset, log.active_base_offset), log.log_end_offset):
                directory.write_bounds({NAME: log})
        elif then:
            log.sync()
            synced = segment_bytes(log)
            if then == "checkpoint":
                directory.write_checkpoints({NAME: log})
    kept = synced | dict(list(segment_bytes(log).items())[-left:] if left else ())
    sound = takewhile(lambda end: all(size <= kept.get(path, 0) for path, size in end[1].items()), ends)
    expected = max((end for end, _ in sound), default=0)
    for path in segment_bytes(log):
        os.truncate(path, kept.get(path, 0))
    log.abandon()
    again = LogDirectory.load(root, files)
    log = again.open_log(NAME, b"i" * 16, config, now_ms=1, leader_epoch_max=1, others_have_it=True)
    found = b"".join(Path(one.path).read_bytes() for one in log.segments())
    assert max((header.next_offset for _, header in iter_headers(found)), default=0) == expected
    log.abandon()


def test_a_gap_larger_than_a_segment_is_no_lost_tail(tmp_path, files):
    """The next segment cannot begin at the end of the copy. So all before it is synced first."""
    root, far = str(tmp_path), 1 << 32
    directory = LogDirectory.load(root, files)
    log = directory.open_log(NAME, b"i" * 16, COMPACTED, now_ms=1)
    log.gaps.expect(far)
    synced = []
    for base in (0, far):
        with patch.object(RealFile, "fdatasync", lambda file: synced.append(file.size_bytes())):
            assert log.append_as_follower(memoryview(batch(base)), leader_epoch=1, now_ms=1)
    assert synced == [len(batch(0))]
    log.write_queued()
    assert not log.gaps.is_in_row
    directory.write_bounds({NAME: log})
    assert log.gaps.is_in_row
    log.abandon()
    again = LogDirectory.load(root, files).open_log(NAME, b"i" * 16, COMPACTED, now_ms=1, leader_epoch_max=1)
    assert (again.log_end_offset, again.recovery.damaged_offset) == (far + 2, None)


def test_a_copy_that_is_cut_into_a_gap_keeps_it(tmp_path, files):
    """Its last segment begins behind the gap. All before is synced, so no power cut makes the gap larger."""
    root = str(tmp_path)
    directory = LogDirectory.load(root, files)
    log = directory.open_log(NAME, b"i" * 16, COMPACTED, now_ms=1)
    log.gaps.expect(1000)
    for base in (0, 2, 20):
        assert log.append_as_follower(memoryview(batch(base)), leader_epoch=1, now_ms=1)
    log.write_queued()
    log.truncate_to(10)
    assert not log.gaps.is_in_row
    directory.write_bounds({NAME: log})
    assert log.append_as_follower(memoryview(batch(10)), leader_epoch=1, now_ms=1)
    log.write_queued()
    assert (log.gaps.is_in_row, log.first_base_offset, log.active_base_offset) == (True, 0, 10)
    log.abandon()
    again = LogDirectory.load(root, files).open_log(NAME, b"i" * 16, COMPACTED, now_ms=1, leader_epoch_max=1)
    assert (again.log_end_offset, again.recovery.damaged_offset) == (12, None)


@pytest.mark.parametrize(("below", "end", "epoch"), [(50, 10, 4), (20, 10, 4), (50, 50, None), (60, 10, None)])
def test_a_row_has_the_epoch_of_a_cleaner_while_the_log_is_short_of_it(below, end, epoch):
    """Gaps that lie beyond are of another time."""
    gaps = LogGaps(below)
    gaps.passed(50, 4)
    assert gaps.row(True, end) == (max(below, 50), below, epoch)
    assert gaps.row(False, end) == (None, None, None)
    again = LogGaps(0)
    again.know_passed(50)
    assert again.row(True, 10) == (50, 0, None), "it was not known"
