"""aiokafka: asyncio, idempotent by choice."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


@pytest.mark.parametrize("idempotent", [False, True])
async def test_aiokafka_writes_and_reads_back(topic, codec, expected, idempotent):
    """Offsets as acknowledged, contents as written, codec as asked for."""
    producer = AIOKafkaProducer(
        bootstrap_servers=topic.address,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        acks="all",
        linger_ms=5,
    )
    await producer.start()
    sent = [
        await producer.send("events", key=key, value=value, timestamp_ms=timestamp, partition=1)
        for key, value, timestamp in expected
    ]
    assert [(await one).offset for one in sent] == list(range(len(expected)))
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=topic.address, group_id=None, enable_auto_commit=False)
    await consumer.start()
    partition = TopicPartition("events", 1)
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)
    found = []
    while len(found) < len(expected):
        message = await consumer.getone()
        found.append((message.offset, message.key, message.value, message.timestamp))
    assert found == [(offset, *record) for offset, record in enumerate(expected)]
    assert await consumer.end_offsets([partition]) == {partition: len(expected)}
    await consumer.stop()
    assert topic.stored_codecs(1) == {codec}
