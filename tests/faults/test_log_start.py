"""The log start of tiered topics: retention and DeleteRecords, into the archive, past it, and over restarts."""

from pathlib import Path

import pytest

from stratalog.broker.runtime.slices import to_the_end
from stratalog.tier.stores.faulty_store import Fault, FaultRule

DOWN = FaultRule(Fault.FAIL_BEFORE, count=None)


def kill_marks(tiered):
    """Make the last stop look like a kill."""
    (Path(tiered.node.directory) / "data" / ".kafka_cleanshutdown").unlink()


@pytest.mark.story
@pytest.mark.parametrize("offset", [1, 14, 15, 16, 47, 103])
def test_records_are_deleted_into_the_archive(tiered, offset):
    """The log start moves to any offset, in the answer, in the manifest, for readers, and over restarts."""
    tiered.topic("t")
    tiered.write("t", 40)
    tiered.archived("t")
    assert tiered.delete_records("t", offset) == offset
    assert tiered.node.end("t", timestamp=-2) == offset
    tiered.node.wait_until(lambda: tiered.node.partition("t").remote.log_start_offset == offset)
    manifest = tiered.check_bucket("t")
    assert manifest.log_start_offset == offset
    assert manifest.remote_start <= offset < manifest.entries[0].end
    for _ in range(2):
        tiered.check_reads("t", 0, offset)
        assert tiered.offsets("t")[0] == offset
        tiered.node.stop()
        kill_marks(tiered)
        tiered.node.start()


@pytest.mark.parametrize("offset", [50, 52, -1])
def test_records_are_deleted_beyond_what_is_archived(tiered, offset):
    """With the bucket down nothing is archived; what is deleted meanwhile is skipped, without a hole or a jam."""
    tiered.topic("t")
    tiered.write("t", 5)
    tiered.spoil(DOWN)
    tiered.write("t", 20)
    start = tiered.delete_records("t", offset)
    assert tiered.offsets("t")[0] == start
    tiered.write("t", 5)
    tiered.spoil()
    tiered.roll("t")
    tiered.archived("t")
    assert tiered.check_bucket("t").log_start_offset == start
    tiered.check_reads("t", 0, start)


@pytest.mark.parametrize("offset", [7, 15, 62])
def test_tiering_begins_behind_deleted_records(tiered, offset):
    """The archive of a topic whose log starts inside a batch begins at that batch's segment, and reads are right."""
    tiered.topic("t", remote_storage_enable="false")
    tiered.write("t", 20)
    tiered.delete_records("t", offset)
    tiered.configure("t", remote_storage_enable="true")
    tiered.archived("t")
    manifest = tiered.check_bucket("t", orphans=False)
    assert manifest.remote_start <= offset
    assert manifest.log_start_offset == offset
    tiered.check_reads("t", 0, offset)


def test_retention_by_size_counts_nothing_twice(tiered):
    """Copies that are both archived and local count once: the newest ``retention.bytes`` stay, and no segment more goes."""
    tiered.topic("t", local_retention_bytes=-2, retention_bytes=20_000, retention_ms=-1)
    for _ in range(5):
        tiered.write("t", 20)
        tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: tiered.node.partition("t").log.log_start_offset > 0)
    tiered.node.run(lambda: to_the_end(tiered.node.node.housekeeping._retain()))
    start = tiered.offsets("t")[0]
    tiered.node.wait_until(lambda: tiered.node.partition("t").remote.log_start_offset >= start)
    manifest = tiered.check_bucket("t")
    log = tiered.node.partition("t").log
    beyond = sum(one.size_bytes for one in tiered.node.run(log.segments) if one.base_offset >= manifest.remote_end)
    kept = sum(entry.data_bytes for entry in manifest.entries) + beyond
    assert kept >= 20_000
    assert kept - manifest.entries[0].data_bytes < 20_000
    tiered.check_reads("t", 0, tiered.offsets("t")[0])


def test_retention_by_time_goes_by_the_newest_record_of_a_range(tiered):
    """Expired ranges go from the archive, unexpired ones stay, a range with one unexpired record too."""
    now_ms = tiered.node.node.clock.wall_ms()
    hour = 3_600_000
    old = tiered.topic("old")
    tiered.write(old, 30, timestamp_ms=lambda n: now_ms - (2 * hour if n != 80 else 0))
    tiered.archived(old)
    assert tiered.offsets(old)[0] == 0
    tiered.configure(old, retention_ms=hour)
    holding = next(entry for entry in tiered.manifest(old).entries if entry.base <= 80 < entry.end)
    tiered.node.wait_until(lambda: tiered.node.partition(old).remote.log_start_offset == holding.base)
    tiered.node.run(lambda: to_the_end(tiered.node.node.housekeeping._retain()))
    assert tiered.check_bucket(old).remote_start == holding.base
    tiered.check_reads(old, 0, holding.base)


@pytest.mark.story
def test_retention_while_the_bucket_is_down(tiered):
    """Records that expire before they could be archived are skipped; the archive goes on behind it when the bucket is back."""
    tiered.topic("t", retention_ms=3_600_000)
    tiered.spoil(DOWN)
    now_ms = tiered.node.node.clock.wall_ms()
    tiered.write("t", 20, timestamp_ms=lambda _: now_ms - 7_200_000)
    tiered.write("t", 4)
    tiered.node.wait_until(lambda: tiered.node.partition("t").log.log_start_offset > 50)
    tiered.spoil()
    tiered.roll("t")
    tiered.archived("t")
    start = tiered.offsets("t")[0]
    assert tiered.check_bucket("t").log_start_offset == start
    tiered.check_reads("t", 0, start)


def test_a_log_start_is_durable_before_the_manifest_hears_of_it(tiered):
    """A kill right after retention has moved the archive's log start does not move that of the log back."""
    tiered.topic("t", retention_bytes=8_000)
    tiered.write("t", 60)
    tiered.archived("t")
    tiered.node.wait_until(lambda: (tiered.node.partition("t").remote.log_start_offset or 0) > 0)
    start = tiered.manifest("t").log_start_offset
    checkpoint = Path(tiered.node.directory) / "data" / "log-start-offset-checkpoint"
    stored = {line.split()[0]: int(line.split()[2]) for line in checkpoint.read_text().splitlines()[2:]}
    assert stored["t"] >= start
    tiered.node.stop()
    kill_marks(tiered)
    tiered.spoil(DOWN)
    tiered.node.start()
    assert tiered.offsets("t")[0] >= start


def test_an_older_local_log_start_is_caught_up_from_the_manifest(tiered):
    """A checkpoint from a backup does not bring back what the archive has dropped."""
    tiered.topic("t")
    tiered.write("t", 40)
    tiered.archived("t")
    tiered.delete_records("t", 47)
    tiered.node.wait_until(lambda: tiered.node.partition("t").remote.log_start_offset == 47)
    tiered.node.stop()
    checkpoint = Path(tiered.node.directory) / "data" / "log-start-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("t 0 47", "t 0 0"))
    tiered.node.start()
    tiered.write("t", 30)
    tiered.archived("t")
    tiered.node.wait_until(lambda: tiered.node.partition("t").log.log_start_offset > 0)  # by the next look at it
    assert tiered.offsets("t")[0] == 47
    tiered.check_reads("t", 0, 47)
