"""A cluster of three brokers for transactions that reach over all of them, and a producer of transactions v2 (KIP-890)."""

import time

from confluent_kafka import Consumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as Place

from stratalog.client.admin import create_topic
from stratalog.client.client import BrokerAway, Client
from stratalog.client.coordinators import GROUP, TRANSACTION, find_coordinator
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

SETTINGS = {
    "transaction.state.log.num.partitions": 6,
    "offsets.topic.num.partitions": 6,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
"""One copy of each partition: what a killed broker coordinates and leads waits for it."""
WAIT_SECONDS = 60

AGAIN = {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""Upon these a producer of Kafka's sends the request again."""


def until(condition, seconds=WAIT_SECONDS, what="it"):
    """The condition's value, once it is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} has not come within {seconds} s"
        time.sleep(0.05)
    return value


class InProcess:
    """Three nodes in this process: cheap, but they cannot be killed."""

    def __init__(self, directory):
        calm = {"broker.session.timeout.ms": 60_000, "controller.quorum.fetch.timeout.ms": 60_000}
        settings = {name: str(value) for name, value in {**SETTINGS, **calm}.items()}
        self.nodes = RunningNodes(
            directory, {100: "controller", 1: "broker", 2: "broker", 3: "broker"}, **settings
        ).start()
        self.bootstrap = ",".join(f"127.0.0.1:{self.nodes[node_id].port}" for node_id in (1, 2, 3))

    def stop(self):
        """All of them."""
        self.nodes.stop()


def _known(address, topic):
    """The topic as this broker has it. Raises UNKNOWN_TOPIC_OR_PARTITION until it has heard of it."""
    with Client(address, timeout_seconds=20) as client:
        return client.topic(topic)


class Brokers:
    """The cluster, with a topic of six partitions on all three brokers."""

    def __init__(self, cluster, partitions=6, topic="t", **configs):
        self.cluster = cluster
        self.topic = topic
        with self.client() as client:
            create_topic(client, topic, partition_count=partitions, configs=configs)
            for address in cluster.bootstrap.split(","):  # each broker has it with an image of its own
                self.patiently(lambda address=address: _known(address, topic))
            for key, kind in (("x", TRANSACTION), ("g", GROUP)):
                self.patiently(lambda key=key, kind=kind: find_coordinator(client, key, kind))

    def client(self):
        """A client of a moment: it knows nothing of before."""
        return Client(self.cluster.bootstrap, timeout_seconds=20)

    def patiently(self, attempt):
        """The result of an attempt, made again as a client would."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if error.code not in AGAIN or time.monotonic() > deadline:
                    raise
            except BrokerAway:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def coordinator(self, key, kind=TRANSACTION):
        """The node that coordinates a key."""

        def find():
            with self.client() as client:
                return find_coordinator(client, key, kind)

        return self.patiently(find)

    def key_at(self, node_id, kind=TRANSACTION):
        """A transactional id, or a group, that this node coordinates."""
        return next(f"key-{n}" for n in range(200) if self.coordinator(f"key-{n}", kind) == node_id)

    def leaders(self):
        """The leader of each partition."""
        with self.client() as client:
            return {one.partition: one.leader for one in client.topic(self.topic).partitions}

    def partition_at(self, node_id):
        """The first partition of the topic that this node leads."""
        return next(number for number, leader in sorted(self.leaders().items()) if leader == node_id)

    def back(self, *node_ids):
        """Nodes start again and serve."""
        self.cluster.start(*node_ids)
        self.cluster.wait_ready(3 * WAIT_SECONDS)

    def consumer(self, group="readers", **settings):
        """A reader of committed records."""
        return Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **settings,
            }
        )

    def committed(self, count, *partitions, seconds=WAIT_SECONDS):
        """The committed values of partitions of the topic, or of all: at least ``count`` are waited for, then no more come."""
        numbers = partitions or tuple(self.leaders())
        consumer = self.consumer()
        consumer.assign([Place(self.topic, number, 0) for number in numbers])
        values, deadline = [], time.monotonic() + seconds
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(message.value().decode())
        message = consumer.poll(0.7)
        while message is not None:
            if message.error() is None:
                values.append(message.value().decode())
            message = consumer.poll(0.7)
        consumer.close()
        return sorted(values)

    def offset_of(self, group):
        """The committed offset of partition 0; None while it is undecided."""
        consumer = self.consumer(group)
        try:
            return consumer.committed([Place(self.topic, 0)], timeout=10)[0].offset
        finally:
            consumer.close()

    def stable(self, *partitions):
        """Whether nothing is open in these partitions."""
        with self.client() as client:
            names = {TopicPartition(self.topic, number): -1 for number in partitions or self.leaders()}
            ends = client.list_offsets(names)
            return ends == client.list_offsets(names, read_committed=True)


