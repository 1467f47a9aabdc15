"""Clients of a run: administrators that create, change and delete topics, and a writer with acks=all."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from bench.chaos.outcomes import Ledger, TopicTold, Written
from stratalog.client.client import Client
from stratalog.client.link import BrokerAway, BrokerLink
from stratalog.client.records import produce_batches
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from stratalog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID, TopicPartition

__all__ = ["LOAD_TOPIC", "Admin", "Writer"]

LOAD_TOPIC: Final = "load"
_RETENTION: Final = "retention.ms"
_TIMEOUT_SECONDS: Final = 10.0
_TOPIC: Final = 2
_OPEN: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""With these an answer says nothing of what became of the request."""


class Admin(threading.Thread):
    """One administrator, with topics of its own."""

    def __init__(self, number: int, ports: Callable[[], list[int]], ledger: Ledger, seed: int) -> None:
        super().__init__(name=f"admin-{number}", daemon=True)
        self._number = number
        self._ports = ports
        self._ledger = ledger
        self._dice = random.Random(seed * 1000 + number)
        self._link: BrokerLink | None = None
        self._count = 0
        self._mine: list[TopicTold] = []
        self.over = threading.Event()

    def run(self) -> None:
        """One request after the other."""
        while not self.over.is_set():
            kinds = [self._create] * 4 + ([self._configure] * 3 + [self._extend, self._delete] if self._mine else [])
            self._dice.choice(kinds)()
            self.over.wait(self._dice.random() * 0.05)
        self._drop()

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None

    def _ask(self, kind: str, request: Message) -> Any:
        """The answer; None if there is none."""
        try:
            if self._link is None or self._dice.random() < 0.05:
                self._drop()
                self._link = BrokerLink("127.0.0.1", self._dice.choice(self._ports()), timeout_seconds=_TIMEOUT_SECONDS)
                self._link.api_ranges()
            return self._link.call(request)
        except (BrokerAway, KafkaError):
            self._drop()
            self._ledger.count(f"{kind}: no answer")
            time.sleep(0.05)
            return None

    def _judged(self, kind: str, row: Any, told: TopicTold, *, done_before: ErrorCode | None = None) -> bool | None:
        """Whether a request was carried out; None if that is open. ``done_before``: refused because it was, before."""
        code = ErrorCode(row.error_code)
        if code is ErrorCode.NONE:
            self._ledger.count(f"{kind}: answered")
            return True
        if code in _OPEN:
            self._ledger.count(f"{kind}: open")
            return None
        if code is done_before:  # the broker has asked twice: the first attempt had lost its answer
            self._ledger.count(f"{kind}: repeated")
            return True
        self._ledger.count(f"{kind}: refused {code.name}")
        if code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_ALREADY_EXISTS}:
            self._ledger.odd(f"{kind} of {told.name}: {code.name} {row.error_message}")
        return False

    def _create(self) -> None:
        self._count += 1
        told = TopicTold(f"a{self._number}-{self._count}")
        partitions, retention = self._dice.randint(1, 4), str(self._dice.randint(10**8, 10**9))
        told.partition_counts, told.retentions = {partitions}, {retention}
        self._ledger.note(told)
        asked = CreatableTopic(
            name=told.name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=_RETENTION, value=retention)],
        )
        answer = self._ask("create", CreateTopicsRequest(topics=[asked]))
        done = None
        if answer is not None:
            row = answer.topics[0]
            done = self._judged("create", row, told, done_before=ErrorCode.TOPIC_ALREADY_EXISTS)
            if done and not row.error_code:
                told.topic_id = bytes(row.topic_id)
        told.exists = {True, False} if done is None else {done}
        if done:
            self._mine.append(told)

    def _configure(self) -> None:
        told = self._dice.choice(self._mine)
        retention = str(self._dice.randint(10**8, 10**9))
        change = AlterableConfig(name=_RETENTION, config_operation=0, value=retention)
        resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=told.name, configs=[change])
        answer = self._ask("configure", IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        done = None if answer is None else self._judged("configure", answer.responses[0], told)
        if done is not False:
            told.retentions = {retention} if done else {*told.retentions, retention}
        self._keep(told)

    def _extend(self) -> None:
        told = self._dice.choice(self._mine)
        (before,) = told.partition_counts
        if before >= 8:
            return
        topic = CreatePartitionsTopic(name=told.name, count=before + 1, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        answer = self._ask("extend", request)
        row = None if answer is None else answer.results[0]
        done = None if row is None else self._judged("extend", row, told, done_before=ErrorCode.INVALID_PARTITIONS)
        if done is not False:
            told.partition_counts = {before + 1} if done else {before, before + 1}
        self._keep(told)

    def _delete(self) -> None:
        told = self._dice.choice(self._mine)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=told.name, topic_id=ZERO_UUID)], timeout_ms=30_000)
        answer = self._ask("delete", request)
        row = None if answer is None else answer.responses[0]
        done = (
            None if row is None else self._judged("delete", row, told, done_before=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )
        told.exists = {True, False} if done is None else {not done}
        if done is not False:
            self._mine.remove(told)

    def _keep(self, told: TopicTold) -> None:
        """Leave a topic alone if something about it is open."""
        if not told.is_certain:
            self._mine.remove(told)


class Writer(threading.Thread):
    """Appends one record after the other, acks=all, each with a value of its own.

    A refusal leaves open whether a record is there: one that waits for its sync while the leader resigns is answered with
    NOT_LEADER_OR_FOLLOWER, as in Kafka, and may be in the log.
    """

    def __init__(self, bootstrap: str, partition_count: int, ledger: Ledger) -> None:
        super().__init__(name="writer", daemon=True)
        self._servers = bootstrap
        self._partition_count = partition_count
        self._ledger = ledger
        self.over = threading.Event()

    def run(self) -> None:
        """One record after the other."""
        client, number = self._client(), 0
        while not self.over.is_set():
            number += 1
            partition, value = number % self._partition_count, b"v%d" % number
            at = TopicPartition(LOAD_TOPIC, partition)
            batch = build_batch([Record(0, time.time_ns() // 1_000_000, None, value, ())])
            try:
                answer = produce_batches(client, {at: batch}, acks=-1, timeout_ms=5000)[at]
            except (BrokerAway, KafkaError, KeyError):
                self._ledger.count("produce: no answer")
                client.close()
                client = self._client()
                time.sleep(0.1)
                continue
            if answer.error_code:
                self._ledger.count(f"produce: refused {ErrorCode(answer.error_code).name}")
            else:
                self._ledger.written.append(Written(partition, answer.base_offset, value))
                self._ledger.count("produce: answered")
            time.sleep(0.005)
        client.close()

    def _client(self) -> Client:
        return Client(self._servers, 3.0)
