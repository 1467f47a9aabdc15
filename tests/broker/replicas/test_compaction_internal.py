"""The broker's own compacted topics: committed offsets and transactions are what they were, cleaned or not."""

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

QUIET = {"log_level": 0}


@pytest.fixture
def broker(start_node):
    """It cleans when a test says so; one partition for each coordinator."""
    return start_node(
        log_cleaner_backoff_ms=3_600_000,
        log_cleaner_min_cleanable_ratio="0.01",
        log_cleaner_delete_retention_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    )


def clean(broker, topic: str) -> tuple[int, int]:
    """Roll and clean a topic; bytes before and after."""
    log = broker.partition(topic).log
    broker.run(log.roll)
    before = log.size_bytes
    compaction = broker.node.compaction
    cleanings = compaction.cleanings

    def cleaned() -> bool:
        done = compaction.cleanings > cleanings and compaction.idle
        if not done:
            compaction.look()
        return bool(done)

    broker.wait_until(cleaned)
    return before, log.size_bytes


def committed(broker, group: str) -> int:
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition("t", 0)])
    admin = AdminClient({"bootstrap.servers": broker.address, **QUIET})
    found = admin.list_consumer_group_offsets([wanted])
    return found[group].result(30).topic_partitions[0].offset


def test_committed_offsets_survive_the_cleaner_and_a_restart(broker):
    """One of three hundred commits is left for each group; deleted groups stay deleted."""
    broker.create("t")
    broker.produce("t", *[b"v"] * 200)
    for group in ("a", "b", "gone"):
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, **QUIET})
        for offset in range(100):
            consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        consumer.close()
    admin = AdminClient({"bootstrap.servers": broker.address, **QUIET})
    admin.delete_consumer_groups(["gone"])["gone"].result(30)
    before, after = clean(broker, "__consumer_offsets")
    assert after < before / 10
    broker.restart()
    assert [committed(broker, group) for group in ("a", "b", "gone")] == [99, 99, -1001]


@pytest.mark.story
def test_transactions_survive_the_cleaner_and_a_restart(broker):
    """Committed records are read, aborted ones are not; the same transactional id goes on and fences its past."""
    broker.create("t", cleanup_policy="compact", internal_segment_bytes=20_000)
    options = {"bootstrap.servers": broker.address, "transactional.id": "x", **QUIET}
    producer = Producer(options)
    producer.init_transactions(30)
    for number in range(30):
        producer.begin_transaction()
        producer.produce("t", b"%d" % number, b"key-%d" % (number % 5), 0)
        producer.produce("t", b"void" if number % 3 == 0 else b"kept", b"last", 0)
        if number % 3 == 0:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    expected = {record.key: record.value for record in broker.read("t")}
    assert expected[b"last"] == b"kept"
    before, after = clean(broker, "__transaction_state")
    assert after < before
    before, after = clean(broker, "t")
    assert after < before
    assert {record.key: record.value for record in broker.read("t")} == expected
    broker.restart()
    assert {record.key: record.value for record in broker.read("t")} == expected
    following = Producer({**options, "bootstrap.servers": broker.address})
    following.init_transactions(30)
    following.begin_transaction()
    following.produce("t", b"new", b"last", 0)
    following.commit_transaction(30)
    assert {record.key: record.value for record in broker.read("t")}[b"last"] == b"new"
