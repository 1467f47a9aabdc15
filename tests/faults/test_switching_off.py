"""Tiering switched off and on again (KIP-950): read-only archives, archives that go, and archives that begin anew."""

import pytest

from stratalog.client.admin import alter_topic_configs
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.errors import KafkaError

DOWN = FaultRule(Fault.FAIL_BEFORE, count=None)
QUICK = {"stratalog_trash_check_interval_ms": "50", "stratalog_trash_grace_ms": "0"}
OFF = {"remote_storage_enable": "false", "remote_log_delete_on_disable": "true"}
ON = {"remote_storage_enable": "true", "remote_log_delete_on_disable": "false"}


@pytest.fixture
def tiered(start_tiered):
    """A broker that empties the trash at once."""
    return start_tiered(**QUICK)


def starts(tiered, topic="t"):
    """Log start and local log start, for conditions that are asked on the broker's loop."""
    log = tiered.node.partition(topic).log
    return log.log_start_offset, log.local_log_start_offset


def gone(tiered, topic):
    """Wait until the archive is empty, its trash too."""
    tiered.node.wait_until(lambda: tiered.manifest(topic).deleted_ms >= 0 and not tiered.manifest(topic).trash)


def test_a_read_only_archive_is_still_read_and_ages_out(tiered):
    """remote.log.copy.disable: nothing more is uploaded, everything is readable, retention goes over both places."""
    tiered.topic("t", retention_bytes=-1, local_retention_bytes=-2)
    tiered.write("t", 40)
    tiered.archived("t", evicted=False)
    tiered.configure("t", remote_log_copy_disable="true")
    end = tiered.offsets("t")[2]
    tiered.write("t", 40)
    tiered.roll("t")
    tiered.check_reads("t")
    assert tiered.offsets("t")[2] == end
    tiered.configure("t", retention_bytes=20_000)
    tiered.node.wait_until(lambda: starts(tiered)[0] > end)
    tiered.node.wait_until(lambda: not tiered.manifest("t").entries and not tiered.manifest("t").trash)
    assert tiered.objects("t") == []
    tiered.check_reads("t", 0, tiered.offsets("t")[0])
    tiered.configure("t", remote_log_copy_disable="false")
    tiered.archived("t", evicted=False)
    tiered.check_bucket("t")
    tiered.check_reads("t", 0, tiered.offsets("t")[0])


@pytest.mark.story
def test_a_read_only_archive_ages_out_after_a_restart(tiered):
    """The leader claims for the removal alone, though it copies nothing."""
    tiered.topic("t", retention_bytes=-1, local_retention_bytes=-2)
    tiered.write("t", 40)
    tiered.archived("t", evicted=False)
    tiered.configure("t", remote_log_copy_disable="true")
    tiered.node.restart()
    tiered.configure("t", retention_bytes=3_000)
    tiered.node.wait_until(lambda: tiered.manifest("t").log_start_offset > 100)
    tiered.node.wait_until(lambda: not tiered.manifest("t").trash)
    assert len(tiered.objects("t")) == len(tiered.manifest("t").entries)
    tiered.check_reads("t", 0, tiered.offsets("t")[0])


def test_switching_off_needs_leave_to_delete(tiered):
    """As in Kafka: the archive never goes by accident."""
    tiered.topic("t")
    with pytest.raises(KafkaError, match="without deleting remote data"):
        alter_topic_configs(tiered.node.client(), "t", set_to={"remote.storage.enable": "false"})


