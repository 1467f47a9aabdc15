"""An exactly-once job: copies the flights that left more than an hour late, in transactions that commit what was read.

Prints a line for each committed transaction: how many flights have been looked at, in this run. May be killed at any
moment: the next run fences the last one, whose open transaction is aborted, and goes on behind what was committed.
"""

from __future__ import annotations

import argparse
import json

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

__all__ = ["is_delayed", "main"]

LATE_MINUTES = 60
_FLIGHTS_PER_TRANSACTION = 4_000


def is_delayed(value: bytes) -> bool:
    """Whether a flight left more than an hour late; one that was cancelled did not."""
    delay = json.loads(value)["dep_delay"]
    return delay is not None and delay > LATE_MINUTES


class Copier:
    """Reads committed flights, writes delayed ones, commits both together."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._target = target
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "copier",
                "group.instance.id": "copier-1",  # the same member again, without waiting for the last one's session
                "session.timeout.ms": 6_000,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "copier", "queue.buffering.max.messages": 500_000}
        )
        self._producer.init_transactions(30)
        self._consumer.subscribe([source])
        self._ended: set[int] = set()
        self._looked_at = 0

    def run(self) -> None:
        """Copy until every partition is at its end."""
        while not self._ended or self._ended != {one.partition for one in self._consumer.assignment()}:
            messages = self._consumer.consume(_FLIGHTS_PER_TRANSACTION, timeout=0.5)
            flights = [message for message in messages if self._is_flight(message)]
            if flights:
                self._copy(flights)
        self._consumer.close()

    def _is_flight(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name for it
            raise KafkaException(error)
        number = message.partition()
        assert number is not None
        self._ended.add(number)
        return False

    def _copy(self, flights: list[Message]) -> None:
        producer = self._producer
        producer.begin_transaction()
        for flight in flights:
            value = flight.value()
            assert value is not None
            if is_delayed(value):
                number = flight.partition()
                assert number is not None
                producer.produce(self._target, value, flight.key(), number, timestamp=flight.timestamp()[1])
        producer.send_offsets_to_transaction(
            self._consumer.position(self._consumer.assignment()), self._consumer.consumer_group_metadata(), 30
        )
        producer.commit_transaction(30)
        self._looked_at += len(flights)
        print(self._looked_at, flush=True)


def main() -> None:
    """Copy from ``--source`` to ``--target``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    arguments = parser.parse_args()
    Copier(arguments.bootstrap, arguments.source, arguments.target).run()


if __name__ == "__main__":
    main()
