"""How much of a quota was used, and how long to wait until it is within bounds again.

A rate is a sum over the last few windows of time, the present one included, divided by the time since the first of them
that holds anything began, which counts at least as all windows but one. So a client that was quiet may
use all but one window's worth of its quota at once; after that it waits until its sum is what the quota allows for the
time passed. Sources: KIP-13, Kafka's ``Rate``, ``SampledStat`` and ``QuotaUtils``.

Windows forget, and a request may be larger than all of them together: a client of such requests would get twice its
quota. Therefore what was used beyond a burst is also paid for, at the quota's rate, before anything else is free.

Changes of the cluster, which may not be spread, are taken from a bucket that fills at the quota's rate and holds all
windows' worth of it (KIP-599, Kafka's ``TokenBucket``). Amounts are of any unit, times are seconds of a clock that
never goes back.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

__all__ = ["RateWindows", "TokenBucket"]

_DEBT_SECONDS_MAX: Final = 1e9
"""The longest of one use: a debt without an end would outlive the quota under which it was made."""


class RateWindows:
    """Amounts in the last ``count`` windows of ``seconds`` each."""

    __slots__ = ("__weakref__", "_count", "_paid_at", "_seconds", "_windows")

    def __init__(self, count: int, seconds: float) -> None:
        self._count = count
        self._seconds = seconds
        self._windows: deque[list[float]] = deque()  # number of the window since the clock began, amount in it
        self._paid_at = -math.inf

    @property
    def burst_seconds(self) -> float:
        """The time whose quota may be used at once."""
        return max(self._count - 1, 1) * self._seconds

    def use(self, amount: float, bound: float, now: float) -> float:
        """``amount`` is used of a quota of ``bound`` a second; for how many seconds nothing may follow it."""
        number = int(now // self._seconds)
        self._forget(number)
        windows = self._windows
        if windows and windows[-1][0] == number:
            windows[-1][1] += amount
        else:
            windows.append([number, amount])
        seconds = max(-_DEBT_SECONDS_MAX, min(amount / bound, _DEBT_SECONDS_MAX))
        self._paid_at = max(self._paid_at, now - self.burst_seconds) + seconds
        return self.wait_seconds(bound, now)

    def give_back(self, amount: float, bound: float, now: float) -> None:
        """``amount`` was not used after all."""
        self.use(-amount, bound, now)

    def total(self, now: float) -> float:
        """The amount in all windows."""
        self._forget(int(now // self._seconds))
        return sum(amount for _, amount in self._windows)

    def rate(self, now: float) -> float:
        """The amount per second."""
        return self.total(now) / self._span(now)

    def wait_seconds(self, bound: float, now: float) -> float:
        """For how long to use nothing until the rate is down at ``bound``; 0 if it is not above it."""
        return max(self.total(now) / bound - self._span(now), self._paid_at - now, 0.0)

    def idle(self, now: float) -> bool:
        """Whether nothing is left of what was ever used: new windows would be the same."""
        return not self.total(now) and self._paid_at <= now - self.burst_seconds

    def _span(self, now: float) -> float:
        begun = self._windows[0][0] * self._seconds if self._windows else now
        return max(now - begun, self.burst_seconds)

    def _forget(self, number: int) -> None:
        oldest = number - self._count
        windows = self._windows
        while windows and windows[0][0] <= oldest:
            windows.popleft()


class TokenBucket:
    """Tokens that come at a rate and are taken ahead: the bucket may owe some, but holds no more than its capacity."""

    __slots__ = ("_tokens", "_updated_at", "capacity_seconds")

    def __init__(self, capacity_seconds: float) -> None:
        """``capacity_seconds``: how long a full bucket takes to fill. It is full at first."""
        self.capacity_seconds = capacity_seconds
        self._tokens: float | None = None
        self._updated_at = 0.0

    def tokens(self, bound: float, now: float) -> float:
        """The tokens in a bucket that gets ``bound`` tokens a second; a debt is below 0."""
        capacity = bound * self.capacity_seconds
        if self._tokens is None:
            self._tokens = capacity
        else:
            self._tokens = min(capacity, self._tokens + (now - self._updated_at) * bound)
        self._updated_at = now
        return self._tokens

    def take(self, amount: float, bound: float, now: float) -> None:
        """Take tokens, there or not."""
        self._tokens = self.tokens(bound, now) - amount

    def wait_seconds(self, bound: float, now: float) -> float:
        """How long until nothing is owed."""
        return max(-self.tokens(bound, now) / bound, 0.0)
