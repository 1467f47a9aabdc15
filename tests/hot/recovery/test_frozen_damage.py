"""Tests of hot/recovery/frozen_damage.py; `tests/broker/test_damaged_segments.py` reads what is left through log and archive."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.wire.errors import Corrupt

TIERED = LogConfig(index_interval_bytes=400, remote_storage_enable=True)
PLAIN = LogConfig(index_interval_bytes=400)


def path(bench, base, suffix=".log"):
    return Path(f"{bench.directory}/{base:020d}{suffix}")


@pytest.fixture
def closed(bench):
    """Segments [0,10) [10,20) [20,30) and two more batches, closed in order."""
    log = bench.open(TIERED)
    bench.fill(log, 3)
    bench.append(log, 2)
    log.close()
    return bench


def ranges(log):
    return [(one.base_offset, one.end_offset) for one in log.missing_ranges()]


@pytest.mark.parametrize(("clean", "point"), [(True, 32), (False, 32), (False, 0)])
def test_segments_behind_the_damage_stay(closed, clean, point):
    """Their records are in no other place, perhaps."""
    file = path(closed, 10)
    file.write_bytes(file.read_bytes()[:-50])
    log = closed.open(TIERED, clean=clean, recovery_point=point)
    assert ranges(log) == [(18, 20)]
    assert log.log_end_offset == 32
    assert log.read(20, max_bytes=1 << 20, max_offset=32).next_offset == 32
    assert closed.append(log, 1).base_offset == 32
    kept = list(Path(log.recovery.quarantine or (log._files and "")).glob("*")) if log.recovery.quarantine else []
    assert sorted(one.name for one in kept) == [f"{10:020d}.log.from-{file.stat().st_size}", "quarantine.json"]


@pytest.mark.parametrize("point", [0, 10, 18])
@pytest.mark.parametrize(
    "harm", [lambda data: data[:-50], lambda data: data[:-50] + bytes(50)], ids=["short", "zeroes"]
)
def test_a_power_cut_in_the_middle_of_a_roll_leaves_no_hole(closed, point, harm):
    """Where nothing is known to be synced a torn write may be all that is wrong: its producer sends it again, before what followed."""
    file = path(closed, 10)
    file.write_bytes(harm(file.read_bytes()))
    log = closed.open(TIERED, clean=False, recovery_point=min(point, 15), durable_end=point)
    assert ranges(log) == []
    assert log.log_end_offset == 18
    assert {f"{20:020d}.log", f"{30:020d}.log"} <= {one.name for one in Path(log.recovery.quarantine).iterdir()}
    assert closed.append(log, 1).base_offset == 18


@pytest.mark.parametrize(
    "known",
    ["nothing", "synced", "archived", "acknowledged", *(f"{name}?" for name in ("recovery", "replication", "remote"))],
)
def test_records_behind_damage_stay_if_they_may_have_been_synced(bench, known):
    """Any checkpoint may show that, also one that cannot be read. Otherwise the log ends: a power cut leaves that."""
    root, files = str(Path(bench.directory).parent), bench.files
    directory = LogDirectory.load(root, files)
    log = directory.open_log(bench.partition, bench.topic_id, TIERED, now_ms=1)
    bench.fill(log, 3, per_segment=1)
    log.close()
    for kind, name in (("synced", checkpoint.RECOVERY_POINTS), ("acknowledged", checkpoint.HIGH_WATERMARKS)):
        checkpoint.write_offsets(files, root, name, {bench.partition: 3 if known == kind else 2})
    checkpoint.write_remote_log(files, root, {bench.partition: RemoteLogState(0, 3 if known == "archived" else 2, 9)})
    if known.endswith("?"):
        (unreadable,) = Path(root).glob(f"{known[:-1]}*")
        unreadable.write_text("garbage")
    damaged = Path(f"{bench.directory}/{2:020d}.log")
    damaged.write_bytes(damaged.read_bytes()[:-5])
    again = LogDirectory.load(root, files).open_log(bench.partition, bench.topic_id, TIERED, now_ms=1)
    ends = known == "nothing"
    assert again.log_end_offset == (2 if ends else 6)
    assert [(one.base_offset, one.end_offset) for one in again.missing_ranges()] == ([] if ends else [(2, 4)])


def test_checkpoints_from_before_a_cut_show_nothing_behind_it(bench):
    """A follower was cut for its new leader: a power cut tears what was never synced since, and leaves no hole."""
    root, files = str(Path(bench.directory).parent), bench.files
    directory = LogDirectory.load(root, files)
    log = directory.open_log(bench.partition, bench.topic_id, TIERED, now_ms=1)
    bench.fill(log, 4)
    log.sync()
    directory.write_checkpoints({bench.partition: log})
    directory.write_high_watermarks({bench.partition: 40})
    log.truncate_to(10)
    for _ in range(5):
        bench.append(log, 2, epoch=2)
    log.roll()
    bench.append(log, 2, epoch=2)
    log.write_queued()
    log.abandon()
    torn = path(bench, 10)
    torn.write_bytes(torn.read_bytes()[:-50])
    again = LogDirectory.load(root, files).open_log(bench.partition, bench.topic_id, TIERED, now_ms=1)
    assert (again.missing_ranges(), again.log_end_offset) == ([], 18)


def test_a_torn_batch_that_is_sent_again_is_no_duplicate(bench):
    """The batch behind a roll may have reached the disk when the one before it did not: neither was acknowledged."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    log = bench.open(TIERED)
    bench.append(log, 1, base_sequence=0, **producer)
    log.sync()
    bench.append(log, 1, base_sequence=1, **producer)
    log.roll()
    bench.append(log, 1, base_sequence=2, **producer)
    log.close()
    file = path(bench, 0)
    file.write_bytes(file.read_bytes()[:-50])
    log = bench.open(TIERED, clean=False, recovery_point=1, durable_end=1)
    assert [bench.append(log, 1, base_sequence=number, **producer).base_offset for number in (1, 2)] == [1, 2]
    log.sync()
    assert log.read(1, max_bytes=1 << 20, max_offset=3).next_offset == 3
    assert ranges(log) == []


