"""A removed log among those that a full disk has refused."""

import errno

import pytest

from stratalog.hot.storage.removed_log import RemovedLog
from tests.broker.replicas.writer_rig import Bench


@pytest.fixture
async def bench(sync_threads):
    """A directory whose logs write when the test says so."""
    return Bench(sync_threads)


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_a_removed_log_among_refused_ones_keeps_none_of_them_refused(bench, leaves_first):
    """A thread of a move met the full disk, and its topic was deleted before the move heard of it, or a moment later."""
    gone, other = bench.owner("gone"), bench.owner("other")
    full = OSError(errno.ENOSPC, "No space left on device")
    if leaves_first:
        bench.writer.remove(gone)
    gone.discard_error = RemovedLog("the log of t-0 was removed")
    bench.writer.report(full, gone)
    other.discard_error = full
    bench.writer.report(full, other)
    other.discard_error = None
    bench.writer.retry_refused()
    assert not bench.failures
    assert "discarded" in other.heard
