"""Transactions as their producers were answered, beside what committed readers find."""

import pytest

from bench.faults.answers import Found
from bench.faults.transactional import Outcome, transaction_faults

ONE = ("t", 1)


def found(*names):
    return {0: [Found(offset, None, name.encode()) for offset, name in enumerate(names)]}


@pytest.mark.parametrize(
    ("outcome", "names"),
    [
        (Outcome.COMMITTED, ("t:1:0", "t:1:1")),
        (Outcome.ABORTED, ()),
        (Outcome.OPEN, ()),
        (Outcome.OPEN, ("t:1:0", "t:1:1")),
    ],
)
def test_transactions_that_are_as_answered_are_no_fault(outcome, names):
    """Without an answer either is right, as a whole."""
    assert list(transaction_faults({ONE: outcome}, {ONE: 2}, found(*names))) == []


@pytest.mark.parametrize(
    ("outcome", "names", "sentence"),
    [
        (Outcome.COMMITTED, ("t:1:0",), "was committed with 2 records, and readers find [0]"),
        (Outcome.COMMITTED, (), "was committed with 2 records, and readers find []"),
        (Outcome.ABORTED, ("t:1:0", "t:1:1"), "was aborted, and readers find [0, 1]"),
        (Outcome.OPEN, ("t:1:1",), "is there in part: [1]"),
        (Outcome.COMMITTED, ("t:1:0", "t:1:1", "u:1:0"), "was never begun"),
    ],
)
def test_each_difference_is_a_fault(outcome, names, sentence):
    """Lost, aborted, partial and phantom records."""
    (fault,) = transaction_faults({ONE: outcome}, {ONE: 2}, found(*names))
    assert sentence in fault


def test_a_record_that_comes_twice_or_late_is_a_fault():
    """Within a partition, records of one producer rise."""
    faults = list(transaction_faults({ONE: Outcome.COMMITTED}, {ONE: 2}, found("t:1:1", "t:1:0")))
    assert len(faults) == 1
    assert "was read after (1, 1)" in faults[0]


def test_a_record_that_the_client_says_it_has_not_sent_may_be_missing():
    """The others may not."""
    outcomes, sizes = {ONE: Outcome.COMMITTED}, {ONE: 3}
    unsent = {ONE: {1}}
    assert list(transaction_faults(outcomes, sizes, found("t:1:0", "t:1:2"), unsent=unsent)) == []
    assert list(transaction_faults(outcomes, sizes, found("t:1:0", "t:1:1", "t:1:2"), unsent=unsent)) == []
    (fault,) = transaction_faults(outcomes, sizes, found("t:1:0"), unsent=unsent)
    assert "was committed with 2 records, and readers find [0]" in fault
