"""Settings of an image, handed to partitions before the roles of the same image."""

import pytest
from msgspec import structs

from stratalog.metadata.image.configs_image import ResourceType
from stratalog.wire.records.metadata import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord


@pytest.mark.parametrize("epochs_later", [0, 1])
def test_a_leader_takes_another_minimum_only_with_its_leadership(broker, new_batch, epochs_later):
    """Settings come first: a leader that the same image deposes would acknowledge what the leader after it lacks."""
    broker.create("t", min_insync_replicas=2)
    hosted, image, me = broker.node.hosted, broker.node.image, broker.node.node_id
    unified = broker.partition("t")
    partition, epoch = unified.partition, unified.partition.leader_epoch
    broker.run(lambda: partition.lead(me, epoch, replicas=(me, me + 1), in_sync=(me,)))
    broker.append("t", new_batch(b"waits"), acks=1)
    broker.wait_until(lambda: unified.log.flushed_offset == 1)
    assert partition.high_watermark == 0
    change = PartitionChangeRecord(topic_id=image.topics.by_name["t"].topic_id, partition_id=0, leader=me)
    setting = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="min.insync.replicas", value="1")
    records = [*[change] * epochs_later, setting]
    broker.run(lambda: hosted.reconfigure(image.apply(records), "t"))
    assert unified.log.config.min_insync_replicas == 1
    assert partition.high_watermark == (0 if epochs_later else 1)


@pytest.mark.parametrize("topic", ["t", ""])
@pytest.mark.parametrize("epochs_later", [0, 1])
def test_a_set_of_the_newest_image_counts_by_the_minimum_of_that_image(broker, new_batch, topic, epochs_later):
    """Work beside images sees one before its settings are handed out: by an earlier minimum the mark would pass a replica that may lead.

    The minimum is the topic's own or that of all brokers. The leadership goes on, or begins anew with the set.
    """
    own = {"min_insync_replicas": 1} if topic else {}
    broker.create("t", **own)
    hosted, image, me = broker.node.hosted, broker.node.image, broker.node.node_id
    unified = broker.partition("t")
    partition, epoch = unified.partition, unified.partition.leader_epoch
    assert unified.log.config.min_insync_replicas == 1
    broker.run(lambda: partition.lead(me, epoch, replicas=(me, me + 1), in_sync=(me, me + 1)))
    broker.append("t", new_batch(b"waits"), acks=1)
    broker.wait_until(lambda: unified.log.flushed_offset == 1)
    assert partition.high_watermark == 0
    topic_id = image.topics.by_name["t"].topic_id
    level = ResourceType.TOPIC if topic else ResourceType.BROKER
    shrunk = PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[me], eligible_leader_replicas=[me + 1])
    newer = image.apply(
        [
            PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[me, me + 1], isr=[me, me + 1]),
            ConfigRecord(resource_type=level, resource_name=topic, name="min.insync.replicas", value="2"),
            shrunk,
            *[PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=me)] * epochs_later,
        ]
    )
    state = newer.topics.by_id[topic_id].partitions[0]
    assert (state.in_sync_replicas, state.eligible_leader_replicas) == ((me,), (me + 1,))
    hosted._services = structs.replace(hosted._services, image=lambda: newer)
    broker.run(lambda: list(hosted.following({topic_id: (0,)})))
    broker.run(lambda: hosted.reconfigure(newer, "t"))
    assert partition.leader_epoch == epoch + epochs_later
    assert partition.high_watermark == 0


def test_settings_of_brokers_are_handed_out_as_the_newest_image_has_them(broker):
    """A newer image may come between two topics: its minimum is not taken back, and a topic may have gone with it."""
    for topic in ("a", "b"):
        broker.create(topic)
    hosted, image = broker.node.hosted, broker.node.image
    images = [image]
    hosted._services = structs.replace(hosted._services, image=lambda: images[-1])
    steps = hosted.reconfiguring()
    broker.run(lambda: next(steps))
    setting = ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name="min.insync.replicas", value="2")
    images.append(image.apply([setting]))
    broker.run(lambda: next(steps))
    assert [broker.partition(topic).log.config.min_insync_replicas for topic in ("a", "b")] == [1, 2]
    steps = hosted.reconfiguring()
    broker.run(lambda: next(steps))
    images.append(image.apply([RemoveTopicRecord(topic_id=image.topics.by_name["b"].topic_id)]))
    assert broker.run(lambda: list(steps)) == [None]
