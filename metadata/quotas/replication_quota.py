"""The bytes that throttled replicas may have, on one side of one broker: an allowance that fills at the set rate. Pure.

Bytes beyond the allowance are a debt, and no more are allowed until it is paid. So over a longer run the rate is the
set one, whatever the size of single answers. A full allowance is one window's worth; a debt is never more than all windows'
worth, as Kafka forgets it after that time (``ReplicationQuotaManager``, KIP-73). Copies that may not be held up are counted,
too, and a debt of theirs would else keep the others away for long after.
"""

from __future__ import annotations

import math

from stratalog.metadata.quotas.windows import RateWindows

__all__ = ["ReplicationQuota"]


class ReplicationQuota:
    """Bytes against a rate. Times are seconds of a clock that never goes back."""

    __slots__ = ("_allowed", "_debt_seconds", "_full_seconds", "_updated_at", "_used")

    def __init__(self, window_count: int, window_seconds: float) -> None:
        """``replication.quota.window.num`` and ``replication.quota.window.size.seconds``."""
        self._full_seconds = window_seconds
        self._debt_seconds = window_count * window_seconds
        self._allowed = math.inf
        self._updated_at = 0.0
        self._used = RateWindows(window_count, window_seconds)

    def record(self, size_bytes: int, rate: float, now: float) -> None:
        """So many bytes of throttled replicas have gone; ``rate`` is the set one, in bytes a second."""
        self._allowed = self.allowed_bytes(rate, now) - size_bytes
        self._used.use(size_bytes, math.inf, now)

    def allowed_bytes(self, rate: float, now: float) -> float:
        """The bytes that may go now; none while it is not above 0."""
        allowed = max(self._allowed, -rate * self._debt_seconds) + (now - self._updated_at) * rate
        self._allowed = min(allowed, rate * self._full_seconds)
        self._updated_at = now
        return self._allowed

    def wait_seconds(self, rate: float, now: float) -> float:
        """How long until something may go; infinite at a rate of 0."""
        allowed = self.allowed_bytes(rate, now)
        if allowed > 0:
            return 0.0
        return -allowed / rate + _FIRST_BYTE_SECONDS if rate else math.inf

    def byte_rate(self, now: float) -> float:
        """The bytes a second over the last windows, for ``/metrics``."""
        return self._used.rate(now)


_FIRST_BYTE_SECONDS = 1e-3
"""A debt that is just paid allows nothing yet."""
