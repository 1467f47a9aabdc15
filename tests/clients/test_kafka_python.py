"""kafka-python: another implementation of everything."""

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


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
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    node = start_node()
    admin = KafkaAdminClient(bootstrap_servers=node.address)
    admin.create_topics([NewTopic("made", 2, 1)])
    assert "made" in admin.list_topics()
    assert len(node.node.image.topics.by_name["made"].partitions) == 2
    admin.delete_topics(["made"])
    assert node.node.image.topics.by_name == {}
    admin.close()
