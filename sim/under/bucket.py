"""The bucket: a store in memory behind drawn latencies and faults, opened by the workers under its URL."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from sim.under.process import current_process
from sim.under.threads import sleep
from stratalog.tier.stores import opening
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.store import StoreError
from stratalog.tier.stores.wrappers import Call, StoreWrapper

if TYPE_CHECKING:
    from sim.under.loop import VirtualLoop

__all__ = ["Bucket"]

T = TypeVar("T")

_DAMAGE_SECONDS: Final = 5.0
"""So long after the bucket was healed a reader may still be told of what was damaged."""
_READS: Final = ("get", "get_range", "get_suffix")


class Bucket:
    """One bucket. ``changed`` is called with the key after every write that took effect."""

    def __init__(self, loop: VirtualLoop, dice: random.Random, now_ms: Callable[[], int], name: str) -> None:
        self.url = f"memory:{name}"
        self.changed: Callable[[str], None] = lambda _: None
        self._damaged_at = -math.inf
        self._damaging = False
        self.memory = MemoryStore(self.url, clock_ms=now_ms)
        timing = Timing(now_s=loop.time, sleep_s=sleep, random=dice)
        self._faulty = FaultyStore(self.memory, seed=dice.getrandbits(32), timing=timing)
        self._dice = dice
        self._loop = loop
        opening._memory_stores[self.url] = _Requests(self._faulty, self, loop, dice)  # type: ignore[assignment]

    def forget(self) -> None:
        """The simulation is over."""
        opening._memory_stores.pop(self.url, None)

    def heal(self) -> None:
        """No faults from now on."""
        self._faulty.set_rules([])
        if self._damaging:
            self._damaging, self._damaged_at = False, self._loop.time()

    @property
    def damages(self) -> bool:
        """Whether bytes are, or have lately been, damaged on their way."""
        return self._damaging or self._loop.time() < self._damaged_at + _DAMAGE_SECONDS

    def spoil(self) -> str:
        """Draw faults that last until `heal`; in words, what they are."""
        dice = self._dice
        if dice.random() < 0.25:
            self._faulty.set_rules([FaultRule(Fault.STALL, count=None, seconds=dice.uniform(0.1, 3))])
            return "unreachable"
        faults = dice.sample(list(Fault), dice.randint(1, 3))
        self._damaging = self.damages or bool({Fault.CORRUPT, Fault.TRUNCATE}.intersection(faults))
        self._faulty.set_rules(
            FaultRule(fault, count=None, probability=dice.uniform(0.05, 0.5), seconds=dice.uniform(0.01, 1.5))
            for fault in faults
        )
        return ", ".join(sorted(fault.value for fault in faults))


class _Requests(StoreWrapper):
    """Each request takes time, on its way and on its way back; the worker may die in between."""

    def __init__(self, inner: FaultyStore, bucket: Bucket, loop: VirtualLoop, dice: random.Random) -> None:
        super().__init__(inner)
        self._bucket = bucket
        self._loop = loop
        self._dice = dice

    def _around(self, call: Call, run: Callable[[], T]) -> T:
        sleep(0.001 * self._dice.randint(1, 30))
        writes = call.operation not in _READS and call.operation not in {"head", "list", "list_uploads"}
        who = current_process().name
        try:
            result = run()
        except StoreError as error:
            self._loop.trace.note(who, f"{call.operation} {_short(call.key)}: {type(error).__name__}")
            raise
        finally:
            if writes:
                self._bucket.changed(call.key)
        self._loop.trace.note(who, f"{call.operation} {_short(call.key)}")
        sleep(0.001 * self._dice.randint(1, 30))
        return result


def _short(key: str) -> str:
    parts = key.split("/")
    return "/".join(part if len(part) < 12 else f"{part[:8]}~{part[-4:]}" for part in parts[-3:])
