"""librdkafka through confluent-kafka."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def consume(address: str, partition: int, count: int):
    """Records of one partition from its beginning."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False, "check.crcs": True}
    )
    consumer.assign([TopicPartition("events", partition, 0)])
    found = []
    while len(found) < count:
        for message in consumer.consume(count - len(found), timeout=20):
            assert message.error() is None
            found.append((message.offset(), message.key(), message.value(), message.timestamp()[1]))
    watermarks = consumer.get_watermark_offsets(TopicPartition("events", partition), timeout=10)
    consumer.close()
    return found, watermarks


@pytest.mark.parametrize("idempotent", [False, True])
def test_librdkafka_writes_and_reads_back(topic, codec, expected, idempotent):
    """Delivered records are read back at the offset of its report, and the stored batches have the producer's codec."""
    producer = Producer(
        {
            "bootstrap.servers": topic.address,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "acks": "all",
            "linger.ms": 5,
        }
    )
    reports = []
    for key, value, timestamp in expected:
        producer.produce(
            "events", key=key, value=value, timestamp=timestamp, partition=1,
            on_delivery=lambda error, message: reports.append((error, message.offset())),
        )  # fmt: skip
    assert producer.flush(20) == 0
    assert reports == [(None, offset) for offset in range(len(expected))]
    found, watermarks = consume(topic.address, 1, len(expected))
    assert found == [(offset, *record) for offset, record in enumerate(expected)]
    assert watermarks == (0, len(expected))
    assert topic.stored_codecs(1) == {codec}
    assert topic.end("events", 0) == 0


def test_murmur2_random_places_keys_where_java_does(start_node):
    """Among six partitions AA → 3, UA → 4, DL → 5, B6 → 0, as our own producer does."""
    from stratalog.wire.partitioner import partition_of_key

    node = start_node()
    node.create("flights", 6)
    producer = Producer({"bootstrap.servers": node.address, "partitioner": "murmur2_random"})
    placed = {}
    for key in ("AA", "UA", "DL", "B6"):
        producer.produce(
            "flights", key=key, value=b"v",
            on_delivery=lambda error, message: placed.update({message.key().decode(): message.partition()}),
        )  # fmt: skip
    assert producer.flush(20) == 0
    assert placed == {"AA": 3, "UA": 4, "DL": 5, "B6": 0}
    assert placed == {key: partition_of_key(key.encode(), 6) for key in placed}


def test_the_admin_client_creates_describes_and_deletes(start_node):
    """Topics appear and go, settings are described and changed, refusals are exceptions."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    node = start_node()
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic("t", 3, 1, config={"segment.ms": "60000"})])["t"].result(10)
    assert len(admin.list_topics(timeout=10).topics["t"].partitions) == 3
    resource = ConfigResource("topic", "t")
    assert admin.describe_configs([resource])[resource].result(10)["segment.ms"].value == "60000"
    change = ConfigResource(
        "topic", "t",
        incremental_configs=[ConfigEntry("retention.ms", "5", incremental_operation=AlterConfigOpType.SET)],
    )  # fmt: skip
    admin.incremental_alter_configs([change])[change].result(10)
    assert admin.describe_configs([resource])[resource].result(10)["retention.ms"].value == "5"
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(10)
    admin.delete_topics(["t"])["t"].result(10)
    assert "t" not in admin.list_topics(timeout=10).topics


def test_offsets_for_times_find_the_record(topic, expected):
    """The first record at or after a time, and the end where there is none."""
    producer = Producer({"bootstrap.servers": topic.address})
    for key, value, timestamp in expected:
        producer.produce("events", key=key, value=value, timestamp=timestamp, partition=0)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": topic.address, "group.id": "none"})
    wanted = [TopicPartition("events", 0, expected[33][2])]
    assert [one.offset for one in consumer.offsets_for_times(wanted, timeout=10)] == [33]
    consumer.close()


def test_librdkafka_reads_across_the_border(tiered_topic, codec, event):
    """The archive and the local disk are one log: by offset, from inside a batch and by time, in every codec."""
    border = tiered_topic(codec)
    producer = Producer(
        {"bootstrap.servers": border.address, "compression.type": codec, "acks": "all", "batch.size": 16_384}
    )
    for one in border.events:
        producer.produce(
            codec, key=one.key, value=one.value, timestamp=one.timestamp_ms, partition=0, headers=list(one.headers)
        )
    assert producer.flush(20) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": border.address,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "max.partition.fetch.bytes": 100_000,
            "fetch.wait.max.ms": 20,  # what it asks next waits behind a fetch at the end
        }
    )

    def read(offset, count):
        consumer.assign([TopicPartition(codec, 0, offset)])
        found = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=20)
            assert messages, "no more messages come"
            assert [one.error() for one in messages] == [None] * len(messages)
            found += messages
        return [
            event(one.offset(), one.key(), one.value(), one.timestamp()[1], tuple(one.headers() or ())) for one in found
        ]

    border.check_client("librdkafka", codec, read)
    wanted = border.inside_a_batch
    with border.counted() as counted:
        asked = TopicPartition(codec, 0, border.events[wanted].timestamp_ms - 500)
        assert consumer.offsets_for_times([asked], timeout=20)[0].offset == wanted
    assert counted["kafka_server_brokertopicmetrics_remotefetchrequests_total"] > 0
    assert consumer.get_watermark_offsets(asked, timeout=20) == (0, len(border.events))
    consumer.close()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_only_the_records_at_fault_get_the_error(start_node, codec):
    """A batch with records without keys fails in a compacted topic; the others hear that another record was the reason.

    librdkafka's own test 0011 does the same (``test_message_single_partition_record_fail``).
    """
    node = start_node()
    node.create("compacted", cleanup_policy="compact")
    producer = Producer(
        {
            "bootstrap.servers": node.address,
            "linger.ms": 200,
            "compression.type": codec,
            "partitioner": "consistent",
            "log_level": 0,
        }
    )
    told = {}
    for number in range(100):
        producer.produce(
            "compacted", b"v", None if number % 10 == 7 else b"k", 0,
            on_delivery=lambda error, _, number=number: told.setdefault(number, error.code()),
        )  # fmt: skip
    assert producer.flush(20) == 0
    at_fault = {number for number, code in told.items() if code == KafkaError.INVALID_RECORD}
    assert at_fault == {number for number in range(100) if number % 10 == 7}
    assert {told[number] for number in set(told) - at_fault} == {KafkaError._INVALID_DIFFERENT_RECORD}
    assert node.end("compacted") == 0
