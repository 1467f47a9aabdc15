"""Exactly once: ``transfers -> balances`` while the broker is killed, at every step of a commit and of an abort.

Each transfer moves an amount between two accounts. A job reads transfers, writes both changes to ``balances`` and
commits how far it has read, all in one transaction; now and then it aborts one and does it again. Whatever happens to
the broker, a reader of committed records finds both changes of every transfer up to the committed offset, once.
"""

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from stratalog.broker.broker_link import BrokerLink
from stratalog.broker.client import Client
from stratalog.broker.client_admin import create_topic
from stratalog.broker.client_records import fetch, visible_records
from stratalog.metadata.coordination import Producer as Identity
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError, Retriable
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stratalog.wire.topic import TopicPartition as Name

HERE = Path(__file__).parent
TRANSFERS = 60_000
ACCOUNTS = 7
IN_ONE_TRANSACTION = 5
PARTITIONS = 2
POINTS = (
    "producer begun, not written",
    "partition added, not written",
    "partition added, nothing appended",
    "first batch appended",
    "offsets pending, not written",
    "end decided, not written",
    "decision written, not answered",
    "decision answered, no marker",
    "a marker on its way",
    "a marker written, not reported",
    "a marker reported",
    "pending offsets decided",
    "end complete, not written",
    "anything of a coordinator written",
    "anything of a coordinator answered",
)
SETTINGS = (
    "transaction.state.log.num.partitions=1",
    "offsets.topic.num.partitions=1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
    "group.initial.rebalance.delay.ms=0",
)


def changes(number):
    """What a transfer does: ``(partition, account, amount)`` twice."""
    dice = random.Random(number)
    source, target = dice.sample(range(ACCOUNTS), 2)
    amount = dice.randrange(1, 100)
    return [(source % PARTITIONS, source, -amount), (target % PARTITIONS, target, amount)]


class Server:
    """A broker on one port and one directory, started again and again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[str] | None = None

    def start(self, point: str | None = None, count: int = 0) -> None:
        """Start; at a point it will die."""
        command = [sys.executable, "-m", "stratalog"]
        if point is not None:
            command = [sys.executable, str(HERE / "broker_that_dies.py"), point, str(count)]
        command += ["serve", "--data", str(self.home / "data"), "--bucket", f"file://{self.home}/bucket"]
        command += ["--listen", self.address, "--http", "127.0.0.1:0"]
        for setting in SETTINGS:
            command += ["--set", setting]
        with (self.home / "stderr").open("a") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready ") and point is None:
            raise AssertionError((self.home / "stderr").read_text()[-3000:])

    def died(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
            self.process.stdout.close()
            return True
        return False

    def kill(self) -> None:
        """Now."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def server(tmp_path):
    """A server with both topics; ``transfers`` is filled."""
    one = Server(tmp_path)
    one.start()
    with Client(one.address) as client:
        create_topic(client, "transfers", partition_count=1, configs={})
        create_topic(client, "balances", partition_count=PARTITIONS, configs={})
    producer = Producer({"bootstrap.servers": one.address, "linger.ms": 20, "log_level": 0})
    for number in range(TRANSFERS):
        producer.produce("transfers", b"%d" % number, partition=0)
        if number % 5_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    yield one
    one.kill()