@pytest.mark.story
@pytest.mark.parametrize("restart", [False, True])
def test_switching_off_keeps_what_is_local_and_deletes_the_archive(tiered, restart):
    """The log begins where the local disk does; nothing that is local goes, not even what was archived too."""
    tiered.topic("t", local_retention_bytes=5_000)
    tiered.write("t", 60)
    tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: starts(tiered)[1] > 0)
    tiered.write("t", 3)
    tiered.archived("t", evicted=False)  # an upload that is under way leaves garbage, which goes later
    if restart:
        tiered.spoil(DOWN)
    tiered.configure("t", **OFF)
    tiered.node.wait_until(lambda: starts(tiered)[0] == starts(tiered)[1])
    start = tiered.offsets("t")[0]
    if restart:
        tiered.node.restart()
        tiered.spoil()
    gone(tiered, "t")
    assert tiered.objects("t") == []
    tiered.write("t", 40)
    assert tiered.offsets("t")[:2] == (start, start)
    tiered.check_reads("t", 0, start)
    tiered.node.restart()
    assert tiered.offsets("t")[:2] == (start, start)
    tiered.check_reads("t", 0, start)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        tiered.read("t", 0, start - 1)


@pytest.mark.story
@pytest.mark.parametrize("restart", ["never", "off", "on"])
def test_switching_on_again_archives_what_is_local(tiered, restart):
    """From the local log start on, in the same archive: nothing is missing, nothing stands twice, eviction goes on."""
    tiered.topic("t", local_retention_bytes=5_000)
    tiered.write("t", 60)
    tiered.archived("t", evicted=False)
    tiered.configure("t", **OFF)
    gone(tiered, "t")
    start = tiered.offsets("t")[0]
    if restart == "off":
        tiered.node.restart()
    tiered.write("t", 10)
    tiered.configure("t", **ON)
    if restart == "on":
        tiered.node.restart()
    tiered.write("t", 30)
    tiered.archived("t", evicted=False)
    manifest = tiered.check_bucket("t")
    assert manifest.remote_start == start
    tiered.node.wait_until(lambda: starts(tiered)[1] > start)
    tiered.check_reads("t", 0, start)
    tiered.node.restart()
    tiered.check_reads("t", 0, start)


@pytest.mark.story
def test_switching_off_twice_deletes_what_was_archived_in_between(tiered):
    """Though there was no archive yet when tiering was switched off first."""
    tiered.topic("t", local_retention_bytes=5_000)
    tiered.configure("t", **OFF)
    unified = tiered.node.partition("t")
    tiered.node.wait_until(lambda: unified.remote.facts is not None)
    tiered.node.run(tiered.node.node.tiering.look, unified)
    tiered.configure("t", **ON)
    tiered.write("t", 60)
    tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: starts(tiered)[1] > 0)
    tiered.configure("t", **OFF)
    gone(tiered, "t")
    start = tiered.offsets("t")[0]
    assert starts(tiered) == (start, start)
    assert start > 0
    tiered.check_reads("t", 0, start)


def test_switching_off_and_on_while_the_bucket_is_down(tiered):
    """The archive never left: it goes on, without what the log no longer begins with."""
    tiered.topic("t", local_retention_bytes=5_000)
    tiered.write("t", 60)
    tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: starts(tiered)[1] > 0)
    tiered.spoil(DOWN)
    tiered.configure("t", **OFF)
    tiered.node.wait_until(lambda: starts(tiered)[0] == starts(tiered)[1])
    start = tiered.offsets("t")[0]
    tiered.configure("t", **ON)
    tiered.spoil()
    tiered.write("t", 20)
    tiered.archived("t", evicted=False)
    assert tiered.check_bucket("t").log_start_offset >= start
    tiered.check_reads("t", 0, start)


@pytest.mark.story
def test_uploads_under_way_are_not_committed_to_an_archive_that_goes(tiered):
    """They are refused; what they left is garbage, and the log is archived anew when that is wanted."""
    tiered.topic("t", local_retention_bytes=-2)
    tiered.write("t", 20)
    tiered.archived("t", evicted=False)
    tiered.spoil(FaultRule(Fault.DELAY, "put_if_absent", r"\.seg", count=None, seconds=0.2))
    tiered.write("t", 30)
    tiered.configure("t", **OFF)
    tiered.spoil()
    gone(tiered, "t")
    assert tiered.manifest("t").entries == ()
    tiered.configure("t", **ON)
    tiered.archived("t", evicted=False)
    assert tiered.check_bucket("t").remote_start == 0
    tiered.check_reads("t")
