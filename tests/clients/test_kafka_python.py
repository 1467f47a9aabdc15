"""kafka-python: another implementation of everything."""

import contextlib
import itertools
import struct

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec


def test_kafka_python_writes_and_reads_back(topic, codec, expected):
    """Offsets as acknowledged, contents as written, codec as asked for."""
    producer = KafkaProducer(
        bootstrap_servers=topic.address,
        compression_type=None if codec == "none" else codec,
        acks="all",
        linger_ms=5,
    )
    sent = [
        producer.send("events", key=key, value=value, timestamp_ms=timestamp, partition=1)
        for key, value, timestamp in expected
    ]
    producer.flush(timeout=20)
    assert [one.get(timeout=20).offset for one in sent] == list(range(len(expected)))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=topic.address, group_id=None, consumer_timeout_ms=20_000)
    partition = TopicPartition("events", 1)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = []
    for message in consumer:
        found.append((message.offset, message.key, message.value, message.timestamp))
        if len(found) == len(expected):
            break
    assert found == [(offset, *record) for offset, record in enumerate(expected)]
    assert consumer.end_offsets([partition]) == {partition: len(expected)}
    assert consumer.offsets_for_times({partition: expected[20][2]})[partition].offset == 20
    consumer.close()
    assert topic.stored_codecs(1) == {codec}


def test_the_admin_client_speaks_to_the_broker(start_node):
    """Topics are made, described and deleted."""
    from kafka.admin import NewTopic

    node = start_node()
    admin = KafkaAdminClient(bootstrap_servers=node.address)
    admin.create_topics([NewTopic("made", 2, 1)])
    assert "made" in admin.list_topics()
    assert len(node.node.image.topics.by_name["made"].partitions) == 2
    admin.delete_topics(["made"])
    assert node.node.image.topics.by_name == {}
    admin.close()


def write(border, codec):
    """Write the events of a border."""
    compression = None if codec == "none" else codec
    with contextlib.closing(
        KafkaProducer(bootstrap_servers=border.address, compression_type=compression, acks="all", linger_ms=5)
    ) as producer:
        sent = [
            producer.send(
                border.topic,
                key=one.key,
                value=one.value,
                timestamp_ms=one.timestamp_ms,
                partition=0,
                headers=list(one.headers),
            )
            for one in border.events
        ]
        producer.flush(timeout=20)
        assert [one.get(timeout=20).offset for one in sent] == [one.offset for one in border.events]


@pytest.fixture
def consumer(tiered_node):
    """A consumer that belongs to no group and reads in small pieces."""
    with contextlib.closing(
        KafkaConsumer(
            bootstrap_servers=tiered_node.address,
            group_id=None,
            auto_offset_reset="none",
            max_partition_fetch_bytes=100_000,
            fetch_max_wait_ms=20,
            consumer_timeout_ms=20_000,
        )
    ) as consumer:
        yield consumer


@pytest.mark.story
def test_kafka_python_reads_across_the_border(tiered_topic, consumer, codec, event):
    """The archive and the local disk are one log: by offset, from inside a batch and by time, in every codec."""
    border = tiered_topic(codec)
    write(border, codec)
    partition = TopicPartition(codec, 0)
    consumer.assign([partition])

    def read(offset, count):
        consumer.seek(partition, offset)
        return [
            event(one.offset, one.key, one.value, one.timestamp, tuple(one.headers))
            for one in itertools.islice(consumer, count)
        ]

    border.check_client("kafka-python", codec, read)
    wanted = border.inside_a_batch
    time_ms = border.events[wanted].timestamp_ms
    with border.counted() as counted:
        found = consumer.offsets_for_times({partition: time_ms - 500})[partition]
    assert (found.offset, found.timestamp) == (wanted, time_ms)
    assert counted["kafka_server_brokertopicmetrics_remotefetchrequests_total"] > 0
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: len(border.events)}


@pytest.mark.story
def test_kafka_python_learns_the_places_of_partitions(tiered_topic):
    """The local log start (-4) and the last archived offset (-5) by its admin client, the first pending (-6) by a frame."""
    border = tiered_topic("ends")
    write(border, "none")
    border.settle()
    partition = TopicPartition("ends", 0)
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=border.address)) as admin:
        found = [
            admin.list_partition_offsets({partition: spec})[partition].offset
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.EARLIEST_LOCAL, OffsetSpec.LATEST_TIERED, OffsetSpec.LATEST)
        ]
    assert found == [0, border.local_start, border.remote_end - 1, len(border.events)]
    frame = struct.pack(">hhih", 2, 11, 77, -1)  # ListOffsets v11, correlation id 77, no client id
    frame += b"\0" + struct.pack(">ib", -1, 0)  # no header tags; no replica, read_uncommitted
    frame += b"\x02\x05ends" + b"\x02" + struct.pack(">iiq", 0, -1, -6) + b"\0\0"  # one topic, one partition
    frame += struct.pack(">i", 10_000) + b"\0"
    link = border.node.link()
    link.send_raw(struct.pack(">i", len(frame)) + frame)
    answer = bytes(link.receive_frame())
    (partition_index, error_code, timestamp, offset, _) = struct.unpack_from(">ihqqi", answer, 16)
    assert answer[:16] == struct.pack(">i", 77) + b"\0" + bytes(4) + b"\x02\x05ends\x02"
    assert (partition_index, error_code, timestamp, offset) == (0, 0, -1, border.remote_end)
