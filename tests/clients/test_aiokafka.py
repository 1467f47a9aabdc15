"""aiokafka: asyncio, idempotent by choice."""

import asyncio

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


@pytest.mark.story
async def test_aiokafka_reads_across_the_border(tiered_topic, codec, event):
    """The archive and the local disk are one log: by offset, from inside a batch and by time, in every codec."""
    border = tiered_topic(codec)
    async with AIOKafkaProducer(
        bootstrap_servers=border.address, compression_type=None if codec == "none" else codec, acks="all", linger_ms=5
    ) as producer:
        sent = [
            await producer.send(
                codec,
                key=one.key,
                value=one.value,
                timestamp_ms=one.timestamp_ms,
                partition=0,
                headers=list(one.headers),
            )
            for one in border.events
        ]
        assert [(await one).offset for one in sent] == [one.offset for one in border.events]
    partition = TopicPartition(codec, 0)
    loop = asyncio.get_running_loop()
    async with AIOKafkaConsumer(
        bootstrap_servers=border.address,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=100_000,
        fetch_max_wait_ms=20,
    ) as consumer:
        consumer.assign([partition])

        async def records(offset, count):
            consumer.seek(partition, offset)
            found = [await consumer.getone() for _ in range(count)]
            return [event(one.offset, one.key, one.value, one.timestamp, tuple(one.headers)) for one in found]

        def read(offset, count):
            return asyncio.run_coroutine_threadsafe(records(offset, count), loop).result(30)

        await asyncio.to_thread(border.check_client, "aiokafka", codec, read)
        wanted = border.inside_a_batch
        time_ms = border.events[wanted].timestamp_ms
        with border.counted() as counted:
            found = (await consumer.offsets_for_times({partition: time_ms - 500}))[partition]
        assert (found.offset, found.timestamp) == (wanted, time_ms)
        assert counted["kafka_server_brokertopicmetrics_remotefetchrequests_total"] > 0
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: len(border.events)}
