"""Aborted transactions beside what is read from an archive."""

import pytest

from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.reading.aborted_cache import AbortedCache
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


def test_an_answer_over_objects_has_those_of_all_whatever_stays_in_memory(rig):
    """The cache holds those of one: each that comes would drive out the other, and the reader would never go on."""
    aborted = [AbortedTransaction(n, n, n, 60) for n in range(60)]
    rig.store = MemoryStore()
    rig.worker = Worker(rig.store)
    archive_log(rig.store, PARTITION, [rig.segment(20 * n) for n in range(3)], now_ms=0, aborted=aborted)
    for offset in (0, 20, 40):
        while rig.remote.read("r", offset, 1) is None:
            rig.run()
    rig.run()  # what was read ahead
    rig.chunks.aborted = AbortedCache(1)
    rig.sent.clear()
    while (found := rig.remote.read("r", 0, 1 << 20)) is None:
        assert len(rig.sent) < 10
        command, answered = rig.queue.pop(0)
        answered(rig.worker.execute(command))
    assert found.next_offset == 60
    assert [one.first_offset for one in found.aborted] == list(range(60))
    assert rig.sent.count("ReadAborted") == 3
    assert rig.chunks.aborted.transaction_count == 20
