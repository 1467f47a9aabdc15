"""Small archived objects are merged rarely, one partition at a time, and only where there are more of them than before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stratalog.broker.archive.merging import Merging
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.messages import commands
from stratalog.tier.stores.local_store import LocalStore

US = Claimant(0, 1, bytes(16))
PARTITION = PartitionId("t", bytes(16), 0)


class Remote:
    """A partition's archive with so many objects."""

    def __init__(self, objects):
        self.facts = SimpleNamespace(totals=SimpleNamespace(segments=objects))
        self.applied = []

    def apply(self, view):
        self.applied.append(view)


@pytest.fixture
def rig():
    """The merging, what it has sent, its settings and a clock."""
    found = SimpleNamespace(sent=[], now_ms=0, settings={})
    found.settings |= {
        "stratalog.merge.objects.min": 4, "stratalog.merge.interval.ms": 1000, "stratalog.merge.bytes.max": 99,
    }  # fmt: skip
    config = SimpleNamespace(integer=found.settings.__getitem__)
    found.merging = Merging(
        lambda: config,
        cluster_id="c",
        submit=lambda command, answered: found.sent.append((command, answered)),
        now_ms=lambda: 7_000_000,
        elapsed_ms=lambda: found.now_ms,
    )
    found.look = lambda remote: found.merging.look(remote, PARTITION, US, storage_class="COLD")
    return found


def test_a_partition_is_looked_at_after_a_while_and_when_it_has_grown(rig):
    """No merge begins at once or with three objects; after the interval four objects make one command."""
    remote = Remote(4)
    rig.look(remote)
    rig.now_ms = 1000
    remote.facts.totals.segments = 3
    rig.look(remote)
    assert rig.sent == []
    remote.facts.totals.segments = 4
    rig.look(remote)
    ((command, answered),) = rig.sent
    assert isinstance(command, commands.MergeObjects)
    assert (command.objects_min, command.bytes_max, command.claimant, command.storage_class) == (4, 99, US, "COLD")
    assert command.expires_ms > command.now_ms == 7_000_000
    answered(commands.ObjectsMerged("view"))
    rig.now_ms = 5000
    rig.look(remote)
    assert (len(rig.sent), remote.applied) == (1, ["view"])
    remote.facts.totals.segments = 8
    rig.look(remote)
    assert len(rig.sent) == 2


def test_merging_goes_on_until_nothing_is_left(rig):
    """Each time under a uuid of its own; others wait meanwhile."""
    remote, other = Remote(400), Remote(400)
    for each in (remote, other):
        rig.look(each)
    rig.now_ms = 1000
    for each in (remote, other):
        rig.look(each)
    rig.sent[0][1](commands.ObjectsMerged("view", 256, 1))
    rig.sent[1][1](commands.ObjectsMerged("view", 100, 1))
    assert len({command.uuid for command, _ in rig.sent}) == 3
    assert rig.merging.merged_objects == 356
    rig.sent[2][1](commands.ObjectsMerged("view"))
    rig.look(other)
    assert len(rig.sent) == 4


def test_a_failed_merge_is_tried_again_later(rig):
    """A second try is sent only after the interval is over."""
    remote = Remote(10)
    rig.look(remote)
    rig.now_ms = 1000
    rig.look(remote)
    rig.sent[0][1](commands.FailedReport("away", retriable=True))
    rig.look(remote)
    assert len(rig.sent) == 1
    rig.now_ms = 2000
    rig.look(remote)
    assert len(rig.sent) == 2


def test_it_can_be_switched_off_and_forgets_gone_partitions(rig):
    """A late answer for a partition that is not led any more changes nothing."""
    remote, other = Remote(10), Remote(10)
    rig.settings["stratalog.merge.objects.min"] = 0
    rig.look(remote)
    rig.settings["stratalog.merge.objects.min"] = 4
    rig.now_ms = 1000
    rig.look(remote)
    rig.look(other)
    rig.now_ms = 2000
    rig.look(remote)
    rig.merging.forget(remote)
    rig.sent[0][1](commands.ObjectsMerged("view", 5, 1))
    assert (remote.applied, rig.merging.merged_objects) == ([], 0)
    rig.look(other)
    assert len(rig.sent) == 2


MERGED = {
    "remote_storage_enable": "true", "internal_segment_bytes": 2000, "local_retention_bytes": 0, "retention_ms": -1,
}  # fmt: skip


@pytest.mark.story
def test_a_broker_merges_what_it_has_archived(start_node):
    """Produced, archived, merged: every record is in the bucket once, and the broker knows the new objects."""
    broker = start_node(
        log_retention_check_interval_ms="200",
        stratalog_merge_interval_ms="1000",
        stratalog_merge_objects_min="4",
    )
    broker.create("t", **MERGED)
    for _ in range(20):
        broker.produce("t", *[b"v" * 100] * 5)
    unified = broker.partition("t")
    broker.wait_until(lambda: unified.remote.end_offset == unified.log.active_base_offset > 0)
    before = broker.run(lambda: unified.remote.object_count)
    assert before >= 4
    broker.wait_until(lambda: unified.remote.object_count < before)
    broker.run(unified.remote.refresh)
    store = LocalStore(f"{broker.directory}/bucket", sync=False)
    partition = PartitionId("t", unified.topic_id, 0)
    manifest = broker.run(lambda: read_manifest(store, partition)).manifest
    assert sum(entry.record_count for entry in manifest.entries) == manifest.remote_end
    assert len(manifest.entries) < before
    assert all(store.head(entry.key).size_bytes == entry.size_bytes for entry in manifest.entries)
    broker.wait_until(lambda: unified.remote.entries is not None)
    known = broker.run(lambda: [unified.remote.entries.segment(n).key for n in range(len(unified.remote.entries))])
    assert known == [entry.key for entry in manifest.entries]
