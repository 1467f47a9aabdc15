"""Figures of transactions: how many stand where, and whether one is open for too long."""

from functools import partial

import pytest

from stratalog.broker.coordinators.transaction_metrics import add_transaction_figures
from stratalog.metadata.transactions.events import TransactionSettings
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.metadata.transactions.transaction import Transaction

NOW_MS = 1_700_000_000_000


def shard(*transactions):
    """A shard with transactions in these states that began so many milliseconds ago."""
    made = TransactionShard(TransactionSettings())
    for number, (status, age_ms) in enumerate(transactions):
        one = Transaction(transactional_id=str(number), producer_id=number, timeout_ms=1, last_update_ms=0)
        one.status, one.start_ms = status, -1 if age_ms is None else NOW_MS - age_ms
        made.transactions[str(number)] = one
    return made


@pytest.fixture
def scrape(scraped):
    """Scrape the figures of some shards at a time."""
    return partial(scraped, add_transaction_figures, wall_ms=NOW_MS)


def test_transactions_by_state(scrape):
    """The figures sum all shards; those that have ended everywhere delay no reader."""
    found = scrape(
        [
            shard((TransactionStatus.ONGOING, 5_000), (TransactionStatus.COMPLETE_COMMIT, 90_000)),
            shard((TransactionStatus.ONGOING, 1_000), (TransactionStatus.PREPARE_ABORT, 7_500)),
        ],
        0.0,
    )
    states = {name[1]: value for name, value in found.items() if name[0] == "stratalog_transactions"}
    assert states == {
        "Empty": 0, "Ongoing": 2, "PrepareCommit": 0, "PrepareAbort": 1, "CompleteCommit": 1, "CompleteAbort": 0, "Dead": 0,
    }  # fmt: skip
    assert found["stratalog_transactions_oldest_open_seconds",] == 7.5


def test_the_oldest_open_transaction_is_0_s_old_if_none_is_open(scrape):
    """Also after one was open."""
    one = shard((TransactionStatus.ONGOING, 5_000))
    assert scrape([one], 0.0)["stratalog_transactions_oldest_open_seconds",] == 5
    one.transactions.clear()
    assert scrape([one], 0.0, 2.0)["stratalog_transactions_oldest_open_seconds",] == 0
