"""Settings of an image, handed to partitions before the roles of the same image."""

import pytest

from stratalog.metadata.image.configs_image import ResourceType
from stratalog.wire.records.metadata import ConfigRecord, PartitionChangeRecord


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
