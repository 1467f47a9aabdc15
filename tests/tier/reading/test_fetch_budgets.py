"""Budgets for fetches from the bucket, against a model that adds up the bytes."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stratalog.tier.reading.fetch_budgets import UNLIMITED, FetchBudgets, FetchRates


def test_without_rates_nothing_is_counted():
    """A fetch of any size waits 0 ms, and the budgets stay empty."""
    budgets = FetchBudgets()
    budgets.take(FetchRates(), "c", "t", 1 << 40, 0)
    assert budgets.wait_ms(FetchRates(), "c", "t", 0) == 0
    assert len(budgets) == 0


def test_a_fetch_larger_than_the_budget_is_paid_afterwards():
    """For as long as it takes."""
    budgets, rates = FetchBudgets(), FetchRates(broker=1000)
    assert budgets.wait_ms(rates, "c", "t", 0) == 0
    budgets.take(rates, "c", "t", 5000, 0)
    assert 4000 <= budgets.wait_ms(rates, "other", "other", 0) <= 4001
    assert budgets.wait_ms(rates, "c", "t", 3990) > 0
    assert budgets.wait_ms(rates, "c", "t", 4001) == 0


def test_one_client_over_its_budget_does_not_stop_another():
    """A client over its budget waits alone; a topic over its budget delays every client of that topic only."""
    budgets, rates = FetchBudgets(), FetchRates(client=1000, topic=2000)
    budgets.take(rates, "greedy", "t", 2000, 0)
    assert budgets.wait_ms(rates, "greedy", "u", 0) == 1001
    assert budgets.wait_ms(rates, "modest", "t", 0) == 0
    budgets.take(rates, "modest", "t", 1000, 0)
    assert budgets.wait_ms(rates, "third", "t", 0) == 501
    assert budgets.wait_ms(rates, "third", "u", 0) == 0


def test_a_rate_may_change_while_something_is_owed():
    """Debts are paid at the new rate; the rest is cut to a second's worth of it."""
    budgets = FetchBudgets()
    budgets.take(FetchRates(broker=1000), "c", "t", 3000, 0)
    assert budgets.wait_ms(FetchRates(broker=4000), "c", "t", 0) == 501
    assert budgets.wait_ms(FetchRates(broker=UNLIMITED), "c", "t", 0) == 0
    assert budgets.wait_ms(FetchRates(broker=10), "c", "t", 10_000) == 0
    budgets.take(FetchRates(broker=10), "c", "t", 30, 10_000)
    assert budgets.wait_ms(FetchRates(broker=10), "c", "t", 10_000) == 2001


def test_clients_that_are_quiet_are_forgotten():
    """A new budget would be as full."""
    budgets, rates = FetchBudgets(), FetchRates(client=1000)
    for number in range(3000):
        budgets.take(rates, number, "t", 1, number * 10)
    assert len(budgets) <= 1024


class BudgetMachine(RuleBasedStateMachine):
    """Clients that keep to their answers, against the bytes they got in any span of time."""

    RATES = FetchRates(broker=3000, client=1000, topic=2000)

    def __init__(self):
        super().__init__()
        self.budgets, self.now_ms, self.got = FetchBudgets(), 0, []

    @rule(client=st.integers(0, 3), topic=st.integers(0, 1), size_bytes=st.integers(1, 1500))
    def fetch(self, client, topic, size_bytes):
        wait = self.budgets.wait_ms(self.RATES, client, topic, self.now_ms)
        if wait == 0:
            self.budgets.take(self.RATES, client, topic, size_bytes, self.now_ms)
            self.got.append((self.now_ms, client, topic, size_bytes))
        else:
            assert self.budgets.wait_ms(self.RATES, client, topic, self.now_ms + wait) == 0

    @rule(step_ms=st.integers(1, 2000))
    def wait(self, step_ms):
        self.now_ms += step_ms

    @invariant()
    def no_reader_gets_more_than_its_rate(self):
        kinds = [(self.RATES.broker, self.got)]
        kinds += [(self.RATES.client, [one for one in self.got if one[1] == client]) for client in range(4)]
        kinds += [(self.RATES.topic, [one for one in self.got if one[2] == topic]) for topic in range(2)]
        for rate, fetches in kinds:
            for first in range(len(fetches)):
                span_ms = fetches[-1][0] - fetches[first][0]
                assert sum(one[3] for one in fetches[first:]) <= rate * span_ms / 1000 + rate + 1500 + 1


TestBudgets = BudgetMachine.TestCase
TestBudgets.settings = settings(stateful_step_count=30)