class WireProducer:
    """A producer of transactions v2: partitions are added by Produce v12, offsets by TxnOffsetCommit v5."""

    def __init__(self, brokers, transactional_id, timeout_ms=60_000):
        self.brokers = brokers
        self.name = transactional_id
        self.timeout_ms = timeout_ms
        self.sequences = {}
        self.producer = None

    def init(self):
        answer = self._ask(
            InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self.timeout_ms),
            5,
            self._coordinator,
        )
        self._go_on(answer)
        return self

    def _go_on(self, answer):
        self.producer = Producer(answer.producer_id, answer.producer_epoch)
        self.sequences = {}

    def _coordinator(self, client):
        return find_coordinator(client, self.name, TRANSACTION)

    def _ask(self, request, version, place, codes_of=lambda answer: [answer.error_code]):
        def attempt():
            with self.brokers.client() as client:
                answer = client.link(place(client)).call(request, version)
            for code in codes_of(answer):
                if code:
                    raise KafkaError(ErrorCode(code))
            return answer

        return self.brokers.patiently(attempt)

    def write(self, number, *values, version=12):
        """Records in one partition; the batch is repeated with its sequence numbers until it stands."""
        sequence = self.sequences.get(number, 0)
        records = [Record(n, int(time.time() * 1000), None, value.encode()) for n, value in enumerate(values)]
        batch = build_batch(
            records,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=number, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self.brokers.topic, partition_data=[data])],
        )
        self._ask(
            request,
            version,
            lambda client: client.leader(TopicPartition(self.brokers.topic, number)),
            lambda answer: [one.error_code for topic in answer.responses for one in topic.partition_responses],
        )
        self.sequences[number] = sequence + len(values)

    def offsets(self, group, offset):
        """The offset of partition 0 for a group."""
        there = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.brokers.topic, partitions=[there])],
        )
        self._ask(
            request,
            5,
            lambda client: find_coordinator(client, group, GROUP),
            lambda answer: [one.error_code for topic in answer.topics for one in topic.partitions],
        )

    def end(self, *, commit=True, version=5):
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            committed=commit,
        )
        answer = self._ask(request, version, self._coordinator)
        if version >= 5:
            self._go_on(answer)

    def end_empty(self):
        """End a transaction without records: Kafka's own client sends an abort, or nothing."""
        self.end(commit=False)


class LibrdkafkaProducer:
    """librdkafka, a producer of transactions v1: it adds partitions itself (AddPartitionsToTxn), and brokers verify."""

    def __init__(self, brokers, transactional_id, timeout_ms=60_000):
        self.brokers = brokers
        settings = {
            "bootstrap.servers": brokers.cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
        self.producer = ConfluentProducer(settings)
        self.open = False

    def init(self):
        self.producer.init_transactions(60)
        return self

    def _begin(self):
        if not self.open:
            self.producer.begin_transaction()
            self.open = True

    def write(self, number, *values):
        self._begin()
        for value in values:
            self.producer.produce(self.brokers.topic, value.encode(), partition=number)
        assert self.producer.flush(60) == 0

    def offsets(self, group, offset):
        self._begin()
        consumer = self.brokers.consumer(group)
        self.producer.send_offsets_to_transaction(
            [Place(self.brokers.topic, 0, offset)], consumer.consumer_group_metadata(), 60
        )
        consumer.close()

    def end(self, *, commit=True):
        self._begin()
        self.open = False
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(60)

    def end_empty(self):
        self.end()


def everywhere(producer, word, partitions=range(6)):
    """A record in each partition; the values."""
    for number in partitions:
        producer.write(number, f"{word}-{number}")
    return [f"{word}-{number}" for number in partitions]


PRODUCERS = {"v1": LibrdkafkaProducer, "v2": WireProducer}
"""By the version of transactions."""
