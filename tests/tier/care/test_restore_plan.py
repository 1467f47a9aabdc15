from __future__ import annotations

import pytest

from stratalog.tier.care.restore_plan import choose_cluster, read_bucket_state, read_producers
from stratalog.tier.care.takeover import take_partition_over
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.parts import Claimant
from stratalog.tier.messages.group_copy import OffsetCopy, group_copy_projection, groups_prefix
from stratalog.tier.messages.projection import cluster_projection, topic_projection, write_projection
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.errors import Invalid


@pytest.fixture
def bucket(memory_store, log_bytes):
    """A topic of three partitions, two of them archived, and a group."""
    topic, topic_id = log_bytes.partition.topic, log_bytes.partition.topic_id
    write_projection(memory_store, cluster_projection("c1", 2))
    write_projection(
        memory_store,
        topic_projection(topic, topic_id, partitions=3, configs={"segment.ms": "5"}, cluster_id="c1"),
    )
    for number, count in ((0, 2), (2, 3)):
        segments = [log_bytes.segment(at * 50, 5, leader_epoch=at + 1) for at in range(count)]
        archive_log(memory_store, PartitionId(topic, topic_id, number), segments, now_ms=1, cluster_id="c1")
    write_projection(memory_store, group_copy_projection("c1", "g", [OffsetCopy(topic, topic_id, 0, 7)]))
    write_projection(memory_store, group_copy_projection("c1", "empty", []))
    return memory_store


def test_all_that_a_broker_needs_is_read(bucket, log_bytes):
    """Topics, settings, where every log goes on and under which epoch, groups; nothing is written."""
    before = {info.key: bucket.get(info.key)[0] for info in bucket.list("")}
    state = read_bucket_state(bucket, now_ms=9)
    assert (state.cluster_id, state.incarnation, state.problems) == ("c1", 2, ())
    (topic,) = state.topics
    assert (topic.name, topic.partition_count, topic.configs) == ("orders", 3, {"segment.ms": "5"})
    found = [
        (one.partition.partition, one.restart_offset, one.leader_epoch, one.manifest.seq > 0)
        for one in state.partitions
    ]
    assert found == [(0, 100, 2, True), (1, 0, -1, False), (2, 150, 3, True)]
    assert [(one.group, one.offsets[0].offset) for one in state.groups] == [("g", 7)]
    assert {info.key: bucket.get(info.key)[0] for info in bucket.list("")} == before


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_manifest_that_cannot_be_read_is_rebuilt_in_memory(bucket, log_bytes, damage):
    """And said so; the cluster's incarnation is that of its document."""
    partition = log_bytes.partition._replace(partition=2)
    before = read_manifest(bucket, partition).manifest
    if damage == "missing":
        bucket.delete_many([partition.manifest_key])
    else:
        bucket.put(partition.manifest_key, bucket.get(partition.manifest_key)[0][:100])
    state = read_bucket_state(bucket, now_ms=9)
    rebuilt = state.partitions[2]
    assert rebuilt.repair is not None
    assert rebuilt.manifest.entries == before.entries
    assert (rebuilt.restart_offset, rebuilt.leader_epoch) == (150, 3)
    assert rebuilt.manifest.claimant.incarnation == 2
    (problem,) = state.problems
    assert "rebuilt from the objects alone: offsets [0, 150)" in problem


def test_a_log_without_objects_goes_on_behind_what_the_copies_tell(bucket, log_bytes, monkeypatch):
    """Retention took all objects before the manifest was lost: no offset may be given out twice."""
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", 4)
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 2)
    partition = log_bytes.partition._replace(partition=2)
    for at in range(3, 8):
        archive_log(bucket, partition, [log_bytes.segment(at * 50, 5, leader_epoch=4)], now_ms=1)
    before = read_manifest(bucket, partition).manifest
    bucket.delete_many([info.key for info in bucket.list(partition.prefix) if "/history/" not in info.key])
    rebuilt = read_bucket_state(bucket, now_ms=9).partitions[2]
    assert before.history.seq < before.seq
    assert (rebuilt.manifest.entries, rebuilt.leader_epoch) == ((), 4)
    assert 200 <= rebuilt.restart_offset <= before.remote_end