def test_without_an_archive_what_was_not_flushed_is_recovered_as_ever(closed):
    """The log ends before the damage (decision 0014)."""
    file = path(closed, 10)
    file.write_bytes(file.read_bytes()[:-50])
    log = closed.open(PLAIN, clean=False, recovery_point=0)
    assert log.log_end_offset == 18
    assert ranges(log) == []


@pytest.mark.parametrize("clean", [True, False])
def test_damage_that_is_to_be_refused_is_refused_and_nothing_changes(closed, clean):
    """The cluster's own log."""
    file = path(closed, 10)
    file.write_bytes(file.read_bytes()[:-50])
    before = {one.name: one.read_bytes() for one in Path(closed.directory).iterdir()}
    with pytest.raises(Corrupt, match="nothing was changed"):
        closed.open(PLAIN, clean=clean, recovery_point=32, refuse_damage=True)
    assert {one.name: one.read_bytes() for one in Path(closed.directory).iterdir()} == before


@pytest.mark.parametrize("gone", [[0], [10], [0, 10], [10, 20], [0, 10, 20]])
def test_segments_that_are_gone_are_missing_each_under_its_name(closed, gone):
    """Also in front of all others; their indexes are kept."""
    for base in gone:
        path(closed, base).unlink()
    log = closed.open(TIERED)
    assert ranges(log) == [(base, base + 10) for base in gone]
    assert all("the file is gone" in one.why for one in log.missing_ranges())
    assert len(list(Path(log.recovery.quarantine).glob("*.index"))) == len(gone)


def test_offsets_gone_below_the_log_start_are_not_missing(closed):
    """Reads of the damaged range fail."""
    path(closed, 0).unlink()
    assert ranges(closed.open(TIERED, log_start_offset=10)) == []
    assert not path(closed, 0, ".index").exists()


def test_transactions_that_end_in_a_missing_range_stay_aborted(bench):
    """Their records may lie before it. The index of aborted transactions stays where it was."""
    log = bench.open(TIERED)
    options = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    bench.append(log, 2, base_sequence=0, **options)
    log.roll()
    bench.append(log, 2)
    log.append_as_leader(
        bench.marker(commit=False), leader_epoch=1, now_ms=bench.now_ms, origin=AppendOrigin.COORDINATOR
    )
    log.roll()
    bench.append(log, 2)
    log.close()
    for harm in (lambda file: file.write_bytes(file.read_bytes()[:-30]), lambda file: file.unlink()):
        harm(path(bench, 2))
        for _ in range(2):
            log = bench.open(TIERED)
            assert ranges(log)
            found = log.aborted_transactions(0, 2)
            assert [(one.producer_id, one.first_offset) for one in found] == [(7, 0)]
            log.close()


def test_producers_behind_a_missing_range_are_those_of_their_snapshot(bench):
    """Producers of the missing range do not have to be read."""
    log = bench.open(TIERED)
    for sequence in range(3):
        bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.roll()
    bench.append(log, 1)
    log.close()
    path(bench, 1).write_bytes(b"")
    path(bench, 2).write_bytes(b"")
    log = bench.open(TIERED, clean=False, recovery_point=0)
    assert ranges(log) == [(1, 2), (2, 3)]
    assert log.producer_state.entries[7].last_sequence == 2


def test_an_index_that_is_missing_is_built_anew_and_told(closed):
    """The segment is sound."""
    path(closed, 10, ".index").unlink()
    log = closed.open(TIERED)
    assert log.recovery.frozen_indexes_rebuilt == [str(path(closed, 10, ""))]
    assert path(closed, 10, ".index").stat().st_size
    assert ranges(log) == []
    log.abandon()
    assert closed.open(TIERED).recovery.frozen_indexes_rebuilt == []
