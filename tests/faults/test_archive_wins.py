"""Rule 8: after a stop that may have cost archived offsets, the archive decides where a log goes on."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.client.admin import alter_topic_configs
from stratalog.metadata.controller.brokers import raise_leader_epoch
from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.manifest import Claimant, claim
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.errors import KafkaError

DOWN = FaultRule(Fault.FAIL_BEFORE, count=None)
CHECKPOINT = "remote-log-checkpoint"
CLEAN = ".kafka_cleanshutdown"


OTHER_EPOCHS = (LeaderEpoch(0, 0), LeaderEpoch(1, 30))


@pytest.fixture
def stopped(tiered):
    """A broker with an archive and a local tail, stopped, and as if its power had been cut: no mark of a clean stop."""
    tiered.topic("t")
    tiered.write("t", 42)
    tiered.archived("t")
    tiered.id = tiered.partition_id("t")
    tiered.node.stop()
    (data_of(tiered) / CLEAN).unlink()
    return tiered


def data_of(tiered):
    return Path(tiered.node.directory) / "data"


def strays(tiered):
    return [path for path in data_of(tiered).iterdir() if path.name.endswith("-stray")]


def goes_on(tiered, first_lost):
    """Archived records are read, other written ones are forgotten, and new records follow."""
    written = tiered.written["t", 0]
    tiered.node.wait_until(lambda: tiered.node.partition("t").partition.held_back is None)
    del written[first_lost:]
    tiered.check_reads("t")
    tiered.write("t", 40)
    assert written[first_lost][0] == first_lost
    tiered.archived("t", evicted=False)
    tiered.check_reads("t")
    tiered.check_bucket("t")


def test_a_wiped_partition_directory(stopped):
    """The log goes on at the remote end; nothing archived is lost."""
    shutil.rmtree(data_of(stopped) / "t-0")
    stopped.node.start()
    stopped.node.wait_until(lambda: stopped.node.partition("t").partition.held_back is None)
    remote_end = stopped.manifest("t").remote_end
    assert stopped.offsets("t") == (0, remote_end, remote_end, remote_end)
    goes_on(stopped, remote_end)


def test_a_wiped_directory_with_an_old_checkpoint(stopped):
    """A checkpoint from before the first upload does not make the loss look like a new partition."""
    shutil.rmtree(data_of(stopped) / "t-0")
    (data_of(stopped) / CHECKPOINT).write_text("0\n1\nt 0 0 0 0\n")
    stopped.node.start()
    stopped.node.wait_until(lambda: stopped.node.partition("t").partition.held_back is None)
    goes_on(stopped, stopped.manifest("t").remote_end)


def test_a_missing_checkpoint(stopped):
    """The archive is asked; a log that agrees with it keeps its tail."""
    (data_of(stopped) / CHECKPOINT).unlink()
    stopped.node.start()
    goes_on(stopped, len(stopped.written["t", 0]))
    assert not strays(stopped)


@pytest.mark.story
def test_a_power_cut_without_sync_on_ack(tiered):
    """A log cut below the remote end is kept aside and goes on at the remote end."""
    tiered.topic("t", flush_messages=2**60, local_retention_bytes=-1)
    tiered.write("t", 42)
    tiered.archived("t", evicted=False)
    tiered.node.stop()
    data = data_of(tiered)
    (data / CLEAN).unlink()
    logs = sorted((data / "t-0").glob("*.log"))
    for path in logs[2:]:
        for one in (data / "t-0").glob(f"{path.stem}.*"):
            one.unlink()
    logs[1].write_bytes(logs[1].read_bytes()[:-50])
    (data / "recovery-point-offset-checkpoint").unlink()
    tiered.node.start()
    tiered.node.wait_until(lambda: tiered.node.partition("t").partition.held_back is None)
    remote_end = tiered.manifest("t").remote_end
    assert tiered.offsets("t") == (0, remote_end, remote_end, remote_end)
    assert strays(tiered)
    goes_on(tiered, remote_end)


def test_other_epochs_below_the_remote_end(tiered):
    """A local log that another leader wrote, according to its epochs, is kept aside."""
    tiered.topic("t", local_retention_bytes=-1)
    tiered.write("t", 42)
    tiered.archived("t", evicted=False)
    change_manifest(tiered.memory, tiered.partition_id("t"), lambda found: replace(found, leader_epochs=OTHER_EPOCHS))
    tiered.node.stop()
    (data_of(tiered) / CHECKPOINT).unlink()
    tiered.node.start()
    tiered.node.wait_until(lambda: tiered.node.partition("t").partition.held_back is None)
    remote_end = tiered.manifest("t").remote_end
    assert tiered.offsets("t") == (0, remote_end, remote_end, remote_end)
    assert strays(tiered)
    assert tiered.node.partition("t").log.leader_epochs.entries[:2] == OTHER_EPOCHS
    goes_on(tiered, remote_end)


@pytest.mark.story
def test_until_the_archive_has_answered_the_partition_is_not_served(stopped):
    """The broker is up and serves all others; produce and fetch on this one are refused, then go on."""
    (data_of(stopped) / CHECKPOINT).unlink()
    stopped.spoil(DOWN)
    stopped.node.start()
    stopped.node.create("untiered")
    stopped.node.produce("untiered", b"x")
    assert stopped.node.partition("t").partition.held_back is not None
    with pytest.raises(KafkaError, match="not served yet"):
        stopped.node.run(stopped.node.partition("t").partition.check_online)
    stopped.spoil()
    goes_on(stopped, len(stopped.written["t", 0]))


def test_everybody_else_starts_without_the_bucket(start_tiered):
    """A clean stop, a kill with sync on ack, a tiered topic that was never archived: no bucket is needed."""
    tiered = start_tiered()
    tiered.topic("t", local_retention_bytes=-1)
    tiered.topic("young")
    tiered.write("t", 42)
    tiered.write("young", 1)
    tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: len(tiered.node.node.directories.all[0].files.remote_logs) == 2)
    expected = tiered.offsets("t")
    for clean in (True, False):
        tiered.node.stop()
        tiered.spoil(DOWN)
        if not clean:
            (data_of(tiered) / CLEAN).unlink()
        tiered.node.start()
        assert tiered.offsets("t") == expected
        for name in ("t", "young"):
            assert tiered.node.partition(name).partition.held_back is None
            tiered.check_reads(name)
            tiered.write(name, 1)
        expected = tiered.offsets("t")
    tiered.spoil()
    tiered.roll("t")
    tiered.archived("t", evicted=False)
    tiered.check_bucket("t", orphans=False)


def test_a_restart_reads_no_archived_object_again(stopped):
    """A log that went on at the remote end owes no read-back: nothing of the archive is on its disk."""
    shutil.rmtree(data_of(stopped) / "t-0")
    stopped.node.start()
    stopped.node.wait_until(lambda: stopped.node.partition("t").partition.held_back is None)
    before = stopped.node.run(lambda: stopped.node.node.tiering._requests["head"])
    stopped.write("t", 30)
    del stopped.written["t", 0][:]
    stopped.archived("t")
    heads = stopped.node.run(lambda: stopped.node.node.tiering._requests["head"]) - before
    new = [one for one in stopped.manifest("t").entries if one.base >= stopped.offsets("t")[1] - 150]
    assert heads <= 3 * len(new) + 6


def test_another_writer_claimed_the_archive(tiered):
    """A higher claim ends archiving; produce and reads go on."""
    tiered.topic("t")
    tiered.write("t", 20)
    tiered.archived("t")
    higher = Claimant(0, 1_000_000, b"h" * 16)
    change_manifest(tiered.memory, tiered.partition_id("t"), lambda manifest: claim(manifest, higher, now_ms=0))
    before = tiered.manifest("t").remote_end
    tiered.write("t", 40)
    archive = tiered.node.run(lambda: tiered.node.node.tiering._archives[tiered.node.partition("t")])
    tiered.node.wait_until(lambda: archive.state == "fenced")
    tiered.check_reads("t")
    assert tiered.manifest("t").remote_end == before
    assert tiered.offsets("t")[1] <= before


def test_a_leader_epoch_that_rises_while_log_and_archive_are_compared_claims_for_itself(tiered):
    """The bucket is away meanwhile. Objects under the old claim would hold batches of an epoch above their own."""
    tiered.topic("t", remote_storage_enable="false")
    tiered.write("t", 5)
    tiered.spoil(DOWN)
    alter_topic_configs(tiered.node.client(), "t", set_to={"remote.storage.enable": "true"})
    node, unified = tiered.node.node, tiered.node.partition("t")
    tiered.node.wait_until(lambda: node.tiering.watched(unified)[1] == "checking")
    before = unified.partition.leader_epoch
    topic_id = unified.topic_id
    tiered.node.run(
        lambda: node.control.execute(lambda image: raise_leader_epoch(image, topic_id, 0, above=before + 3))
    )
    tiered.node.wait_until(lambda: unified.partition.leader_epoch > before + 3)
    tiered.spoil()
    tiered.client.refresh(["t"])
    tiered.write("t", 15)
    tiered.archived("t", evicted=False)
    reports = verify_bucket(tiered.memory, VerifyOptions(2**62, 0))
    assert [one.detail for report in reports for one in report.anomalies] == []
    assert tiered.manifest("t").claimant.leader_epoch == unified.partition.leader_epoch
