"""Aborted transactions beside what is read from an archive."""

import pytest

from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from tests.broker.cold.test_reader import PARTITION, Rig


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_an_answer_names_the_aborted_transactions_that_it_touches(rig):
    """The object names ten thousand: each answer would look at all, and they would stay in memory one by one."""
    aborted = [AbortedTransaction(n, n % 40, n % 40, 60) for n in range(10_000)]
    rig.store = MemoryStore()
    rig.worker = Worker(rig.store)
    archive_log(rig.store, PARTITION, [rig.segment(20 * n) for n in range(2)], now_ms=0, aborted=aborted)
    while (found := rig.remote.read("r", 10, 1)) is None:
        rig.run()
    assert (found.next_offset, {one.first_offset for one in found.aborted}) == (15, {10, 11, 12, 13, 14})
    assert len(found.aborted) == 1250
    assert rig.chunks.aborted.transaction_count == 5000
    rig.sent.clear()
    assert len(rig.remote.read("r", 15, 1).aborted) == 1250
    assert "ReadAborted" not in rig.sent
