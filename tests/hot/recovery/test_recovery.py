"""Tests of hot/recovery/recovery.py."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.hot.config import LogConfig
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.storage.filesystem import RealFile

CONFIG = LogConfig(index_interval_bytes=400)


@pytest.fixture
def closed(bench):
    """Segments [0,10) [10,20) [20,30) and two batches [30,34), closed in order."""
    log = bench.open(CONFIG)
    bench.fill(log, 3)
    bench.append(log, 2, epoch=2)
    bench.append(log, 2, epoch=2)
    log.close()
    return bench


def path(bench, base: int, suffix: str = ".log") -> Path:
    return Path(f"{bench.directory}/{base:020d}{suffix}")


def bases(bench, log) -> list[int]:
    return [header.base_offset for header in bench.headers(log)]


def test_a_clean_start_reads_the_ends_of_frozen_segments_only(closed, monkeypatch):
    """Sizes come from the listing, the end from the tail behind the active segment's last index entry."""
    indexed = {
        path(closed, base): int.from_bytes(path(closed, base, ".index").read_bytes()[-4:]) for base in (0, 10, 20)
    }
    assert all(indexed.values())
    reads = []
    real = RealFile.pread
    monkeypatch.setattr(
        RealFile, "pread", lambda file, *where: reads.append((Path(file.path), where[1])) or real(file, *where)
    )
    log = closed.open(CONFIG)
    assert log.log_end_offset == 34
    assert log.recovery.segments_checked == 0
    assert {name: position for name, position in reads if name in indexed} == indexed
    assert closed.cache.held_count == 0
    assert bases(closed, log) == list(range(0, 34, 2))


def test_an_unclean_start_verifies_from_the_recovery_points_segment_on(closed):
    """Older segments are trusted."""
    assert closed.open(CONFIG, clean=False, recovery_point=25).recovery.segments_checked == 2
    assert closed.open(CONFIG, clean=False, recovery_point=0).recovery.segments_checked == 4
    assert closed.open(CONFIG, clean=False, recovery_point=34).recovery.segments_checked == 1


def test_recovered_segments_are_synced_before_they_are_served(closed, monkeypatch):
    """A record that a consumer has read cannot vanish with the next power cut (KAFKA-10101)."""
    synced, directories = set(), set()
    real, real_fsync = os.fdatasync, os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: directories.add(str(Path(f"/proc/self/fd/{fd}").readlink())) or real_fsync(fd)
    )
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.add(str(Path(f"/proc/self/fd/{fd}").readlink())) or real(fd))
    log = closed.open(CONFIG, clean=False, recovery_point=12)
    assert not synced  # the owner does it beside other logs
    assert (log.flushed_offset, log.written_offset) == (12, 34)
    log.sync()
    assert {str(path(closed, base)) for base in (10, 20, 30)} <= synced
    assert str(path(closed, 20, ".index")) in synced
    assert str(path(closed, 20, ".snapshot")) in synced
    assert Path(closed.directory) in map(Path, directories)
    assert log.flushed_offset == 34


