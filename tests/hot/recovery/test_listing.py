"""Tests of hot/recovery/listing.py."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.recovery.listing import listed_segments, listed_snapshots
from stratalog.hot.recovery.opening import OpenRequest
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition


def test_segments_begin_and_end_as_their_names_say(files, tmp_path):
    """All but the last are frozen and end where the next one begins; other names are no segments."""
    names = (f"{0:020d}.log", f"{0:020d}.index", f"{7:020d}.log", f"{7:020d}.snapshot", f"{9:020d}.log.swap", "7.log")
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    entries = files.scan(str(tmp_path))
    request = OpenRequest(
        str(tmp_path), TopicPartition("t", 0), bytes(16), LogConfig(), files, SegmentCache(), 1, clean=True,
        recovery_point=0, log_start_offset=0,
    )  # fmt: skip
    found = [
        (one.base_offset, one.next_offset, one.frozen, one.size_bytes) for one in listed_segments(request, entries)
    ]
    assert found == [(0, 7, True, 1), (7, 7, False, 1)]
    assert listed_snapshots(entries) == [7]
    assert listed_segments(request, []) == []


def gone(bench, *, rolls=False):
    """Three batches [0,6), closed in order, without the ``.log`` that had them: the last one if each had one, and the others have left."""
    log = bench.open()
    for number in range(3):
        if rolls and number:
            log.roll()
        bench.append(log, 2)
    if rolls:
        log.sync()
        log.delete_local_before(4)
    log.close()
    (path,) = Path(bench.directory).glob("*.log")
    path.unlink()
    return bench


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_only_segment_is_gone_is_no_new_one(bench, clean):
    """It began anew at offset 0 without a word, and gave its offsets out a second time."""
    log = gone(bench).open(clean=clean, recovery_point=6)
    assert (log.log_end_offset, log.recovery.damaged_offset, log.recovery.resume_offset) == (6, 0, 6)
    assert log.recovery.has_lost_flushed
    bench.append(log, 2)
    log.close()
    again = bench.open(recovery_point=8)
    assert (again.log_end_offset, again.recovery.damaged_offset) == (8, None)


@pytest.mark.parametrize("clean", [True, False])
def test_files_of_segments_that_were_removed_are_no_segments(bench, clean):
    """Retention and the cleaner leave them for a minute. A log that had one of them beside it began anew."""
    log = gone(bench, rolls=True).open(clean=clean, recovery_point=6)
    assert (log.log_end_offset, log.recovery.damaged_offset, log.recovery.resume_offset) == (6, 4, 6)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_segments_are_all_gone_is_no_new_one_where_the_last_had_no_batch(bench, clean):
    """It had just been rolled: nothing of that segment was flushed, but of the one before."""
    log = bench.open()
    for _ in range(3):
        bench.append(log, 2)
    log.roll()
    summary = bench.stop(log)
    for path in Path(bench.directory).glob("*.log"):
        path.unlink()
    again = bench.open(clean=clean, recovery_point=6, summary=summary)
    assert (again.log_end_offset, again.recovery.damaged_offset, again.recovery.has_lost_flushed) == (6, 0, True)
    bench.append(again, 2)
    again.close()
    assert bench.open(clean=clean, recovery_point=8).log_end_offset == 8


@pytest.mark.parametrize("others_have_it", [True, False])
def test_a_log_whose_only_segment_is_gone_after_a_kill_is_opened(bench, others_have_it):
    """The stop before the kill had noted its active segment. The file was looked for, and the log stayed offline."""
    log = bench.open()
    bench.append(log, 2)
    summary = bench.stop(log)
    Path(bench.directory, f"{0:020d}.log").unlink()
    again = bench.open(clean=False, recovery_point=2, summary=summary, others_have_it=others_have_it)
    assert (again.log_end_offset, again.recovery.has_lost_flushed) == (0 if others_have_it else 2, True)


def test_a_replica_whose_only_segment_is_gone_is_copied_again(bench):
    """It ends where the others have it from."""
    log = gone(bench).open(clean=False, recovery_point=6, others_have_it=True)
    assert (log.log_end_offset, log.recovery.has_lost_flushed) == (0, True)


def test_a_metadata_log_whose_only_segment_is_gone_is_refused(bench):
    """Its cluster would have no topics. No file is changed."""
    names = sorted(Path(gone(bench).directory).iterdir())
    with pytest.raises(
        Corrupt, match=r"0\.log is gone, and had been flushed up to offset 6: records are lost; restore"
    ):
        bench.open(clean=False, recovery_point=6, refuse_damage=True)
    assert sorted(Path(bench.directory).iterdir()) == names


@pytest.mark.parametrize("recovery_point", [0, 6])
def test_a_directory_that_was_made_by_hand_has_a_new_log(bench, recovery_point):
    """The word of the operator that the old one is lost. So has one whose first sync never came."""
    for path in Path(gone(bench).directory).iterdir():
        if recovery_point or path.suffix == ".snapshot":
            path.unlink()
    log = bench.open(clean=False, recovery_point=recovery_point)
    assert (log.log_end_offset, log.recovery.damaged_offset) == (0, None)
