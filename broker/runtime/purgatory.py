"""Requests that wait for something to happen, or for their time to be over.

A request waits under keys (a partition, a group); code that changes a key's subject calls :meth:`Purgatory.check`.
Each waiting request has one deadline. Deadlines are kept in slots as coarse as a thirty-second of the delay, one
timer of the loop per slot, so that waiting and being completed costs two dictionary operations per key and no timer:
a produce with ``acks=all`` waits here for every single answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from stratalog.broker.runtime.clock import Clock

__all__ = ["Purgatory", "Waiter"]

log = logging.getLogger(__name__)

_SLOTS_PER_DELAY_BITS: Final = 6


class Waiter:
    """One waiting request; :meth:`Purgatory.wait` makes it."""

    __slots__ = ("_due_ms", "_expire", "_keys", "_purgatory", "_try_complete", "waiting", "woken_by")

    def __init__(
        self,
        purgatory: Purgatory,
        keys: dict[Hashable, None],
        try_complete: Callable[[], bool],
        expire: Callable[[], None],
        due_ms: int,
    ) -> None:
        self._purgatory = purgatory
        self._keys = keys
        self._try_complete = try_complete
        self._expire = expire
        self._due_ms = due_ms
        self.waiting = True
        self.woken_by: Hashable = None
        """The key under which it was last called; None if by its own request."""

    def watch(self, key: Hashable) -> None:
        """Wait under one more key."""
        if self.waiting and key not in self._keys:
            self._keys[key] = None
            self._purgatory.add(self, key)

    def check(self, key: Hashable = None) -> bool:
        """Try to complete now, because of ``key``; True if the request is no longer waiting."""
        if not self.waiting:
            return True
        self.woken_by = key
        try:
            done = self._try_complete()
        except Exception:
            # The others under this key must not suffer; the client gets what it gets at its deadline.
            log.exception("a waiting request failed; it is answered as expired")
            self.expired()
            return True
        if done and self.waiting:
            self.waiting = False
            self._purgatory.remove(self, self._keys, self._due_ms)
        return done

    def cancel(self) -> None:
        """Wait no longer; nothing is called."""
        if self.waiting:
            self.waiting = False
            self._purgatory.remove(self, self._keys, self._due_ms)

    def expired(self) -> None:
        """The deadline has passed."""
        if self.waiting:
            self.cancel()
            try:
                self._expire()
            except Exception:
                log.exception("a waiting request could not be answered at its deadline; its client gets no answer")


class Purgatory:
    """A set of waiting requests (Kafka's ``DelayedOperationPurgatory``)."""

    __slots__ = ("_by_key", "_clock", "_draining", "_due", "_loop", "_timers", "_waiting", "expired")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._by_key: dict[Hashable, dict[Waiter, None]] = {}
        self._due: dict[int, dict[Waiter, None]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._waiting = 0
        self._draining = False
        self.expired = 0
        """Requests whose time was over, since start (``ExpiresPerSec``)."""

    def __len__(self) -> int:
        """Requests waiting now (``PurgatorySize``)."""
        return self._waiting

    def wait(
        self,
        keys: Iterable[Hashable],
        timeout_ms: int,
        try_complete: Callable[[], bool],
        expire: Callable[[], None],
    ) -> Waiter:
        """Wait until ``try_complete``, called on each :meth:`check` of one of ``keys``, returns True.

        Otherwise ``expire`` is called once, after ``timeout_ms`` and at most a thirty-second of it later. Both answer
        the request themselves. The caller has already tried once and cancels the waiter when the client goes away.
        """
        if self._draining:
            timeout_ms = 0
        now_ms = int(self._clock.monotonic() * 1000)
        shift = max(timeout_ms.bit_length() - _SLOTS_PER_DELAY_BITS, 0)
        due_ms = (((now_ms + timeout_ms) >> shift) + 1) << shift
        waiter = Waiter(self, dict.fromkeys(keys), try_complete, expire, due_ms)
        by_key = self._by_key
        for key in waiter._keys:  # noqa: SLF001 - the two classes are one mechanism
            watchers = by_key.get(key)
            if watchers is None:
                by_key[key] = {waiter: None}
            else:
                watchers[waiter] = None
        slot = self._due.get(due_ms)
        if slot is None:
            self._due[due_ms] = {waiter: None}
            self._timers[due_ms] = self._loop.call_later((due_ms - now_ms) / 1000, self._slot_due, due_ms)
        else:
            slot[waiter] = None
        self._waiting += 1
        return waiter

    def check(self, key: Hashable) -> int:
        """Something about ``key`` has changed: let its requests try, oldest first; how many were completed."""
        watchers = self._by_key.get(key)
        if watchers is None:
            return 0
        completed = 0
        for waiter in list(watchers):
            completed += waiter.check(key)
        return completed

    def watched(self, key: Hashable) -> bool:
        """Whether any request waits under ``key``."""
        return key in self._by_key

    def drain(self) -> None:
        """Answer every waiting request with what there is, and from now on every new one in the next turn."""
        self._draining = True
        for slot in list(self._due.values()):
            for waiter in list(slot):
                waiter.expired()

    def cancel_all(self) -> None:
        """Forget every waiting request and every timer: the broker is going down."""
        for slot in list(self._due.values()):
            for waiter in list(slot):
                waiter.cancel()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._due.clear()

    def add(self, waiter: Waiter, key: Hashable) -> None:
        """A waiter waits under a key; called by :meth:`Waiter.watch`."""
        self._by_key.setdefault(key, {})[waiter] = None

    def remove(self, waiter: Waiter, keys: Iterable[Hashable], due_ms: int) -> None:
        """Forget a waiter; called by :meth:`Waiter.cancel`."""
        for key in keys:
            watchers = self._by_key[key]
            del watchers[waiter]
            if not watchers:
                del self._by_key[key]
        # The slot and its timer stay: more requests with the same time-out will come until it is due.
        slot = self._due.get(due_ms)
        if slot is not None:
            slot.pop(waiter, None)
        self._waiting -= 1

    def _slot_due(self, due_ms: int) -> None:
        del self._timers[due_ms]
        slot = self._due.pop(due_ms)
        for waiter in list(slot):
            self.expired += waiter.waiting
            waiter.expired()
