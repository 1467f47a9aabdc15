"""One aborted transaction over many objects, and what its producer commits behind it: every reader sees the commits.

librdkafka counts the aborted transactions that an answer names, so that a double hides committed records. Its answers
cross the borders of objects only when the chunks are cached: everything is read twice.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Assigned
from kafka import KafkaConsumer
from kafka import TopicPartition as Named

from stratalog.client.records import fetch, visible_records
from stratalog.spark.source.fetch import ReadRequest
from stratalog.spark.source.hot_tail import HotSlice, read_hot_slices
from stratalog.tier.manifests.entries import iter_entries
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.topic import TopicPartition

OBJECTS_MIN = 4
ABORTED = 40
COMMITTED = 10


@pytest.fixture
def aborted(tiered):
    """A topic whose first transaction was aborted over many objects and is in the bucket only, with what follows it."""
    tiered.topic("t")
    producer = Producer({"bootstrap.servers": tiered.node.address, "transactional.id": "x", "linger.ms": 0})
    producer.init_transactions(20)
    for count, end in ((ABORTED, producer.abort_transaction), (COMMITTED, producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(count):
            producer.produce("t", b"%d of %d" % (number, count) + b"." * 300, partition=0)
            producer.flush(20)
        end(20)
    partition = tiered.node.partition("t").partition
    tiered.node.wait_until(lambda: partition.last_stable_offset == ABORTED + 1 + COMMITTED + 1)
    tiered.roll("t")
    tiered.archived("t")
    first, *others = iter_entries(tiered.memory, tiered.manifest("t"))
    assert sum(one.aborted_count for one in (first, *others)) >= OBJECTS_MIN
    assert others[-1].end == ABORTED + 1 + COMMITTED + 1
    return tiered


EXPECTED = [b"%d of %d" % (number, COMMITTED) for number in range(COMMITTED)]


def by_librdkafka(broker):
    consumer = Consumer(
        {
            "bootstrap.servers": broker.node.address,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Assigned("t", 0, 0)])
    found = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append(message.value())


def by_kafka_python(broker):
    consumer = KafkaConsumer(
        bootstrap_servers=broker.node.address, isolation_level="read_committed", consumer_timeout_ms=3000
    )
    partition = Named("t", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found = []
    while consumer.position(partition) < ABORTED + 1 + COMMITTED + 1:
        for records in consumer.poll(timeout_ms=1000).values():
            found += [record.value for record in records]
    consumer.close()
    return found


def by_own_client(broker):
    position, found = 0, []
    while position < ABORTED + 1 + COMMITTED + 1:
        (answer,) = fetch(broker.node.client(), {TopicPartition("t", 0): position})
        for next_offset, records in visible_records(answer, position):
            found += [record.value for record in records]
            position = next_offset
    return found


def by_hot_tail(broker):
    piece = HotSlice("t", 0, 0, ABORTED + 1 + COMMITTED + 1)
    batches = read_hot_slices(broker.node.address, [piece], ReadRequest(("value",)))
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.story
@pytest.mark.parametrize("read", [by_librdkafka, by_kafka_python, by_own_client, by_hot_tail])
def test_committed_records_behind_an_aborted_transaction_are_read(aborted, read):
    """Cold, with everything cached, and after a restart."""
    for cache in ("cold", "warm", "warm"):
        assert [value.split(b".")[0] for value in read(aborted)] == EXPECTED, cache
    aborted.node.restart()
    for cache in ("of an earlier run", "warm"):
        assert [value.split(b".")[0] for value in read(aborted)] == EXPECTED, cache


def raw(broker, version, offset, *, link=None, **options):
    """The aborted transactions of one answer, and where the batches end."""
    topic_id = broker.node.partition("t").topic_id
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=20_000, min_bytes=1, isolation_level=1,
        topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[wanted])], **options,
    )  # fmt: skip
    answer = (link or broker.node.link()).call(request, version)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == 0
    return answer, [(one.producer_id, one.first_offset) for one in partition.aborted_transactions]


@pytest.mark.story
@pytest.mark.parametrize(
    "version",
    # The first version, the last without and the first with a session, tagged fields, topic ids, and the last.
    [pytest.param(one, marks=() if one in {4, 6, 7, 12, 13, 18} else pytest.mark.slow) for one in range(4, 19)],
)
def test_an_answer_over_borders_names_the_transaction_once(aborted, version):
    """In every version that names aborted transactions; behind its marker none is named."""
    by_own_client(aborted)
    _, named = raw(aborted, version, 0)
    assert len(named) == 1
    assert named[0][1] == 0
    assert raw(aborted, version, ABORTED // 2)[1] == named
    assert raw(aborted, version, ABORTED)[1] == named  # the marker itself
    assert raw(aborted, version, ABORTED + 1)[1] == []


def test_the_answers_of_a_session_name_it_once_each(aborted):
    """A session (KIP-227) remembers what it told; every answer with records of the transaction names it."""
    by_own_client(aborted)
    link = aborted.node.link()
    opened, named = raw(aborted, 18, 0, link=link, session_epoch=0)
    assert opened.session_id
    assert len(named) == 1
    for epoch, offset in ((1, 3), (2, ABORTED - 1), (3, 0)):
        _, again = raw(aborted, 18, offset, link=link, session_id=opened.session_id, session_epoch=epoch)
        assert again == named
    _, behind = raw(aborted, 18, ABORTED + 1, link=link, session_id=opened.session_id, session_epoch=4)
    assert behind == []
