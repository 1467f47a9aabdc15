"""Random histories of a partition: compaction, transactions, three replicas, archive, kills and power cuts together.

The shipped log, cleaner, roles, archive, comparison, cold reader, merges and compaction of archives; after the steps replicas,
readers, producers, epochs, look-ups by time and the bucket are compared with what was written.
"""

from __future__ import annotations

import logging

import pytest

from tests.histories.run import history

_TOGETHER = 20
_SEEDS = 400


@pytest.fixture(autouse=True)
def quiet():
    """Each cut is logged otherwise."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(3))
def test_a_history_holds(seed):
    """No committed record is lost, doubled or served wrong."""
    history(seed)


def test_no_deleted_key_comes_back_with_a_disk_that_is_put_back():
    """Its leader has dropped the tombstone since; a replica that only was away copies on from its end."""
    count = history(89, deletes=True)
    assert count["put back"]
    assert count["begun again"]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, _SEEDS // 2, _TOGETHER))
def test_no_deleted_key_comes_back(first):
    """The same for more seeds."""
    for seed in range(first, first + _TOGETHER):
        history(seed, deletes=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, _SEEDS, _TOGETHER))
def test_many_histories_hold(first):
    """The same for more seeds."""
    for seed in range(first, first + _TOGETHER):
        history(seed)