def test_an_unclean_start_holds_no_descriptors_until_the_sync(closed):
    """Thousands of partitions are opened before the first of them is synced."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the shortest way
    closed.cache.open_max = 1
    log = closed.open(CONFIG, clean=False)
    assert log.recovery.segments_checked == 4
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # noqa: PTH208 - as above


def test_a_cut_tail_is_synced_at_once(closed, monkeypatch):
    """The next append lies where the torn bytes lay."""
    tail = path(closed, 30)
    tail.write_bytes(tail.read_bytes()[:-1])
    synced = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    closed.open(CONFIG, clean=False)
    assert synced[-1] == str(tail)
    assert all("-stray/" in name for name in synced[:-1]), "and before that what is kept of it"


@pytest.mark.parametrize("cut", [1, 60, 61, 62, 150])
def test_a_torn_tail_is_cut_off(closed, cut):
    """Back to the last whole batch; its offsets are given anew."""
    tail = path(closed, 30)
    with tail.open("r+b") as file:
        file.truncate(Path(tail).stat().st_size - cut)
    log = closed.open(CONFIG, clean=False, recovery_point=20)
    assert log.log_end_offset == 32
    assert log.recovery.damaged_offset is None
    assert log.recovery.truncated_bytes > 0
    kept = Path(log.recovery.quarantine) / f"{30:020d}.log.from-{tail.stat().st_size}"
    assert (log.recovery.tail_offset, kept.stat().st_size) == (32, log.recovery.truncated_bytes)
    assert closed.append(log, 2, epoch=2).base_offset == 32


def test_zeroes_behind_the_tail_are_cut_off(closed):
    """The size reached the disk, the pages did not."""
    with path(closed, 30).open("ab") as file:
        file.write(bytes(5000))
    log = closed.open(CONFIG, clean=False, recovery_point=20)
    assert (log.log_end_offset, log.recovery.truncated_bytes) == (34, 5000)
    assert log.recovery.quarantine is None


def test_a_torn_tail_is_cut_off_despite_a_clean_mark(closed):
    """The tail does not add up, so the log is verified."""
    with path(closed, 30).open("ab") as file:
        file.write(b"torn")
    log = closed.open(CONFIG, clean=True)
    assert (log.log_end_offset, log.recovery.truncated_bytes) == (34, 4)


def test_a_flipped_bit_before_good_batches_goes_to_quarantine(closed):
    """Only the tail may be cut; what follows the damage is kept aside and reported."""
    tail = path(closed, 30)
    data = bytearray(tail.read_bytes())
    data[100] ^= 1
    tail.write_bytes(data)
    log = closed.open(CONFIG, clean=False, recovery_point=30)
    report = log.recovery
    assert report.damaged_offset == 30
    kept = Path(report.quarantine) / f"{30:020d}.log.from-0"
    assert kept.read_bytes() == data
    assert log.log_end_offset == 30


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_replica_ends_before_damage_and_goes_on_as_its_leader_does(closed, is_whole):
    """An own batch in the leader's epoch would be a fork that no comparison of epochs finds: the records are copied again."""
    tail = path(closed, 30)
    data = bytearray(tail.read_bytes())
    if is_whole:
        data[-5] ^= 1
    else:
        del data[-80:]
    tail.write_bytes(data)
    log = closed.open(CONFIG, clean=False, recovery_point=34, others_have_it=True)
    assert (log.recovery.damaged_offset, log.recovery.resume_offset, log.log_end_offset) == (32, 32, 32)
    assert log.recovery.quarantine
    assert log.recovery.has_lost_flushed


def test_flushed_records_are_lost_below_the_recovery_point_alone(closed):
    """Above it they may never have been synced, and a power cut leaves such an end; a cut that a follower made is none."""
    tail = path(closed, 30)
    data = bytearray(tail.read_bytes())
    data[-5] ^= 1
    tail.write_bytes(data)
    assert not closed.open(CONFIG, clean=False, recovery_point=32, others_have_it=True).recovery.has_lost_flushed
    tail.write_bytes(b"")
    log = closed.open(CONFIG, clean=False, recovery_point=31, others_have_it=True)
    assert (log.log_end_offset, log.recovery.has_lost_flushed) == (30, True)


def test_flushed_offsets_that_are_lost_are_never_given_again(closed):
    """An empty batch stands for them, so that no offset names two records."""
    tail = path(closed, 30)
    data = bytearray(tail.read_bytes())
    data[-5] ^= 1
    tail.write_bytes(data)
    log = closed.open(CONFIG, clean=False, recovery_point=34)
    assert (log.recovery.damaged_offset, log.recovery.resume_offset) == (32, 34)
    assert closed.append(log, 2, epoch=3).base_offset == 34
    log.sync()
    headers = closed.headers(log)
    assert [(header.base_offset, header.record_count) for header in headers[-3:]] == [(30, 2), (32, 0), (34, 2)]
    log.abandon()
    again = closed.open(CONFIG, clean=False, recovery_point=0)
    assert again.recovery.damaged_offset is None
    assert again.log_end_offset == 36


def test_a_file_cut_at_a_batch_border_below_the_recovery_point_is_noticed(closed):
    """No batch is torn, yet flushed records are gone."""
    path(closed, 30).write_bytes(b"")
    for clean in (True, False):
        log = closed.open(CONFIG, clean=clean, recovery_point=34)
        assert log.recovery.damaged_offset in (30, None)
        assert log.log_end_offset == 34
        log.abandon()


