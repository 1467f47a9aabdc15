"""The job ``transfers -> balances`` in a thread of its own, over either protocol of transactions."""

import random
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from stratalog.client.link import BrokerLink
from stratalog.metadata.coordination import Producer as Identity
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError, Retriable
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ACCOUNTS = 7
IN_ONE_TRANSACTION = 5
PARTITIONS = 2


def changes(number):
    """A transfer: ``(partition, account, amount)`` twice."""
    dice = random.Random(number)
    source, target = dice.sample(range(ACCOUNTS), 2)
    amount = dice.randrange(1, 100)
    return [(source % PARTITIONS, source, -amount), (target % PARTITIONS, target, amount)]


def committed_offset(link) -> int:
    """How far the job has come, for good; raises `Again` while that is undecided."""
    topics = [OffsetFetchRequestTopics(name="transfers", partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id="job", topics=topics)
    (answer,) = link.call(OffsetFetchRequest(groups=[group], require_stable=True), 9).groups
    if answer.error_code or answer.topics[0].partitions[0].error_code:
        raise Again
    return answer.topics[0].partitions[0].committed_offset


class Job:
    """The job in a thread of its own, until it has to end. Subclasses speak one of the two protocols."""

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
        """Whether this transaction is aborted."""
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
