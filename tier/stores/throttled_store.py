"""A byte rate for a store: a token bucket shared by threads, and the store that obeys it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.store import ObjectStore
from stratalog.tier.stores.wrappers import Call, StoreWrapper, received_bytes

__all__ = ["ThrottledStore", "TokenBucket"]

T = TypeVar("T")


class TokenBucket:
    """A byte rate shared by threads: ``bytes_per_second`` on average, up to ``burst_bytes`` at once.

    Callers reserve in turn and wait until their share has come in, so a request larger than the burst passes too.
    """

    def __init__(
        self, bytes_per_second: float, *, burst_bytes: int | None = None, timing: Timing | None = None
    ) -> None:
        self._rate = bytes_per_second
        self._burst = bytes_per_second if burst_bytes is None else float(burst_bytes)
        self._timing = timing or Timing()
        self._lock = threading.Lock()
        self._balance = self._burst
        self._filled_s = self._timing.now_s()

    def set_rate(self, bytes_per_second: float) -> None:
        """Change the rate; debts already made are paid at the new one."""
        with self._lock:
            self._fill()
            self._rate = bytes_per_second

    def spend(self, size_bytes: int) -> float:
        """Take ``size_bytes`` off the balance and return for how many seconds the caller should wait."""
        with self._lock:
            self._fill()
            self._balance -= size_bytes
            return max(0.0, -self._balance / self._rate)

    def take(self, size_bytes: int) -> None:
        """Take ``size_bytes`` and wait until they are covered."""
        wait_s = self.spend(size_bytes)
        if wait_s:
            self._timing.sleep_s(wait_s)

    def _fill(self) -> None:
        now_s = self._timing.now_s()
        self._balance = min(self._burst, self._balance + (now_s - self._filled_s) * self._rate)
        self._filled_s = now_s


class ThrottledStore(StoreWrapper):
    """Holds writes to one byte rate and reads to another; ``None`` leaves them free.

    The rate is smooth on the scale of whole requests. Answers of unknown size are paid for by the next request.
    """

    def __init__(
        self, inner: ObjectStore, *, writes: TokenBucket | None = None, reads: TokenBucket | None = None
    ) -> None:
        super().__init__(inner)
        self._writes = writes
        self._reads = reads

    def _around(self, call: Call, run: Callable[[], T]) -> T:
        if call.sent_bytes and self._writes is not None:
            self._writes.take(call.sent_bytes)
        if self._reads is None or not call.operation.startswith("get"):
            return run()
        self._reads.take(call.asked_bytes)
        result = run()
        self._reads.spend(received_bytes(result) - call.asked_bytes)
        return result
