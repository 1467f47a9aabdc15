"""Admission to the bucket: which readers may fetch now, and how long others wait. Keeps budgets and a queue of refused
readers.

A reader that is refused is woken when it is its turn: when its budget owes nothing any more, or when the cache has room
again. Meanwhile its answer is a throttle time, not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Protocol

from stratalog.tier.reading.chunk_pins import Reader
from stratalog.tier.reading.fetch_budgets import FetchBudgets, FetchRates

__all__ = ["ColdAdmission", "Later", "Timer"]

_ROOM_MS: Final = 1_000
"""When a reader that found no room is woken at the latest: pins may have run out meanwhile."""


class Timer(Protocol):
    """A callback to come."""

    def cancel(self) -> object:
        """It is not called."""
        ...


Later = Callable[[float, Callable[[], None]], Timer]
"""``later(seconds, call)``: call it then, and never at once."""


class ColdAdmission:
    """One broker's. ``client_of`` says whose budget a reader uses, ``wake`` has a reader ask again."""

    def __init__(
        self,
        rates: Callable[[], FetchRates],
        *,
        client_of: Callable[[Reader], Hashable],
        wake: Callable[[Reader], object],
        now_ms: Callable[[], int],
        later: Later,
    ) -> None:
        self._rates = rates
        self._client_of = client_of
        self.wake = wake
        self._now_ms = now_ms
        self._later = later
        self._budgets = FetchBudgets()
        self._refused: dict[Reader, tuple[int, bool]] = {}  # until when, and whether for want of room; first come first
        self._timer: Timer | None = None
        self._timer_ms = 0
        self.throttle_count = 0
        """How often a reader was refused."""
        self.throttle_ms_sum = 0
        """For how long altogether, as it looked then."""

    def __len__(self) -> int:
        """Readers that wait."""
        return len(self._refused)

    def wait_ms(self, reader: Reader, topic: Hashable) -> int:
        """How long the reader may not fetch from the bucket; 0 if it may now."""
        rates = self._rates()
        if rates == _NO_RATES:
            return 0
        return self._budgets.wait_ms(rates, self._client_of(reader), topic, self._now_ms())

    def take(self, reader: Reader, topic: Hashable, size_bytes: int) -> None:
        """The reader fetches so much."""
        rates = self._rates()
        if rates != _NO_RATES:
            self._budgets.take(rates, self._client_of(reader), topic, size_bytes, self._now_ms())

    def refuse(self, reader: Reader, wait_ms: int = 0) -> None:
        """The reader waits: for its budget, or with no time given for room."""
        now_ms = self._now_ms()
        until_ms = now_ms + (wait_ms or _ROOM_MS)
        if reader not in self._refused:
            self.throttle_count += 1
            self.throttle_ms_sum += until_ms - now_ms
        self._refused[reader] = until_ms, not wait_ms
        self._call_at(until_ms)

    def admit(self, reader: Reader) -> None:
        """The reader waits no longer: it got what it asked for, or is gone."""
        if self._refused:
            self._refused.pop(reader, None)

    def throttle_ms(self, reader: Reader) -> int:
        """How long the reader has to wait still, as far as an answer can tell; 0 if it was not refused."""
        refused = self._refused.get(reader)
        return 0 if refused is None else min(max(1, refused[0] - self._now_ms()), _THROTTLE_MS_MAX)

    def room(self) -> None:
        """The cache may have room: those who wait for it are woken in a later turn."""
        if self._refused:
            self._call_at(self._now_ms())

    def _call_at(self, at_ms: int) -> None:
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        self._timer = self._later(max(0, at_ms - self._now_ms()) / 1000, self._due)

    def _due(self) -> None:
        """Wake whose time has come, first come first; those who wait for room until one of them finds none.

        One that is refused anew meanwhile has asked with another: a fetch of many partitions is a reader for each.
        """
        self._timer = None
        full = False
        for reader, refused in list(self._refused.items()):
            until_ms, for_room = refused
            if until_ms > self._now_ms() and (full or not for_room):
                continue
            if self._refused.get(reader) is not refused:
                continue
            del self._refused[reader]
            self.wake(reader)
            full = full or self._refused.get(reader, (0, False))[1]
        if self._refused:
            self._call_at(min(until_ms for until_ms, _ in self._refused.values()))


_THROTTLE_MS_MAX: Final = (1 << 31) - 1
_NO_RATES: Final = FetchRates()
