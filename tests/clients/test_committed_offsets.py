"""Committed offsets with real clients: where a group resumes, and where it begins when nothing is committed."""

import asyncio
import contextlib
import itertools

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer

COUNT = 40


def confluent_reads(address, group, topic, count, reset):
    """The offsets of ``count`` records that librdkafka reads as a member of the group, then commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found = []
    while len(found) < count:
        for message in consumer.consume(count - len(found), timeout=20):
            assert message.error() is None, message.error()
            found.append(message.offset())
    (committed,) = consumer.commit(offsets=[TopicPartition(topic, 0, found[-1] + 1, "confluent")], asynchronous=False)
    assert committed.error is None
    consumer.close()
    return found


def kafka_python_reads(address, group, topic, count, reset):
    """The same by kafka-python."""
    with contextlib.closing(
        KafkaConsumer(
            topic, bootstrap_servers=address, group_id=group, auto_offset_reset=reset, enable_auto_commit=False
        )
    ) as consumer:
        found = [message.offset for message in itertools.islice(consumer, count)]
        place = kafka.TopicPartition(topic, 0)
        consumer.commit({place: kafka.OffsetAndMetadata(found[-1] + 1, "kafka-python", -1)})
        assert consumer.committed(place) == found[-1] + 1
        return found


def aiokafka_reads(address, group, topic, count, reset):
    """The same by aiokafka."""

    async def read():
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=address, group_id=group, auto_offset_reset=reset, enable_auto_commit=False
        ) as consumer:
            found = [(await consumer.getone()).offset for _ in range(count)]
            place = next(iter(consumer.assignment()))
            await consumer.commit({place: (found[-1] + 1, "aiokafka")})
            assert await consumer.committed(place) == found[-1] + 1
            return found

    return asyncio.run(read())


CLIENTS = [confluent_reads, kafka_python_reads, aiokafka_reads]


@pytest.fixture(scope="module")
def node(start_shared_node):
    """A broker whose groups do not wait for more members, with a topic of records in several batches."""
    node = start_shared_node(group_initial_rebalance_delay_ms=0)
    node.create("events")
    for first in range(0, COUNT, 10):
        node.produce("events", *[b"%d" % n for n in range(first, first + 10)])
    return node


@pytest.mark.parametrize("reads", CLIENTS)
def test_a_group_resumes_where_it_committed(node, reads):
    """The next member of the group begins behind the last committed record, in the middle of a batch."""
    group = reads.__name__
    assert reads(node.address, group, "events", 13, "earliest") == list(range(13))
    assert reads(node.address, group, "events", 12, "latest") == list(range(13, 25))
    admin = AdminClient({"bootstrap.servers": node.address, "log_level": 0})
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    (one,) = answer.result(20).topic_partitions
    assert (one.topic, one.partition, one.offset) == ("events", 0, 25)
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=node.address)) as admin:
        found = admin.list_group_offsets(group)
    # confluent-kafka writes a zero behind its text, and reads past the end of one: kafka-python judges
    kept = found.get(group, found)[kafka.TopicPartition("events", 0)]
    assert (kept.offset, kept.metadata.rstrip("\0")) == (25, group.removesuffix("_reads").replace("_", "-"))


def test_a_client_resumes_where_another_committed(node):
    """Offsets belong to the group, not to the library that committed them."""
    expected = iter(range(COUNT))
    for reads in CLIENTS:
        assert reads(node.address, "shared", "events", 7, "earliest") == list(itertools.islice(expected, 7))


def test_offsets_outlive_the_broker(start_node):
    """After a restart the group goes on where it was, and so it does after its offsets were set by an administrator."""
    node = start_node(group_initial_rebalance_delay_ms=0)
    node.create("events")
    node.produce("events", *[b"%d" % n for n in range(COUNT)])
    assert confluent_reads(node.address, "g", "events", 10, "earliest") == list(range(10))
    node.restart()
    assert kafka_python_reads(node.address, "g", "events", 10, "earliest") == list(range(10, 20))
    admin = AdminClient({"bootstrap.servers": node.address, "log_level": 0})
    wanted = ConsumerGroupTopicPartitions("g", [TopicPartition("events", 0, 5)])
    (altered,) = admin.alter_consumer_group_offsets([wanted]).values()
    assert altered.result(20).topic_partitions[0].error is None
    node.restart()
    assert aiokafka_reads(node.address, "g", "events", 3, "earliest") == [5, 6, 7]


def test_offsets_are_deleted(node):
    """Deleted offsets are gone; without them the group begins anew."""
    assert kafka_python_reads(node.address, "deleted", "events", 5, "earliest") == list(range(5))
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=node.address)) as admin:
        place = kafka.TopicPartition("events", 0)
        admin.delete_group_offsets("deleted", [place])
        assert admin.list_group_offsets("deleted") in ({}, {"deleted": {}})
    assert kafka_python_reads(node.address, "deleted", "events", 5, "earliest") == list(range(5))


@pytest.mark.parametrize("reads", CLIENTS)
def test_no_commit_and_latest(node, reads):
    """Without a committed offset ``latest`` begins behind what is there; it is -1 that the broker answers."""
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": f"late-{reads.__name__}", "log_level": 0})
    (committed,) = consumer.committed([TopicPartition("events", 0)], timeout=20)
    consumer.close()
    assert committed.offset == -1001, "librdkafka's name for none"
    node.create(f"late-{reads.__name__}")
    node.produce(f"late-{reads.__name__}", b"before")

    async def read_late():
        reading = asyncio.create_task(
            asyncio.to_thread(reads, node.address, "late", f"late-{reads.__name__}", 1, "latest")
        )
        while not reading.done():
            await asyncio.to_thread(node.produce, f"late-{reads.__name__}", b"after")
            await asyncio.sleep(0.05)
        return await reading

    (offset,) = asyncio.run(read_late())
    assert offset >= 1


@pytest.mark.story
@pytest.mark.parametrize("reads", CLIENTS)
def test_fact_nothing_committed_begins_in_the_bucket(tiered_topic, tiered_node, reads):
    """Without a committed offset ``earliest`` is the first offset of the archive, and a commit there is resumed there."""
    name = reads.__name__
    border = tiered_topic(name)
    for first in range(0, len(border.events), 20):
        tiered_node.produce(name, *[one.value or b"null" for one in border.events[first : first + 20]])
    border.settle()
    assert reads(tiered_node.address, name, name, 20, "earliest") == list(range(20))
    assert border.local_start > 40
    assert reads(tiered_node.address, name, name, 20, "latest") == list(range(20, 40))
