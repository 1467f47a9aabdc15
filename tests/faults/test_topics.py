"""Topics that come, go, come back, and change their minds about the archive."""

import time

import pytest

from stratalog.client.admin import delete_topics
from stratalog.tier.stores.faulty_store import Fault, FaultRule


def test_a_topic_made_again_has_nothing_of_the_old_one(tiered):
    """Another id, other keys, an empty log; the old objects belong to no topic any more."""
    tiered.topic("t")
    tiered.write("t", 40)
    tiered.archived("t")
    old = tiered.partition_id("t")
    delete_topics(tiered.node.client(), ["t"])
    tiered.written.clear()
    tiered.topic("t")
    assert tiered.partition_id("t") != old
    assert tiered.read("t") == []
    tiered.write("t", 20)
    tiered.archived("t")
    tiered.check_reads("t")
    assert all(key.startswith(tiered.partition_id("t").segments_prefix) for key in tiered.objects("t"))
    tiered.node.restart()
    tiered.check_reads("t")


def test_a_topic_deleted_in_the_middle_of_its_uploads(tiered):
    """Late answers change nothing; the broker goes on."""
    tiered.topic("t")
    tiered.topic("other")
    tiered.spoil(FaultRule(Fault.DELAY, "put_if_absent", r"\.seg", count=None, seconds=0.1))
    tiered.write("t", 40)
    delete_topics(tiered.node.client(), ["t"])
    tiered.spoil()
    tiered.write("other", 20)
    tiered.archived("other")
    tiered.check_reads("other")


@pytest.mark.story
def test_tiering_enabled_later(tiered):
    """Local records move to the archive from the log start on; produce never stops, also without a bucket."""
    tiered.topic("t", remote_storage_enable="false")
    tiered.write("t", 30)
    tiered.spoil(FaultRule(Fault.FAIL_BEFORE, count=None))
    tiered.configure("t", remote_storage_enable="true")
    tiered.write("t", 10)
    tiered.check_reads("t")
    tiered.spoil()
    tiered.archived("t")
    assert tiered.check_bucket("t", orphans=False).remote_start == 0
    tiered.check_reads("t")


def test_copying_disabled_and_enabled_again(tiered):
    """No new record is archived and no unarchived one is evicted; the archive stays readable; then it goes on."""
    tiered.topic("t", local_retention_bytes=-2, retention_bytes=-1, local_retention_ms=-2)
    tiered.write("t", 20)
    tiered.archived("t", evicted=False)
    before = tiered.offsets("t")[2]
    tiered.configure("t", remote_log_copy_disable="true")
    tiered.write("t", 30)
    time.sleep(0.2)
    assert tiered.offsets("t")[2] == before
    tiered.check_reads("t")
    tiered.node.restart()
    tiered.write("t", 10)
    tiered.check_reads("t")
    assert tiered.manifest("t").remote_end == before
    tiered.configure("t", remote_log_copy_disable="false")
    tiered.archived("t", evicted=False)
    tiered.check_bucket("t")


def test_an_idle_tail_is_frozen_by_the_tick(tiered):
    """A last segment of old records freezes ``segment.ms`` after its first append, once, and not at each tick."""
    tiered.topic("t", segment_ms=300, local_retention_bytes=0)
    tiered.write("t", 3, timestamp_ms=lambda n: 1_362_000_000_000 + n)
    tiered.node.wait_until(lambda: tiered.node.partition("t").remote.end_offset == 15)
    tiered.check_reads("t")
    tiered.write("t", 1, timestamp_ms=lambda n: 1_362_000_000_000 + n)
    time.sleep(0.1)
    assert tiered.node.partition("t").log.active_base_offset == 15
    assert len(tiered.manifest("t").entries) == 1
