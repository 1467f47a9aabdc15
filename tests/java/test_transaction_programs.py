"""Transactions of Kafka's own client, and what kafka-transactions tells and does about them."""

from __future__ import annotations

import re
import time

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.client.client import Client
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

COPIER = "TransactionalMessageCopier"
COMMAND = "TransactionsCommand"
PARTITIONS = 2
RECORDS = 3000


@pytest.fixture(scope="module")
def broker(kafka, serve):
    """A broker that takes the batches of old clients with a bug."""
    return serve("group.initial.rebalance.delay.ms=0", "transaction.partition.verification.enable=false")


@pytest.fixture(scope="module")
def create(broker):
    """Creates a topic."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    return lambda name, partitions=PARTITIONS: admin.create_topics([NewTopic(name, partitions)])[name].result(60)


@pytest.fixture
def transactions(kafka, broker):
    """Runs kafka-transactions; it must end well, and the rows of what it printed are returned."""

    def run(*arguments: str) -> list[dict[str, str]]:
        said = kafka.run(COMMAND, "--bootstrap-server", broker.address, *arguments).ok().splitlines()
        names = [name.strip() for name in said[0].split("\t")] if said else []
        return [dict(zip(names, (cell.strip() for cell in line.split("\t")), strict=True)) for line in said[1:]]

    return run


def committed(broker, topic: str) -> list[list[str]]:
    """The committed values of each partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    values: list[list[str]] = [[] for _ in range(PARTITIONS)]
    ended = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None, "neither a record nor the end of a partition came"
        if message.error():
            ended.add(message.partition())
        else:
            values[message.partition()].append(message.value().decode())
    consumer.close()
    return values


@pytest.mark.parametrize("options", [["--use-group-metadata"], []], ids=["group-metadata", "group-id"])
def test_a_copy_with_aborts_and_kills_is_exact(background, broker, clients, create, until, request, options) -> None:
    """Two copiers of one group abort a third of their transactions; one is killed, then the broker: each record once."""
    name = request.node.callspec.id
    source, copy = f"source-{name}", f"copy-{name}"
    create(source)
    create(copy)
    values = [[f"{number}-{n}" for n in range(RECORDS)] for number in range(PARTITIONS)]
    clients.load(
        broker.address, "none", [(source, n, value.encode(), 0) for n in range(PARTITIONS) for value in values[n]]
    )

    def copier(number: int):
        return background(
            COPIER, "--broker-list", broker.address, "--input-topic", source, "--input-partition", "-1",
            "--output-topic", copy, "--consumer-group", f"copiers-{name}", "--transactional-id", f"{name}-{number}",
            "--transaction-size", "40", "--enable-random-aborts", "--group-mode", *options,
        )  # fmt: skip

    def copied() -> int:
        return sum(map(len, committed(broker, copy)))

    def go_on() -> bool:
        """A copier that has nothing more to do ends; another one takes what the other left."""
        for number, one in enumerate(copiers):
            if one.process.poll() is not None:
                one.end().ok()
                copiers[number] = copier(number)
        return copied() == PARTITIONS * RECORDS

    copiers = [copier(0), copier(1)]
    until(lambda: copied() > RECORDS / 4)
    copiers[0].kill()
    copiers[0] = copier(0)
    until(lambda: copied() > RECORDS)
    broker.kill()
    broker.start()
    until(go_on)
    assert committed(broker, copy) == values


def hang(broker, topic: str) -> None:
    """Write a batch of a transaction that no coordinator knows, an hour ago, as an old client with a bug may do."""
    batch = build_batch(
        [Record(offset=0, timestamp_ms=int((time.time() - 3600) * 1000), key=None, value=b"lost", headers=())],
        producer_id=999_999,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])]
    request = ProduceRequest(transactional_id="forgotten", acks=-1, timeout_ms=10_000, topic_data=data)
    with Client(broker.address) as client:
        (answer,) = client.link().call(request, version=8).responses
    assert answer.partition_responses[0].error_code == 0


