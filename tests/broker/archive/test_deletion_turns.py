"""Which broker notes the archive of a deleted topic, and whose turn it is."""

import pytest

from stratalog.broker.archive.deletion_turns import SECOND_AFTER_MS, committed_deletions, first_remover, removal_claim
from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.image.difference import difference
from stratalog.metadata.image.image import EMPTY_IMAGE, ImageDelta, Provenance
from stratalog.metadata.image.image import ClusterImage as Image
from stratalog.wire.records.metadata import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

ID, GRACE_MS = b"t" * 16, 5000


def cluster(*, tiered=True, fenced=()) -> Image:
    """Three brokers; topic t has a partition on each of 2 and 3."""
    brokers = [
        BrokerImage(
            broker_id=one,
            epoch=one,
            incarnation_id=bytes([one]) * 16,
            listeners={},
            features={},
            rack=None,
            directories=(bytes([one]) * 16,),
            is_fenced=one in fenced,
        ).to_record()
        for one in (1, 2, 3)
    ]
    topic = ConfigResource.topic("t")
    config = ConfigRecord(resource_type=topic.type, resource_name="t", name="remote.storage.enable", value="true")
    partitions = [
        PartitionRecord(partition_id=at, topic_id=ID, replicas=[one], isr=[one], leader=one, leader_epoch=7)
        for at, one in enumerate((2, 3))
    ]
    return EMPTY_IMAGE.apply([*brokers, TopicRecord(name="t", topic_id=ID), *partitions, *([config] if tiered else [])])


def notes(before, node_id, *, archived=False):
    """By partition: when it is this node's turn, and whether it asks the bucket first."""
    delta = ImageDelta(before)
    delta.replay(RemoveTopicRecord(topic_id=ID))
    found = committed_deletions(
        delta,
        delta.build(Provenance(9, 1, 1)),
        node_id=node_id,
        is_archived=lambda _name, topic_id: archived and topic_id == ID,
        now_ms=100,
        grace_ms=GRACE_MS,
    )
    assert {one.claimant.rank for one in found} <= {(0, 8)}
    assert all(one.claimant.uuid == removal_claim(ID, one.partition.partition) for one in found)
    return {one.partition.partition: (one.not_before_ms, one.asks_first) for one in found}


LATER = (100 + GRACE_MS + SECOND_AFTER_MS, True)


def test_the_replica_removes_at_once_and_all_others_look_later():
    """Under one claim, above the last leader's: the second one finds nothing, or goes on."""
    assert notes(cluster(), 2) == {0: (0, False), 1: LATER}
    assert notes(cluster(), 3) == {0: LATER, 1: (0, False)}
    assert notes(cluster(), 1) == {0: LATER, 1: LATER}


def test_with_the_leader_down_the_lowest_active_broker_is_first():
    """And the leader, when it is back, has not seen the deletion; it is not needed."""
    assert notes(cluster(fenced=(2,)), 1) == {0: (0, False), 1: LATER}
    assert notes(cluster(fenced=(2, 1)), 3) == {0: (0, False), 1: (0, False)}


def test_an_archive_that_no_setting_names_is_known_to_its_replica_or_asked_for():
    """Tiering was switched off: with the replica down the first broker asks the bucket, the others leave it alone."""
    assert notes(cluster(tiered=False), 2, archived=True) == {0: (0, False), 1: LATER}
    assert notes(cluster(tiered=False), 2) == {0: (0, True)}
    assert notes(cluster(tiered=False, fenced=(2, 3)), 1) == {0: (0, True), 1: (0, True)}
    assert notes(cluster(tiered=False), 1) == {}


def test_a_topic_that_is_missing_in_a_snapshot_was_not_seen_to_be_deleted():
    """Missing metadata removes nothing."""
    before = cluster()
    change = difference(before, EMPTY_IMAGE)
    assert ID in change.removed_topics
    options = {"node_id": 2, "is_archived": lambda _name, _id: True, "now_ms": 0, "grace_ms": 0}
    assert committed_deletions(change, EMPTY_IMAGE, **options) == []


@pytest.mark.parametrize(
    ("replicas", "active", "first"), [((2, 3), {3, 1}, 3), ((2,), {3, 1}, 1), ((2, 3), {2, 3}, 2), ((2,), set(), None)]
)
def test_the_first_is_an_active_replica_or_the_lowest_id(replicas, active, first):
    """Each broker comes to the same answer by the image."""
    assert first_remover(replicas, active) == first