def test_a_damaged_group_costs_only_itself(bucket):
    """The others are restored."""
    bucket.put(groups_prefix("c1") + "x/0.json", b"{")
    state = read_bucket_state(bucket, now_ms=9)
    assert len(state.groups) == 1
    assert "x/0.json" in state.problems[0]


def test_one_of_several_clusters_must_be_named(bucket):
    """No value is guessed; topics of others are left out."""
    assert choose_cluster(bucket, None) == ("c1", 2)
    write_projection(bucket, cluster_projection("c2", 0))
    with pytest.raises(Invalid, match="c1, c2"):
        read_bucket_state(bucket, now_ms=9)
    with pytest.raises(Invalid, match="nothing of the cluster c3"):
        choose_cluster(bucket, "c3")
    other = read_bucket_state(bucket, cluster_id="c2", now_ms=9)
    assert (other.topics, other.partitions) == ((), ())
    assert "belongs to the cluster c1" in other.problems[0]


def test_without_a_cluster_document_the_manifests_name_it(bucket):
    """Their incarnation counts as well."""
    bucket.delete_many([cluster_projection("c1", 0).key, *(info.key for info in bucket.list("clusters/"))])
    state = read_bucket_state(bucket, now_ms=9)
    assert (state.cluster_id, state.incarnation) == ("c1", 0)


def test_the_producers_are_those_of_the_last_object(bucket, log_bytes):
    """None where nothing is archived, or where it has none."""
    state = read_bucket_state(bucket, now_ms=9)
    assert [read_producers(bucket, one.manifest) for one in state.partitions] == [(None, frozenset())] * 3


def test_transactions_that_were_aborted_are_known_from_the_last_object(bucket, log_bytes):
    """Also those whose markers stand behind the archive's end, and none that ended before the object."""
    partition = log_bytes.partition._replace(partition=2)
    aborted = [AbortedTransaction(9, 155, 230, 0), AbortedTransaction(8, 120, 149, 0)]
    archive_log(bucket, partition, [log_bytes.segment(150, 5, leader_epoch=4)], now_ms=1, aborted=aborted)
    found = read_producers(bucket, read_manifest(bucket, partition).manifest)
    assert found.aborted == {(9, 155)}


def test_damage_on_the_way_changes_nothing(bucket):
    """A manifest that was spoilt is read again; nothing is begun anew for it, however often it happens."""
    whole = read_bucket_state(bucket, now_ms=9)
    for skip in range(4):
        spoilt = FaultyStore(bucket, [FaultRule(Fault.CORRUPT, "get", key_pattern="manifest.json", skip=skip)])
        assert read_bucket_state(spoilt, now_ms=9).partitions == whole.partitions
    spoilt = FaultyStore(bucket, [FaultRule(Fault.CORRUPT, "get", key_pattern="0000000002/manifest.json", count=2)])
    assert read_bucket_state(spoilt, now_ms=9).partitions == whole.partitions


@pytest.mark.parametrize("kind", [kind.value for kind in AnomalyKind])
def test_the_rest_is_restored_after_each_kind_of_damage(archive, kind):
    """None of fifteen damages prevents a restore; a part without damaged bytes goes on at the same end."""
    archive.damage(kind)
    state = read_bucket_state(archive.store, now_ms=9)
    partition = next(one for one in state.partitions if one.partition == archive.partition)
    assert partition.restart_offset == 300
    taken = take_partition_over(
        archive.store, partition, Claimant(state.incarnation + 1, -1, b"m" * 16), cluster_id="c", now_ms=10
    )
    assert taken.manifest.remote_end == 300
    assert read_manifest(archive.store, archive.partition).manifest == taken.manifest
    assert AnomalyKind.MISSING_MANIFEST not in archive.kinds()