def test_transactions_are_listed_described_and_aborted(kafka, broker, clients, create, transactions) -> None:
    """list, describe, describe-producers; find-hanging finds only what the coordinator does not know; abort ends it."""
    create("open")
    producer = clients.producer(broker.address, transactional_id="mine", transaction_timeout_ms=600_000)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("open", b"1", partition=1)
    producer.flush(60)
    hang(broker, "open")
    (row,) = [row for row in transactions("list") if row["TransactionalId"] == "mine"]
    assert (row["Coordinator"], row["TransactionState"]) == ("1", "Ongoing")
    (described,) = transactions("describe", "--transactional-id", "mine")
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", "open-1")
    assert described["ProducerId"] == row["ProducerId"]
    assert described["TransactionTimeoutMs"] == "600000"
    (state,) = transactions("describe-producers", "--topic", "open", "--partition", "1")
    assert (state["ProducerId"], state["LastSequence"]) == (row["ProducerId"], "0")
    assert state["CurrentTransactionStartOffset"] == "0"
    (hanging,) = transactions("find-hanging", "--topic", "open", "--max-transaction-timeout", "0")
    assert (hanging["Topic"], hanging["Partition"], hanging["ProducerId"]) == ("open", "0", "999999")
    assert hanging["StartOffset"] == "0"
    assert int(hanging["Duration(min)"]) in (59, 60, 61)
    clients.load(broker.address, "none", [("open", 0, b"behind", 0)])
    assert committed(broker, "open") == [[], []]
    transactions("abort", "--topic", "open", "--partition", "0", "--start-offset", "0")
    assert committed(broker, "open") == [["behind"], []]
    assert transactions("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0") == []
    producer.commit_transaction(60)
    assert committed(broker, "open") == [["behind"], ["1"]]
    (described,) = transactions("describe", "--transactional-id", "mine")
    assert described["TransactionState"] in ("CompleteCommit", "PrepareCommit")
    refused = kafka.run(COMMAND, "--bootstrap-server", broker.address, "describe", "--transactional-id", "absent")
    assert "the ID could not be found" in refused.refused()


def test_a_transaction_is_ended_by_force(broker, clients, create, transactions) -> None:
    """forceTerminateTransaction aborts what is open, and its producer is fenced."""
    create("forced")
    producer = clients.producer(broker.address, transactional_id="stuck", transaction_timeout_ms=600_000)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("forced", b"1", partition=0)
    producer.flush(60)
    clients.load(broker.address, "none", [("forced", 0, b"behind", 0)])
    assert committed(broker, "forced") == [[], []]
    transactions("forceTerminateTransaction", "--transactionalId", "stuck")
    assert committed(broker, "forced") == [["behind"], []]
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(60)
    assert fenced.value.args[0].fatal()


def test_the_coordinators_log_is_dumped(kafka, broker) -> None:
    """kafka-dump-log --transaction-log-decoder reads every record of it."""
    files = [path for path in broker.files(".log", partition="__transaction_state-*") if path.stat().st_size]
    said = kafka.dump(files, "--transaction-log-decoder").clean().text
    states = set(re.findall(r'"transactionStatus":(\d+)', said))
    assert {"0", "1", "2", "3", "4", "5"} <= states, states


def test_committed_records_behind_an_aborted_transaction_over_many_objects(kafka, serve, clients) -> None:
    """kafka-console-consumer, read_committed, twice: the second time every chunk is cached, so that answers cross objects."""
    broker = serve("log.retention.check.interval.ms=200")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "2000", "local.retention.bytes": "0"}
    admin.create_topics([NewTopic("many", 1, config={**configs, "retention.ms": "-1"})])["many"].result(60)
    producer = clients.producer(broker.address, transactional_id="many", linger_ms=0)
    producer.init_transactions(60)
    for count, end in ((40, producer.abort_transaction), (10, producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(count):
            producer.produce("many", b"%d of %d " % (number, count) + b"." * 300, partition=0)
            producer.flush(60)
        end(60)
    plain = clients.producer(broker.address, linger_ms=0)
    for _ in range(8):  # so that the segments of the transactions are frozen
        plain.produce("many", b"plain" + b"." * 300, partition=0)
        plain.flush(60)
    end_seconds = time.monotonic() + 60
    while any(int(path.stem) < 52 for path in broker.files(".log", partition="many-0")):
        assert time.monotonic() < end_seconds, "the transactions were not evicted"
        time.sleep(0.2)
    for _ in range(2):
        rows = kafka.run(
            "consumer.ConsoleConsumer", "--bootstrap-server", broker.address, "--topic", "many", "--partition", "0",
            "--offset", "0", "--max-messages", "18", "--timeout-ms", "20000", "--isolation-level", "read_committed",
        ).ok().splitlines()  # fmt: skip
        assert [row.rstrip(".") for row in rows] == [f"{number} of 10 " for number in range(10)] + ["plain"] * 8
