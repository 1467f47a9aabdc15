"""Transactions of librdkafka through confluent-kafka."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

SETTINGS = {
    "group_initial_rebalance_delay_ms": 0,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 50,
    "transaction_state_log_num_partitions": 3,
    "offsets_topic_num_partitions": 3,
}


@pytest.fixture(scope="module")
def broker(start_shared_node):
    """One broker for all tests of this file."""
    node = start_shared_node(**SETTINGS)
    node.create("input", 1)
    return node


@pytest.fixture
def topic(broker, request):
    """A topic of its own for each test, of two partitions."""
    name = f"t{abs(hash(request.node.nodeid)) % 10**9}"
    broker.create(name, 2)
    return name


def new_producer(broker, transactional_id, **options):
    return Producer(
        {
            "bootstrap.servers": broker.address,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "transaction.timeout.ms": 60_000,
            **options,
        }
    )


def started(broker, transactional_id, **options):
    """A producer that may begin transactions."""
    producer = new_producer(broker, transactional_id, **options)
    producer.init_transactions(20)
    return producer


def settled(broker):
    """Wait for the markers, which follow the answer to a commit."""

    def complete():
        drivers = broker.node.transactions.drivers()
        return not any(one.status.ending for driver in drivers for one in driver.shard.transactions.values())

    broker.wait_until(complete)


def read(broker, topic, partition=0, *, isolation="read_committed"):
    """The values that a consumer sees in a partition, up to the end of the partition that it gets."""
    settled(broker)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values = []
    while True:
        message = consumer.poll(20)
        assert message is not None, "neither a record nor the end of the partition"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return values
        values.append(message.value())


def committed(broker, group, topic, partition=0):
    """The committed offset of a group."""
    settled(broker)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, "enable.auto.commit": False})
    (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=20)
    consumer.close()
    return found.offset


def test_commits_are_seen_and_aborts_are_not(broker, topic):
    """In both partitions, by consumers that read committed records; the others see all."""
    producer = started(broker, topic)
    for number, end in enumerate(["commit", "abort", "commit"]):
        producer.begin_transaction()
        for partition in (0, 1):
            for n in range(5):
                producer.produce(topic, f"{number} {end} {n}", partition=partition)
        producer.flush(20)
        (producer.commit_transaction if end == "commit" else producer.abort_transaction)(20)
    for partition in (0, 1):
        seen = read(broker, topic, partition)
        assert seen == [f"{number} commit {n}".encode() for number in (0, 2) for n in range(5)]
        assert len(read(broker, topic, partition, isolation="read_uncommitted")) == 15


@pytest.mark.story
def test_an_open_transaction_holds_back_what_follows_it(broker, topic):
    """Committed readers stop before the first record of an open transaction."""
    first, second = started(broker, f"{topic}-1"), started(broker, f"{topic}-2")
    for producer, value in ((first, "open"), (second, "behind")):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(20)
    second.commit_transaction(20)
    assert read(broker, topic) == []
    assert read(broker, topic, isolation="read_uncommitted") == [b"open", b"behind"]
    first.abort_transaction(20)
    assert read(broker, topic) == [b"behind"]


def test_offsets_of_a_transaction_count_when_it_commits(broker, topic):
    """Exactly-once from ``input`` to the topic: sent offsets are seen after the commit, not after an abort."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "enable.auto.commit": False})
    consumer.subscribe([topic])
    producer = started(broker, topic)
    for offset, end in ((7, "abort"), (3, "commit"), (9, "abort")):
        producer.begin_transaction()
        producer.produce("input", b"copied", partition=0)
        while not consumer.assignment():
            consumer.poll(0.1)
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 20)
        (producer.commit_transaction if end == "commit" else producer.abort_transaction)(20)
        producer.flush(20)
        assert committed(broker, topic, topic) == (-1001 if offset == 7 else 3)
    consumer.close()


@pytest.mark.story
@pytest.mark.parametrize("stage", ["begun", "produced", "offsets sent", "committing", "aborting"])
def test_a_second_producer_fences_the_first_at_every_stage(broker, topic, stage):
    """The first one's commit or abort fails as fenced, and no record or offset of its transaction is ever seen."""
    first = started(broker, topic)
    first.begin_transaction()
    if stage != "begun":
        first.produce(topic, b"zombie", partition=0)
        first.flush(20)
    if stage == "offsets sent":
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic})
        first.send_offsets_to_transaction([TopicPartition("input", 0, 1)], consumer.consumer_group_metadata(), 20)
        consumer.close()
    second = started(broker, topic)
    if stage == "begun":
        first.produce(topic, b"zombie", partition=0)
    end = first.abort_transaction if stage == "aborting" else first.commit_transaction
    with pytest.raises(KafkaException) as fenced:
        end(20)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    second.begin_transaction()
    second.produce(topic, b"heir", partition=0)
    second.commit_transaction(20)
    assert read(broker, topic) == [b"heir"]
    assert committed(broker, topic, "input") == -1001


@pytest.mark.story
def test_a_transaction_that_takes_too_long_is_aborted(broker, topic):
    """By the coordinator; readers go on, and its producer learns of it."""
    slow = started(broker, f"{topic}-slow", **{"transaction.timeout.ms": 1_000, "message.timeout.ms": 1_000})
    slow.begin_transaction()
    slow.produce(topic, b"late", partition=0)
    slow.flush(20)
    quick = started(broker, f"{topic}-quick")
    quick.begin_transaction()
    quick.produce(topic, b"in time", partition=0)
    quick.commit_transaction(20)
    partition = broker.partition(topic, 0).partition
    broker.wait_until(lambda: partition.last_stable_offset == partition.log.log_end_offset)
    assert read(broker, topic) == [b"in time"]
    with pytest.raises(KafkaException) as late:
        slow.commit_transaction(20)
    assert late.value.args[0].fatal() or late.value.args[0].txn_requires_abort()


@pytest.mark.story
def test_many_short_transactions_of_one_producer(broker, topic):
    """Each waits for the end of the one before, none is refused."""
    producer = started(broker, topic)
    for number in range(50):
        producer.begin_transaction()
        producer.produce(topic, str(number), partition=number % 2)
        producer.commit_transaction(20)
    seen = [int(value) for partition in (0, 1) for value in read(broker, topic, partition)]
    assert sorted(seen) == list(range(50))


def test_a_waiting_reader_is_woken_by_the_end(broker, topic):
    """A fetch that waits longer than the test does is answered when the marker stands."""
    producer = started(broker, topic)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    producer.flush(20)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 60_000,
            "socket.timeout.ms": 90_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(1) is None
    producer.commit_transaction(20)
    message = consumer.poll(25)
    assert message is not None
    assert message.value() == b"v"
    consumer.close()


@pytest.mark.story
def test_a_restart_in_the_middle_of_a_transaction(start_node):
    """The producer goes on after it, and commits what it wrote before and behind."""
    broker = start_node(listeners="PLAINTEXT://127.0.0.1:0", **SETTINGS)
    broker.create("t", 1)
    producer = started(broker, "x", **{"metadata.recovery.strategy": "none", "log_level": 0})
    producer.begin_transaction()
    producer.produce("t", b"before", partition=0)
    producer.flush(20)
    broker.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{broker.port}"
    broker.restart()
    producer.produce("t", b"behind", partition=0)
    producer.commit_transaction(30)
    assert read(broker, "t") == [b"before", b"behind"]
