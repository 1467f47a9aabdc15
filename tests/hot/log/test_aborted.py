"""Tests of hot/log/aborted.py."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from stratalog.hot.log.log import AppendOrigin
from stratalog.hot.segments.transaction_index import AbortedTxn, aborted_to_bytes


def test_an_aborted_transaction_is_found_by_its_range(bench):
    """And the first unstable offset moves once the marker is below the high watermark."""
    log = bench.open()
    bench.append(log, 2)
    bench.append(log, 3, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert log.first_unstable_offset == 2
    assert log.aborted_transactions(0, 5) == log.aborted_transactions(0, 5) == []
    log.append_as_leader(bench.marker(commit=False), leader_epoch=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
    assert log.aborted_transactions(0, 6) == [AbortedTxn(7, 2, 5, 6)]
    assert log.aborted_transactions(0, 2) == []
    assert log.first_unstable_offset == 2
    log.producer_state.on_high_watermark(6)
    assert log.first_unstable_offset is None


def test_a_damaged_transaction_index_is_derived_again(bench):
    """From the producer snapshot at the segment's base and the markers in it."""
    log = bench.open()
    for sequence in range(0, 6, 2):
        bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
        log.append_as_leader(bench.marker(commit=False), leader_epoch=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
    expected = log.aborted_transactions(0, 9)
    log.roll()
    log.close()
    path = f"{log.directory}/{0:020d}.txnindex"
    Path(path).write_bytes(b"\xff\xff" + Path(path).read_bytes()[2:])
    log = bench.open()
    assert log.aborted_transactions(0, 9) == expected
    assert len(expected) == 3
    assert bench.files.read_bytes(path)[:2] == b"\0\0"


def test_a_damaged_transaction_index_stays_until_there_is_room_for_another(bench, full_disk):
    """The transactions are known all the same, and after the next start as well."""
    bench.files = full_disk
    log = bench.open()
    expected = bench.write_aborted(log, 3)
    log.roll()
    log.close()
    path = Path(f"{log.directory}/{0:020d}.txnindex")
    path.write_bytes(b"\xff\xff" + path.read_bytes()[2:])
    for room in (0, 50, 1 << 30):
        log = bench.open()
        full_disk.room = room
        with pytest.raises(OSError, match="no space") if room < 1 << 30 else nullcontext():
            log.aborted_transactions(0, 9)
        assert log.aborted_transactions(0, 9) == expected
        full_disk.room = 1 << 30
        log.close()
    assert path.read_bytes() == aborted_to_bytes(expected)


def test_a_power_cut_behind_a_roll_takes_no_aborted_transaction(bench):
    """A start trusts a segment that ends at the recovery point, so its entries are synced with their markers."""
    log = bench.open()
    expected = bench.write_aborted(log, 2)
    path = Path(f"{log.directory}/{0:020d}.txnindex")
    ticket = log.begin_sync()
    assert {str(path), str(path.with_suffix(".log"))} <= {file.path for file in ticket._files}
    assert ticket.names_pending
    ticket.run()
    log.finish_sync(ticket)
    assert log.flushed_offset == 6
    synced = path.read_bytes()
    log.roll()
    path.write_bytes(synced)
    log = bench.open(clean=False, recovery_point=6)
    assert log.aborted_transactions(0, 6) == expected
    assert log.recovery.segments_checked == 1


def test_aborted_transactions_hold_no_descriptors_until_the_next_sync(bench):
    """Without sync on ack that may be long, and a client may abort as often as it likes."""
    log = bench.open()
    bench.write_aborted(log, 1)
    log.sync()
    for before in range(1, 5):
        bench.write_aborted(log, 1, before=before)
    ticket = log.begin_sync()
    assert [Path(file.path).suffix for file in ticket._files] == [".log", ".txnindex"]
    assert not ticket.names_pending  # of a file that has its name already


def test_a_replaced_index_of_aborted_transactions_gets_its_name_durably_with_its_markers(bench):
    """After a cut the entries of before do not all count, and a new file takes the place of the old one."""
    log = bench.open()
    bench.write_aborted(log, 2)
    log.sync()
    log.truncate_to(3)
    log.sync()
    bench.write_aborted(log, 1, before=1)
    assert log.begin_sync().names_pending
