"""Recovery where headers claim what cannot be: offsets that are not due, epochs that never were."""

import shutil
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.wire.batch import HEADER_BYTES
from stratalog.wire.errors import Corrupt

CONFIG = LogConfig(index_interval_bytes=400)
EPOCH_POSITION = 12
"""The leader epoch of a batch lies here."""


@pytest.fixture
def closed(bench):
    """Segments [0,10) [10,20) [20,30) and two batches [30,34), closed in order."""
    log = bench.open(CONFIG)
    bench.fill(log, 3)
    bench.append(log, 2, epoch=2)
    bench.append(log, 2, epoch=2)
    log.close()
    return bench


def path(bench, base: int) -> Path:
    return Path(f"{bench.directory}/{base:020d}.log")


@pytest.mark.parametrize("bit", range(64))
@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_flipped_base_offset_is_damage_and_moves_no_log_end(bench, number, bit):
    """It lies outside of the CRC: it is believed only where the batch before it ends, as no cleaner was ever here."""
    log = bench.open()
    for _ in range(5):
        bench.append(log, 2)
    log.sync()
    log.abandon()
    file = path(bench, 0)
    data = bytearray(file.read_bytes())
    at = number * len(data) // 5
    data[at + bit // 8] ^= 0x80 >> bit % 8
    file.write_bytes(data)
    for recovery_point in (10, 0):
        log = bench.open(clean=False, recovery_point=recovery_point)
        if recovery_point:
            assert (log.recovery.damaged_offset, log.recovery.resume_offset) == (number * 2, 10)
            kept = Path(log.recovery.quarantine) / f"{0:020d}.log.from-{at}"
            assert kept.read_bytes() == data[at:]
        assert log.log_end_offset == 10
        log.abandon()


def test_a_gap_is_damage_where_no_cleaner_was(bench, make_batch):
    """Above its old end, and in a log that is known never to have had it, whatever the policy says."""
    compacted = LogConfig(cleanup_policy=frozenset({"compact"}))
    log = bench.open(compacted)
    for base in (0, 1, 5, 6):
        log.append_as_follower(memoryview(make_batch(base)), leader_epoch=0, now_ms=0)
    assert log.gaps.below == 5
    log.sync()
    log.abandon()
    for options in ({"known_gaps_below": 5}, {"may_have_gaps": True}, {}):
        log = bench.open(compacted, clean=False, recovery_point=7, **options)
        assert (log.recovery.damaged_offset, log.log_end_offset) == (None, 7)
        log.abandon()
    log = bench.open(LogConfig(), clean=False, recovery_point=7, known_gaps_below=4)
    assert (log.recovery.damaged_offset, log.recovery.resume_offset) == (2, 7)


def test_an_epoch_above_the_newest_of_the_partition_is_damage(bench, make_batch):
    """No CRC covers it, and if it stayed, every later batch would look like one of an epoch that is over."""
    log = bench.open()
    log.append_as_follower(memoryview(make_batch(0, leader_epoch=5)), leader_epoch=9, now_ms=0)
    log.append_as_follower(memoryview(make_batch(1, leader_epoch=70)), leader_epoch=90, now_ms=0)
    log.sync()
    log.abandon()
    Path(f"{bench.directory}/leader-epoch-checkpoint").write_text("0\n1\n5 0\n")
    log = bench.open(clean=False, recovery_point=2, leader_epoch_max=6)
    assert (log.recovery.damaged_offset, log.log_end_offset) == (1, 2)
    assert log.leader_epochs.entries == (EpochEntry(5, 0),)


def test_a_log_goes_on_above_more_lost_offsets_than_a_segment_holds(bench):
    """In a new segment: no batch can stand for so many."""
    log = bench.open()
    bench.append(log, 2)
    log.sync()
    log.abandon()
    log = bench.open(clean=False, recovery_point=1 << 40)
    assert (log.log_end_offset, log.gaps.below) == (1 << 40, 1 << 40)
    assert bench.append(log).base_offset == 1 << 40
    log.sync()
    assert [header.base_offset for header in bench.headers(log)] == [0, 1 << 40]
    log.abandon()
    log = bench.open(clean=False, recovery_point=1 << 40, may_have_gaps=True, known_gaps_below=1 << 40)
    assert (log.recovery.damaged_offset, log.log_end_offset) == (None, (1 << 40) + 1)


@pytest.mark.parametrize("at", [20, 100])
def test_refused_damage_raises_and_changes_no_file(closed, at):
    """The cluster's metadata must not lose a record; a torn tail is none. The files stay as they are."""
    tail = path(closed, 20)
    good = tail.read_bytes()
    tail.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    before = {entry.name: entry.stat().st_size for entry in Path(closed.directory).iterdir()}
    with pytest.raises(Corrupt, match=r"position 0.*nothing was changed"):
        closed.open(CONFIG, clean=False, refuse_damage=True)
    assert {entry.name: entry.stat().st_size for entry in Path(closed.directory).iterdir()} == before
    tail.write_bytes(good)
    active = path(closed, 30)
    active.write_bytes(active.read_bytes()[:-1])
    assert closed.open(CONFIG, clean=False, refuse_damage=True).log_end_offset == 32


@pytest.mark.parametrize("bit", range(32))
def test_a_flipped_length_of_the_last_batch_is_no_torn_tail(bench, bit):
    """Its CRC, which does not cover the length, fits what is there: a write that was cut short has no such CRC."""
    log = bench.open()
    for _ in range(3):
        bench.append(log, 2)
    log.sync()
    log.abandon()
    file = path(bench, 0)
    data = bytearray(file.read_bytes())
    at = 2 * len(data) // 3
    data[at + 8 + bit // 8] ^= 0x80 >> bit % 8
    file.write_bytes(data)
    log = bench.open(clean=False)
    assert (log.recovery.damaged_offset, log.recovery.tail_offset, log.log_end_offset) == (4, None, 4)
    assert (Path(log.recovery.quarantine) / f"{0:020d}.log.from-{at}").read_bytes() == data[at:]


@pytest.mark.parametrize(("cut", "short"), [(1, True), (100, True), (0, False)])
def test_a_tail_shorter_than_its_header_claims_is_reported_as_short(bench, cut, short):
    """A stop leaves less of a batch than its header says; all of it with a wrong CRC is more likely a damaged one."""
    log = bench.open()
    for _ in range(3):
        bench.append(log, 2)
    log.sync()
    log.abandon()
    file = path(bench, 0)
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data[: len(data) - cut])
    log = bench.open(clean=False)
    assert (log.recovery.tail_offset, log.recovery.tail_is_short) == (4, short)


def test_a_tail_without_its_header_is_short(bench):
    """After a power cut the pages of one write may be there in any number: here all but the first."""
    log = bench.open()
    bench.append(log, 2)
    log.sync()
    log.abandon()
    file = path(bench, 0)
    data = file.read_bytes()
    file.write_bytes(data + bytes(HEADER_BYTES) + data[HEADER_BYTES:])
    log = bench.open(clean=False)
    assert (log.recovery.tail_offset, log.recovery.tail_is_short, log.log_end_offset) == (2, True, 2)


def test_no_flipped_bit_of_the_last_batch_looks_like_a_write_cut_short(bench):
    """It is there as a whole: if a bit that a CRC covers changed, the log ends before it with an error, not a warning."""
    log = bench.open()
    for _ in range(2):
        bench.append(log, 2)
    log.sync()
    log.abandon()
    file = path(bench, 0)
    good = file.read_bytes()
    at = len(good) // 2
    for bit in range(8 * at):
        data = bytearray(good)
        data[at + bit // 8] ^= 0x80 >> bit % 8
        file.write_bytes(data)
        log = bench.open(clean=False)
        report = log.recovery
        assert not report.tail_is_short, bit
        if log.log_end_offset != 4:
            assert (report.damaged_offset if report.tail_offset is None else report.tail_offset) == 2, bit
        else:
            assert EPOCH_POSITION <= bit // 8 < EPOCH_POSITION + 4, bit  # no CRC covers it
        log.abandon()
        if report.quarantine:
            shutil.rmtree(report.quarantine)  # each copy looks at the names of all before it
