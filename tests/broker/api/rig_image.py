"""The cluster of a rig of requests: broker 1 leads all partitions."""

from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.records.metadata import BrokerEndpoint, PartitionRecord, RegisterBrokerRecord, TopicRecord

NAMES = ("t", "u", "longer")


def _image():
    """The cluster of a rig: broker 1 leads the partitions of the topics."""
    records = [
        RegisterBrokerRecord(
            broker_id=1,
            broker_epoch=1,
            incarnation_id=bytes(16),
            end_points=[BrokerEndpoint(name="TEST", host="here", port=9092, security_protocol=0)],
            features=[],
            rack="r1",
            fenced=False,
        )
    ]
    for name in NAMES:
        topic_id = name.encode().ljust(16)
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += [
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=3,
                partition_epoch=0,
            )
            for number in (0, 1)
        ]
    return EMPTY_IMAGE.apply(records)


IMAGE = _image()
