"""A store that fails on purpose, for tests and fault campaigns: rules say where, how and how often.

Faults are those that real stores showed: refused before anything happened, applied with the answer lost, applied and
answered with an error, cut short, stalled, damaged, in conflict. Dice are seeded, waits go through the injected
timing, so a campaign can be repeated.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeVar, cast

from msgspec import Struct

from stratalog.tier.stores.file_backed import Look, SeenBytes
from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.store import ObjectStore, StoreUnavailable
from stratalog.tier.stores.wrappers import Call, StoreWrapper

__all__ = ["Fault", "FaultRule", "FaultyStore", "InjectedFault"]

T = TypeVar("T")


class Fault(Enum):
    """Faults of a request."""

    FAIL_BEFORE = "fail_before"
    """Refused with 503 SlowDown; nothing was done."""
    CONFLICT = "conflict"
    """Refused with 409 ConditionalRequestConflict; nothing was done."""
    DROP_AFTER_COMMIT = "drop_after_commit"
    """Done, and the connection broke before the answer."""
    FAIL_AFTER_COMMIT = "fail_after_commit"
    """Done, and answered with 500 InternalError."""
    TRUNCATE = "truncate"
    """Done, and half of the bytes read are missing without an error."""
    CORRUPT = "corrupt"
    """Done, and one bit of the bytes read is flipped."""
    DELAY = "delay"
    """Done after ``seconds``."""
    STALL = "stall"
    """No answer for ``seconds``, then the read timeout; the request was not carried out."""


class InjectedFault(StoreUnavailable):
    """An error made by :class:`FaultyStore`, so that a test can tell it from a real one."""

    default_advice = "It was asked for by a fault rule; retry as for any unavailable store."


class FaultRule(Struct, frozen=True):
    """Where, how and how often.

    ``operation``    a method of the port, or ``*``.
    ``key_pattern``  a regular expression searched in the key (or prefix).
    ``count``        how many times at most; ``None`` is without end.
    ``skip``         how many matching requests pass first.
    ``probability``  of each matching request, after ``skip``.
    ``seconds``      for ``DELAY`` and ``STALL``.
    """

    fault: Fault
    operation: str = "*"
    key_pattern: str = ""
    count: int | None = 1
    skip: int = 0
    probability: float = 1.0
    seconds: float = 0.0


class _Armed(Struct):
    rule: FaultRule
    pattern: re.Pattern[str]
    seen: int = 0
    fired: int = 0

    def fires(self, call: Call, dice: random.Random) -> bool:
        rule = self.rule
        if rule.operation not in {"*", call.operation} or not self.pattern.search(call.key):
            return False
        self.seen += 1
        if self.seen <= rule.skip or (rule.count is not None and self.fired >= rule.count):
            return False
        if rule.probability < 1.0 and dice.random() >= rule.probability:
            return False
        self.fired += 1
        return True


class FaultyStore(StoreWrapper):
    """Applies the first rule that fires to each request; ``injected`` lists what was done, as (fault, call)."""

    def __init__(
        self, inner: ObjectStore, rules: Iterable[FaultRule] = (), *, seed: int = 0, timing: Timing | None = None
    ) -> None:
        super().__init__(inner)
        self._timing = timing or Timing()
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self._armed: list[_Armed] = []
        self.injected: list[tuple[Fault, Call]] = []
        self.set_rules(rules)

    def set_rules(self, rules: Iterable[FaultRule]) -> None:
        """Replace all rules; counts begin anew. No rules: no faults."""
        armed = [_Armed(rule, re.compile(rule.key_pattern)) for rule in rules]
        with self._lock:
            self._armed = armed

    def look_through(self, key: str, position: int, length: int, look: Look) -> SeenBytes:
        """Result of `get_range`, with its faults."""
        data = self.get_range(key, position, length)
        look(iter([memoryview(data)]))
        return SeenBytes(len(data))

    def _around(self, call: Call, run: Callable[[], T]) -> T:
        rule = self._choose(call)
        if rule is None:
            return run()
        if rule.fault in {Fault.FAIL_BEFORE, Fault.CONFLICT, Fault.STALL}:
            self._timing.sleep_s(rule.seconds)
            raise self._error(rule.fault, call)
        if rule.fault is Fault.DELAY:
            self._timing.sleep_s(rule.seconds)
            return run()
        result = run()
        if rule.fault in {Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT}:
            raise self._error(rule.fault, call)
        return cast("T", self._damaged(rule.fault, result))

    def _choose(self, call: Call) -> FaultRule | None:
        with self._lock:
            for armed in self._armed:
                if armed.fires(call, self._dice):
                    self.injected.append((armed.rule.fault, call))
                    return armed.rule
        return None

    def _error(self, fault: Fault, call: Call) -> InjectedFault:
        return InjectedFault(call.operation, call.key, self.url, f"injected {fault.value}")

    def _damaged(self, fault: Fault, result: object) -> object:
        if isinstance(result, bytes):
            return self._damaged_bytes(fault, result)
        if isinstance(result, tuple) and result and isinstance(result[0], bytes):
            return (self._damaged_bytes(fault, result[0]), *result[1:])
        return result  # an answer without bytes has nothing to damage

    def _damaged_bytes(self, fault: Fault, data: bytes) -> bytes:
        if fault is Fault.TRUNCATE:
            return data[: len(data) // 2]
        if not data:
            return data
        damaged = bytearray(data)
        with self._lock:
            bit = self._dice.randrange(8 * len(damaged))
        damaged[bit // 8] ^= 1 << (bit % 8)
        return bytes(damaged)
