"""How much may be fetched from the bucket now: one budget for the broker, one for each client, one for each topic. Pure.

A budget fills at its rate and holds one second's worth. It is asked before anything is fetched, and what is fetched is
taken from it even if it then owes: a fetch larger than a second's worth would otherwise never begin. A fetch that finds a
budget owing waits until it does not. So over any time a budget gives its rate times that time, one second's worth, and
one fetch. Budgets that are full are forgotten: names of clients must not fill the memory.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

__all__ = ["UNLIMITED", "FetchBudgets", "FetchRates"]

UNLIMITED: Final = (1 << 63) - 1
"""No budget: Kafka's default of its byte rates."""

_BUDGETS_MIN: Final = 1024
"""So many are kept before it is looked for those that are full."""

_Scope: TypeAlias = tuple[str, Hashable]


class FetchRates(NamedTuple):
    """Bytes a second of the whole broker, of any one client, of any one topic."""

    broker: int = UNLIMITED
    client: int = UNLIMITED
    topic: int = UNLIMITED


class _Budget(Struct):
    rate: int
    left: float
    updated_ms: int

    def fill(self, rate: int, now_ms: int) -> None:
        """Add what has come since; under a new rate what is left or owed stays as it is."""
        self.left = min(self.left + (now_ms - self.updated_ms) * self.rate / 1000, float(max(rate, self.rate)))
        self.rate, self.updated_ms = rate, now_ms
        self.left = min(self.left, float(rate))


class FetchBudgets:
    """The budgets of one broker."""

    def __init__(self) -> None:
        self._budgets: dict[_Scope, _Budget] = {}
        self._looked_at = _BUDGETS_MIN

    def __len__(self) -> int:
        return len(self._budgets)

    def wait_ms(self, rates: FetchRates, client: Hashable, topic: Hashable, now_ms: int) -> int:
        """How long nothing may be fetched for this client and topic; 0 if it may be now."""
        longest = 0
        for scope, rate in _limited(rates, client, topic):
            budget = self._budgets.get(scope)
            if budget is not None:
                budget.fill(rate, now_ms)
                if budget.left < 0:
                    longest = max(longest, int(-budget.left * 1000 / rate) + 1)
        return longest

    def take(self, rates: FetchRates, client: Hashable, topic: Hashable, size_bytes: int, now_ms: int) -> None:
        """So much is being fetched."""
        for scope, rate in _limited(rates, client, topic):
            budget = self._budgets.get(scope)
            if budget is None:
                self._forget_full(now_ms)
                budget = self._budgets[scope] = _Budget(rate, float(rate), now_ms)
            budget.fill(rate, now_ms)
            budget.left -= size_bytes

    def _forget_full(self, now_ms: int) -> None:
        if len(self._budgets) < self._looked_at:
            return
        for budget in self._budgets.values():
            budget.fill(budget.rate, now_ms)
        self._budgets = {scope: one for scope, one in self._budgets.items() if one.left < one.rate}
        self._looked_at = max(_BUDGETS_MIN, 2 * len(self._budgets))


def _limited(rates: FetchRates, client: Hashable, topic: Hashable) -> list[tuple[_Scope, int]]:
    scopes = ((("broker", None), rates.broker), (("client", client), rates.client), (("topic", topic), rates.topic))
    return [(scope, rate) for scope, rate in scopes if rate < UNLIMITED]