def test_damage_in_an_older_segment_keeps_the_later_ones_aside(closed):
    """Without a flush that covers them they were never acknowledged: the log is a valid prefix again."""
    damaged = path(closed, 10)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0x40
    damaged.write_bytes(data)
    log = closed.open(CONFIG, clean=False, recovery_point=0)
    end = log.log_end_offset
    assert 10 <= end < 20
    assert bases(closed, log) == list(range(0, end, 2))
    inside = [entry.name for entry in Path(log.recovery.quarantine).iterdir()]
    assert {f"{20:020d}.log", f"{30:020d}.log"} <= set(inside)


def test_a_segment_that_ends_short_of_its_successor_ends_the_log(closed):
    """A lost last page of an unflushed segment leaves no hole."""
    path(closed, 10).write_bytes(b"")
    log = closed.open(CONFIG, clean=False, recovery_point=0)
    assert log.log_end_offset == 10
    assert log.recovery.damaged_offset == 10


def test_an_old_block_of_an_earlier_epoch_is_damage(bench, make_batch):
    """Valid bytes in the wrong place: epochs never go back within a log."""
    log = bench.open()
    log.append_as_follower(memoryview(make_batch(0, leader_epoch=5)), leader_epoch=9, now_ms=0)
    log.close()
    with path(bench, 0).open("ab") as file:
        file.write(make_batch(1, leader_epoch=3))
    log = bench.open(clean=False)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("harm", ["missing", "short", "flipped", "zeroed"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_rebuilt(closed, suffix, harm, clean):
    """Look-ups find what a scan finds."""
    for base in (10, 30):
        index = path(closed, base, suffix)
        data = bytearray(index.read_bytes())
        if harm == "missing":
            index.unlink()
        elif harm == "short":
            index.write_bytes(data[:-1])
        elif harm == "flipped" and data:
            data[0] ^= 0x80
            index.write_bytes(data)
        else:
            index.write_bytes(bytes(len(data)))
    log = closed.open(CONFIG, clean=clean, recovery_point=34)
    for offset in range(34):
        found = log.read(offset, max_bytes=1, max_offset=34)
        assert found.next_offset == offset // 2 * 2 + 2
    assert closed.offset_for_timestamp(log, closed.now_ms + 1, max_offset=34).offset == 1


@pytest.mark.parametrize("harm", ["missing", "garbage"])
@pytest.mark.parametrize("clean", [True, False])
def test_lost_epochs_are_derived_from_the_log(closed, harm, clean):
    """Each batch carries its epoch; an unreadable file is kept aside."""
    checkpoint = Path(f"{closed.directory}/leader-epoch-checkpoint")
    if harm == "missing":
        checkpoint.unlink()
    else:
        checkpoint.write_text("garbage")
    log = closed.open(CONFIG, clean=clean)
    assert log.leader_epochs.entries == (EpochEntry(1, 0), EpochEntry(2, 30))
    log.sync()
    assert checkpoint.read_text() == "0\n2\n1 0\n2 30\n"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolls_after", [{5}, {1, 2, 3, 4, 5}, {3}, set()])
def test_the_last_five_batches_of_a_producer_are_known_after_a_start(bench, clean, rolls_after):
    """Segments may end anywhere. A client whose answers were lost sends all of them again, and gives up when the first is out of order."""
    log = bench.open()
    for sequence in range(6):
        bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
        if sequence in rolls_after:
            log.roll()
    if clean:
        log.close()
    else:
        log.sync()
        log.abandon()
    log = bench.open(clean=clean)
    again = [bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in range(1, 6)]
    assert [(one.duplicate, one.base_offset) for one in again] == [(True, offset) for offset in range(1, 6)]
    assert bench.append(log, producer_id=7, producer_epoch=0, base_sequence=6).base_offset == 6


@pytest.mark.parametrize("harm", ["missing", "garbage"])
@pytest.mark.parametrize("clean", [True, False])
def test_lost_snapshots_are_replaced_by_a_longer_replay(bench, harm, clean):
    """The sequences of producers survive."""
    log = bench.open()
    for sequence in range(6):
        bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.roll()
    log.close()
    for snapshot in Path(bench.directory).glob("*.snapshot"):
        if harm == "missing":
            snapshot.unlink()
        else:
            snapshot.write_bytes(b"garbage")
    log = bench.open(clean=clean)
    assert bench.append(log, producer_id=7, producer_epoch=0, base_sequence=5).duplicate
    assert bench.append(log, producer_id=7, producer_epoch=0, base_sequence=6).base_offset == 6


def test_unfinished_files_are_removed_and_a_swap_is_completed(closed):
    """Kafka's rule: a .swap segment replaces the segments whose offsets it covers."""
    directory = Path(closed.directory)
    for name in (f"{5:020d}.log.deleted", "x.tmp", f"{7:020d}.log.cleaned"):
        (directory / name).write_bytes(b"x")
    merged = path(closed, 0).read_bytes() + path(closed, 10).read_bytes()
    (directory / f"{0:020d}.log.swap").write_bytes(merged)
    log = closed.open(CONFIG)
    assert [segment.base_offset for segment in log.segments()] == [0, 20, 30]
    assert bases(closed, log) == list(range(0, 34, 2))
    assert not [
        name for name in Path(directory).iterdir() if name.name.endswith((".swap", ".deleted", ".tmp", ".cleaned"))
    ]


def test_a_new_log_begins_at_its_log_start(bench):
    """And leaves its identity before any record."""
    log = bench.open(log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert sorted(entry.name for entry in Path(bench.directory).iterdir()) == [f"{500:020d}.log", "partition.metadata"]


@given(content=st.binary(max_size=300), which=st.sampled_from([10, 30]), at=st.integers(0, 1200), clean=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_bytes_anywhere_never_stop_a_start(bench, content, which, at, clean):
    """The log opens, reads as a sequence of valid batches, and takes appends."""
    bench.begin_anew()
    log = bench.open(CONFIG)
    bench.fill(log, 3)
    bench.append(log, 2)
    log.close()
    target = path(bench, which)
    data = bytearray(target.read_bytes())
    data[at : at + len(content)] = content
    target.write_bytes(data)
    log = bench.open(CONFIG, clean=clean, recovery_point=0)
    if not clean:
        offsets = bases(bench, log)
        assert offsets == sorted(set(offsets))
        assert bench.append(log, epoch=2**31 - 1).base_offset == log.log_end_offset - 1
        log.sync()


def test_a_clean_start_waits_for_no_disk(bench, monkeypatch):
    """Every start is a new epoch at the log end; that the one before had no records is written with the next sync."""
    log = bench.open()
    bench.append(log, epoch=1)
    log.assign_leader_epoch(2)
    log.close()

    def waited(*arguments):
        raise AssertionError("a clean start syncs nothing")

    with monkeypatch.context() as patched:
        patched.setattr("os.fdatasync", waited)
        patched.setattr("os.fsync", waited)
        log = bench.open(clean=True, recovery_point=1)
        log.assign_leader_epoch(3)
        log.write_queued()
    log.sync()
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0), (3, 1)]
    log.abandon()
    reopened = bench.open(clean=False, recovery_point=1)
    assert [tuple(entry) for entry in reopened.leader_epochs.entries] == [(1, 0)]


def test_creating_a_log_waits_for_no_disk(bench, monkeypatch):
    """Its files and their names become durable with the first sync cycle, before anything is acknowledged."""
    synced = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    log = bench.open()
    bench.append(log)
    log.write_queued()
    assert synced == []
    log.sync()
    assert set(synced[:3]) == {
        "partition.metadata",
        f"{0:020d}.log",
        f"leader-epoch-checkpoint.{bench.topic_id.hex()}.1.tmp",
    }
    assert synced[3:] == ["flights-0", Path(bench.directory).parent.name]


def test_an_identity_that_was_torn_is_written_again(closed):
    """The broker knows the topic id from the cluster's metadata."""
    identity = Path(f"{closed.directory}/partition.metadata")
    good = identity.read_bytes()
    identity.write_bytes(good[:20])
    closed.open(CONFIG, clean=False)
    assert identity.read_bytes() == good
