"""Tests of hot/recovery/snapshots.py."""

from contextlib import suppress

import pytest

from stratalog.hot.recovery.replay import to_the_end
from stratalog.hot.recovery.snapshots import restore_steps, stray_snapshots
from stratalog.hot.state.producer_snapshot import ProducerEntry, snapshot_to_bytes


def test_snapshots_that_no_segment_needs_are_strays():
    """Kept: the newest, and those at a base. Gone: beyond the end, inside a segment, below the first."""
    assert stray_snapshots([5, 10, 17, 20, 25, 90], [10, 20], 30) == [5, 17, 90]
    assert stray_snapshots([], [0], 0) == []
    assert stray_snapshots([17], [0], 30) == []


def test_the_newest_readable_snapshot_is_taken(files, tmp_path):
    """A damaged one is passed over, an older one gives the same state with a longer replay."""
    entry = ProducerEntry(7, 0, last_timestamp_ms=0)
    entry.remember(3, 4, 0, 0)
    (tmp_path / f"{5:020d}.snapshot").write_bytes(snapshot_to_bytes([entry]))
    (tmp_path / f"{9:020d}.snapshot").write_bytes(b"damaged")
    options = {"start_offset": 0, "name": "flights-0"}
    state = to_the_end(restore_steps(files, str(tmp_path), [5, 9, 12], [], end_offset=10, **options))
    assert state.entries == {7: entry}
    assert state.end_offset == 10
    assert to_the_end(restore_steps(files, str(tmp_path), [5, 9], [], end_offset=4, **options)).entries == {}
    options["start_offset"] = 6  # the log has lost what came behind the sound one
    assert to_the_end(restore_steps(files, str(tmp_path), [5, 9], [], end_offset=10, **options)).entries == {}


@pytest.mark.parametrize("room", [0, 12, 80, 114, 130, 1 << 20])
def test_a_segment_that_was_not_sealed_is_read_again_after_a_kill(bench, full_disk, room):
    """Its records were synced, the recovery point is its end, and the next segment was begun: only the seal found no room."""
    bench.files = full_disk
    log = bench.open()
    expected = bench.write_aborted(log, 3)
    log.sync()
    full_disk.room = room
    with suppress(OSError):
        log.roll()
    for _ in range(2):
        with suppress(OSError):
            log.discard_unwritten()
    assert f"{9:020d}.log" in bench.names()
    log.abandon()
    full_disk.room = 1 << 30
    log = bench.open(clean=False, recovery_point=9)
    assert log.recovery.segments_checked == (1 if room == 1 << 20 else 2)
    assert log.aborted_transactions(0, 9) == expected
