"""A producer at a steady rate that notes when each record was acknowledged: how long there was no acknowledgement."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaError, Message, Producer

__all__ = ["SteadyProducer", "longest_gap"]

_FLUSH_SECONDS: Final = 60.0


def longest_gap(acknowledged: list[float], since: float, until: float) -> float:
    """The longest time between acknowledgements from ``since`` to ``until``; one before and one behind bound it.

    Raises ``SystemExit`` if none was acknowledged in between.
    """
    before = [at for at in acknowledged if at < since][-1:]
    between = [at for at in acknowledged if since <= at <= until]
    if not between:
        raise SystemExit("no record was acknowledged")
    return max((later - earlier for earlier, later in pairwise([*before, *between])), default=0.0)


class SteadyProducer:
    """librdkafka, ``acks=all``, without batching; runs in a thread while the context is entered."""

    def __init__(self, bootstrap: str, topic: str, *, per_second: float = 500.0, size_bytes: int = 100) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
        self._topic, self._value, self._pause = topic, b"x" * size_bytes, 1 / per_second
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged: list[float] = []
        """When, by the monotonic clock."""
        self.latencies_ms: list[tuple[float, float]] = []
        """When a record was sent, and how long its acknowledgement took."""
        self.failures: list[str] = []
        self.sent = 0

    def __enter__(self) -> Self:
        self._producer.list_topics(self._topic, timeout=20)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Send no more; what is under way is waited for."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            left = self._producer.flush(_FLUSH_SECONDS)
            self.failures += ["it was left unsent"] * left

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            now = time.monotonic()
            if now < due:
                self._producer.poll(due - now)
                continue
            due += self._pause
            self._send(now)

    def _send(self, now: float) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            at = time.monotonic()
            if error is None:
                self.acknowledged.append(at)
                self.latencies_ms.append((now, (at - now) * 1e3))
            else:
                self.failures.append(str(error))

        self._producer.produce(self._topic, self._value, on_delivery=delivered)
        self.sent += 1

    def p99_ms(self, since: float, until: float) -> float:
        """The 99th percentile of the latencies of what was sent in this time, in milliseconds."""
        found = sorted(latency for sent, latency in self.latencies_ms if since <= sent <= until)
        return found[int(len(found) * 0.99)] if found else float("nan")
