"""Transactional producers that commit and abort, and readers of what is committed."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from bench.faults.answers import Acknowledged, Found
from bench.faults.reading import CLIENT, LiveReader, live_faults, read_topic
from bench.faults.workloads import make_topic

__all__ = ["Outcome", "Transactional", "transaction_faults"]

TOPIC: Final = "transfers"
PARTITIONS: Final = 3
PRODUCERS: Final = 2
ABORTED: Final = 0.3
CALL_SECONDS: Final = 8.0
END_SECONDS: Final = 120.0


class Outcome(Enum):
    """The end of a transaction as its producer was answered."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    """No answer: either, but as a whole."""


class _Teller:
    """One transactional id. Each record is ``id:transaction:number``."""

    def __init__(
        self, bootstrap: str, number: int, told: Acknowledged, dice: random.Random, over: threading.Event
    ) -> None:
        self.name = f"teller-{number}"
        self.outcomes: dict[int, Outcome] = {}
        self.sizes: dict[int, int] = {}
        self.failures: list[str] = []
        self.unsent: dict[int, set[int]] = defaultdict(set)
        """The numbers of records by transaction for which the client has told an error."""
        self.reports: dict[int, dict[int, str]] = defaultdict(dict)
        """The client's report on each record, by transaction and number."""
        self._bootstrap, self._told, self._dice, self._over = bootstrap, told, dice, over
        self._delivered: list[tuple[int, int, bytes]] = []
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def _run(self) -> None:
        producer: Producer | None = None
        count = 0
        while not self._over.is_set():
            try:
                if producer is None:
                    producer = self._begun()
                    continue
                count += 1
                self._transact(producer, count)
            except KafkaException as error:
                producer = self._given_up(producer, error.args[0])
            except KafkaError as error:  # raised by flush, as it is
                producer = self._given_up(producer, error)
            except SystemError as error:  # confluent-kafka 2.16: flush in a producer that a fatal error ends meanwhile
                self.failures.append(str(error))
                producer = None

    def _begun(self) -> Producer | None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": 20_000,
                "request.timeout.ms": 5000,
                "message.timeout.ms": 20_000,
                "retry.backoff.ms": 50,
                "linger.ms": 2,
                **CLIENT,
            }
        )
        while not self._over.is_set():
            try:
                producer.init_transactions(CALL_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return producer
        return None

    def _transact(self, producer: Producer, count: int) -> None:
        self.outcomes[count] = Outcome.OPEN
        self._delivered.clear()
        producer.begin_transaction()
        size = self.sizes[count] = self._dice.randint(1, 8)
        for number in range(size):
            value = f"{self.name}:{count}:{number}".encode()
            producer.produce(TOPIC, value, partition=self._dice.randrange(PARTITIONS), on_delivery=self._taken)
        producer.poll(self._dice.random() * 0.05)
        commits = self._dice.random() >= ABORTED
        if not commits:  # an abort that overtakes AddPartitionsToTxn ends the producer: librdkafka's issue 4849
            producer.flush(CALL_SECONDS)
        while True:
            try:
                (producer.commit_transaction if commits else producer.abort_transaction)(CALL_SECONDS)
            except KafkaException as error:
                told: Any = error.args[0]
                if told.txn_requires_abort():
                    commits = False
                    continue
                if not told.retriable() or self._over.is_set():
                    raise
            else:
                break
        self.outcomes[count] = Outcome.COMMITTED if commits else Outcome.ABORTED
        if commits:
            for delivered in self._delivered:
                self._told.note(*delivered)

    def _taken(self, error: Any, message: Any) -> None:
        count, number = (int(part) for part in message.value().decode().split(":")[1:])
        place = f"partition {message.partition()}, offset {message.offset()}"
        self.reports[count][number] = f"at {place}" if error is None else f"{error.name()} for {place}"
        if error is None:
            self._delivered.append((message.partition(), message.offset(), message.value()))
        else:  # librdkafka may purge a record of the next transaction with those that it aborts, and commits without it
            self.unsent[count].add(number)

    def _given_up(self, producer: Producer | None, error: Any) -> Producer | None:
        """The producer to go on with: another one after an error that ends this one."""
        if producer is None or error.fatal():
            self.failures.append(str(error))
            time.sleep(0.2)
            return None
        if error.txn_requires_abort():
            while not self._over.is_set():
                try:
                    producer.abort_transaction(CALL_SECONDS)
                except KafkaException as failed:
                    if not failed.args[0].retriable():
                        return None
                else:
                    return producer
        return None


class Transactional:
    """Producers with transactional ids of their own over one topic."""

    name = "transactions"

    def __init__(self, bootstrap: str, dice: random.Random) -> None:
        self.topics = {TOPIC: PARTITIONS}
        self.told = Acknowledged()
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._tellers = [
            _Teller(bootstrap, number, self.told, random.Random(dice.random()), self._over)
            for number in range(PRODUCERS)
        ]
        self._reader: LiveReader | None = None

    def start(self) -> None:
        """Make the topic and begin."""
        make_topic(self._bootstrap, TOPIC, PARTITIONS, {})
        self._reader = LiveReader(self._bootstrap, TOPIC, PARTITIONS, "read_committed")
        for teller in self._tellers:
            teller.thread.start()

    def end(self) -> list[str]:
        """End after one more transaction of each producer, which shows that they can go on."""
        deadline = time.monotonic() + END_SECONDS
        stuck = []
        for teller in self._tellers:
            begun = len(teller.outcomes)
            while time.monotonic() < deadline and not any(
                outcome is not Outcome.OPEN for number, outcome in list(teller.outcomes.items()) if number > begun
            ):
                time.sleep(0.1)
            if time.monotonic() >= deadline:
                stuck.append(
                    f"{teller.name} has ended no transaction {END_SECONDS:g} s after the last fault: {teller.failures[-1:]}"
                )
        self._over.set()
        for teller in self._tellers:
            teller.thread.join(30)
        if self._reader is not None:
            self._reader.end()
        return stuck

    def faults(self) -> Iterator[str]:
        """Transactions whose records, as committed readers find them, are others than their producers were answered."""
        self._finish()
        found, _, _ = read_topic(self._bootstrap, TOPIC, PARTITIONS, isolation="read_committed")
        outcomes = {(one.name, number): outcome for one in self._tellers for number, outcome in one.outcomes.items()}
        sizes = {(one.name, number): size for one in self._tellers for number, size in one.sizes.items()}
        unsent = {(one.name, number): gone for one in self._tellers for number, gone in one.unsent.items()}
        reports = {(one.name, number): told for one in self._tellers for number, told in one.reports.items()}
        yield from transaction_faults(outcomes, sizes, found, unsent=unsent, reports=reports)
        if self._reader is not None:
            yield from self._reader.errors[:3]
            yield from live_faults(self._reader.found, found)

    def _finish(self) -> None:
        """End the transactions that their producers left open: a new producer of the same id does (KIP-98)."""
        for teller in self._tellers:
            producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": teller.name, **CLIENT})
            producer.init_transactions(60)


def transaction_faults(
    outcomes: dict[tuple[str, int], Outcome],
    sizes: dict[tuple[str, int], int],
    found: dict[int, list[Found]],
    *,
    unsent: Mapping[tuple[str, int], Collection[int]] | None = None,
    reports: Mapping[tuple[str, int], Mapping[int, str]] | None = None,
) -> Iterator[str]:
    """All records of a committed transaction are there once and in order; none of an aborted one; all or none of an open one.

    ``unsent`` are those for which the client itself has told an error: they may be missing. ``reports`` are its words for each.
    """
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for partition, records in found.items():
        last: dict[str, tuple[int, int]] = {}
        for one in records:
            name, count, number = (one.value or b"").decode().split(":")
            place = int(count), int(number)
            if place <= last.get(name, (-1, -1)):
                yield f"partition {partition}: {one.value!r} at offset {one.offset} was read after {last[name]}"
            last[name] = place
            seen[name, int(count)].append(int(number))
    for transaction, outcome in outcomes.items():
        numbers = sorted(seen.pop(transaction, []))
        may_miss = set((unsent or {}).get(transaction, ())) - set(numbers)
        whole = [number for number in range(sizes.get(transaction, 0)) if number not in may_miss]
        if outcome is Outcome.COMMITTED and numbers != whole:
            told = dict((reports or {}).get(transaction, {}))
            yield f"{transaction} was committed with {len(whole)} records, and readers find {numbers}; the client said {told}"
        elif outcome is Outcome.ABORTED and numbers:
            yield f"{transaction} was aborted, and readers find {numbers}"
        elif outcome is Outcome.OPEN and numbers not in ([], whole):
            yield f"{transaction} with {len(whole)} records is there in part: {numbers}"
    yield from (f"{transaction} was never begun, and readers find {numbers}" for transaction, numbers in seen.items())