class Job:
    """The job in a thread of its own, until it is told to end. Subclasses speak one of the two protocols."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.commits = self.aborts = self.starts = 0
        self.ended = self.starts_over = False
        self.failure: BaseException | None = None
        self._dice = random.Random(1)
        self._thread = threading.Thread(target=self._main)
        self._thread.start()

    def _main(self) -> None:
        try:
            while not self.ended:
                self.starts += 1
                self.starts_over = False
                self.attempt()
        except BaseException as error:  # noqa: BLE001 - told by `end`
            self.failure = error

    def attempt(self) -> None:
        """Start and work; return when told to end, or to start over."""
        raise NotImplementedError

    def aborts_now(self) -> bool:
        """Whether this transaction shall be aborted."""
        return self._dice.random() < 0.25

    def end(self) -> None:
        """Finish the transaction that is going on."""
        self.ended = True
        self._thread.join(120)
        assert not self._thread.is_alive(), "the job does not end"
        if self.failure is not None:
            raise self.failure


class ClassicJob(Job):
    """librdkafka: partitions and offsets are added by requests of their own."""

    def attempt(self) -> None:
        settings = {
            "bootstrap.servers": self.address,
            "reconnect.backoff.max.ms": 200,
            "metadata.recovery.strategy": "none",  # else librdkafka waits for the broker object it has thrown away
            "log_level": 0,
        }
        consumer = Consumer(
            {**settings, "group.id": "job", "enable.auto.commit": False, "isolation.level": "read_committed"}
        )
        producer = Producer(
            {
                **settings,
                "transactional.id": "job",
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "transaction.timeout.ms": 20_000,
                "message.timeout.ms": 15_000,
            }
        )
        try:
            self._again(lambda: producer.init_transactions(30))
            self._work(consumer, producer)
        except KafkaException as error:
            assert error.args[0].fatal() or error.args[0].retriable() or "transaction" in str(error), error
        finally:
            consumer.close()

    def _again(self, call) -> None:
        """Repeat what may be repeated."""
        for _ in range(20):
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                time.sleep(0.05)
            else:
                return

    def _work(self, consumer, producer) -> None:
        source = TopicPartition("transfers", 0)
        position = None
        while not self.ended and not self.starts_over:
            if position is None:
                found = []
                self._again(lambda: found.append(consumer.committed([source], 10)[0]))  # noqa: B023
                position = max(found[-1].offset, 0)
                consumer.assign([TopicPartition("transfers", 0, position)])
            messages = [one for one in consumer.consume(IN_ONE_TRANSACTION, 2) if one.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            try:
                for message in messages:
                    for partition, account, amount in changes(int(message.value())):
                        value = b"%s %d %d" % (message.value(), account, amount)
                        producer.produce("balances", value, partition=partition)
                behind = [TopicPartition("transfers", 0, messages[-1].offset() + 1)]
                group = consumer.consumer_group_metadata()
                self._again(lambda: producer.send_offsets_to_transaction(behind, group, 20))  # noqa: B023
                if self.aborts_now():
                    self._again(lambda: producer.abort_transaction(20))
                    self.aborts += 1
                    position = None
                else:
                    self._again(lambda: producer.commit_transaction(20))
                    self.commits += 1
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._again(lambda: producer.abort_transaction(20))
                position = None


class Again(Exception):
    """The job must start over."""


class NewJob(Job):
    """Transactions v2 over the wire: no requests but Produce, TxnOffsetCommit and EndTxn."""

    def attempt(self) -> None:
        try:
            link = BrokerLink("127.0.0.1", int(self.address.rpartition(":")[2]), timeout_seconds=10)
        except Retriable:
            time.sleep(0.05)
            return
        try:
            self._work(link)
        except (Again, Retriable, KafkaError, OSError):
            time.sleep(0.02)
        finally:
            link.close()

    def _work(self, link) -> None:
        for key_type in (0, 1):
            link.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["job"]), 6)
        init = InitProducerIdRequest(transactional_id="job", transaction_timeout_ms=20_000)
        answer = self._checked(link.call(init, 5))
        me = Identity(answer.producer_id, answer.producer_epoch)
        position = self._committed(link)
        while not self.ended and not self.starts_over:
            self._produce(link, me, range(position, position + IN_ONE_TRANSACTION))
            self._commit_offset(link, me, position + IN_ONE_TRANSACTION)
            commit = not self.aborts_now()
            request = EndTxnRequest(
                transactional_id="job", producer_id=me.producer_id, producer_epoch=me.producer_epoch, committed=commit
            )
            answer = self._checked(link.call(request, 5))
            me = Identity(answer.producer_id, answer.producer_epoch)
            if commit:
                position += IN_ONE_TRANSACTION
                self.commits += 1
            else:
                self.aborts += 1

    def _checked(self, answer):
        if answer.error_code:
            raise Again(ErrorCode(answer.error_code).name)
        return answer

    def _produce(self, link, me, numbers) -> None:
        values = [[], []]
        for number in numbers:
            for partition, account, amount in changes(number):
                values[partition].append(b"%d %d %d" % (number, account, amount))
        data = []
        for partition, found in enumerate(values):
            if found:
                records = [Record(n, int(time.time() * 1000), None, value) for n, value in enumerate(found)]
                batch = build_batch(
                    records,
                    producer_id=me.producer_id,
                    producer_epoch=me.producer_epoch,
                    base_sequence=0,
                    transactional=True,
                )
                data.append(PartitionProduceData(index=partition, records=bytes(batch)))
        topic = TopicProduceData(name="balances", partition_data=data)
        request = ProduceRequest(transactional_id="job", acks=-1, timeout_ms=9_000, topic_data=[topic])
        for answered in link.call(request, 12).responses:
            for one in answered.partition_responses:
                self._checked(one)

    def _commit_offset(self, link, me, offset) -> None:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id="job",
            group_id="job",
            producer_id=me.producer_id,
            producer_epoch=me.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name="transfers", partitions=[partition])],
        )
        for topic in link.call(request, 5).topics:
            for one in topic.partitions:
                self._checked(one)

    def _committed(self, link) -> int:
        return max(committed_offset(link), 0)


def committed_offset(link) -> int:
    """How far the job has come, for good; raises `Again` while that is undecided."""
    topics = [OffsetFetchRequestTopics(name="transfers", partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id="job", topics=topics)
    (answer,) = link.call(OffsetFetchRequest(groups=[group], require_stable=True), 9).groups
    if answer.error_code or answer.topics[0].partitions[0].error_code:
        raise Again
    return answer.topics[0].partitions[0].committed_offset


def check(server) -> int:
    """The sums are exact; how many transfers were made."""
    link = BrokerLink("127.0.0.1", server.port, timeout_seconds=10)
    end = time.monotonic() + 30
    while True:
        try:
            done = max(committed_offset(link), 0)
            stable = [_ends(link, isolation) for isolation in (0, 1)]
            if stable[0] == stable[1]:
                break
        except Again:
            pass
        assert time.monotonic() < end, "a transaction hangs: the last stable offset does not move"
        time.sleep(0.05)
    link.close()
    found, balances = Counter(), Counter()
    with Client(server.address) as client:
        for partition in range(PARTITIONS):
            name, position = Name("balances", partition), 0
            while position < stable[0][partition]:
                (fetched,) = fetch(client, {name: position}, max_wait_ms=0)
                for next_offset, records in visible_records(fetched, position):
                    for record in records:
                        number, account, amount = (int(word) for word in record.value.split())
                        found[number, account, amount] += 1
                        balances[account] += amount
                    position = next_offset
    expected, sums = Counter(), Counter()
    for number in range(done):
        for _, account, amount in changes(number):
            expected[number, account, amount] += 1
            sums[account] += amount
    assert found == expected
    assert balances == sums
    assert sum(balances.values()) == 0
    return done


def _ends(link, isolation) -> list[int]:
    """The end of each partition of ``balances`` for readers of this isolation."""
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(PARTITIONS)]
    topic = ListOffsetsTopic(name="balances", partitions=partitions)
    answer = link.call(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic]), 5)
    return [one.offset for one in sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)]


def wait_for_progress(job, commits, aborts=0) -> None:
    """Until the job has done so much more."""
    goal, end = (job.commits + commits, job.aborts + aborts), time.monotonic() + 60
    while (job.commits < goal[0] or job.aborts < goal[1]) and job.failure is None:
        assert time.monotonic() < end, "the job does not get on"
        time.sleep(0.005)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [ClassicJob, NewJob], ids=["v1", "v2"])
def test_the_broker_dies_at_every_step(server, kind):
    """Of beginning, adding, committing and aborting: the sums are exact."""
    job = kind(server.address)
    dice = random.Random(7)
    wait_for_progress(job, 3, 1)
    server.kill()
    for point in POINTS:
        server.start(point, 1 if point.startswith("producer") else dice.randrange(2, 9))
        job.starts_over = point.startswith("producer")
        assert server.died(45), f"it never came to {point!r}"
        assert server.process.returncode == -signal.SIGKILL, (server.home / "stderr").read_text()[-3000:]
    server.start()
    wait_for_progress(job, 5, 2)
    job.end()
    assert check(server) >= job.commits * IN_ONE_TRANSACTION - IN_ONE_TRANSACTION * len(POINTS)
    assert job.commits > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [ClassicJob, NewJob], ids=["v1", "v2"])
def test_a_hundred_kills_at_any_moment(server, kind):
    """Two hundred over both protocols."""
    job = kind(server.address)
    dice = random.Random(11)
    for _ in range(100):
        time.sleep(dice.random() * 0.6)
        server.kill()
        server.start()
    wait_for_progress(job, 5, 1)
    job.end()
    assert check(server) > 0
