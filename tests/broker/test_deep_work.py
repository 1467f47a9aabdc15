"""Work on records goes to the worker, unless it is small."""

import asyncio

import pytest

from stratalog.broker.cpu_worker import Rework, cpu_worker
from stratalog.broker.deep_work import DeepWork
from stratalog.broker.workers import ThreadWorkers, WorkerLost
from stratalog.hot.batch_search import BatchSearch
from stratalog.wire.batch import HEADER_BYTES, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt


class NotedWorker:
    """The cpu worker, and what it was told."""

    def __init__(self) -> None:
        self.commands = []

    def execute(self, command):
        self.commands.append(command)
        return cpu_worker().execute(command)


@pytest.fixture
async def worker():
    return NotedWorker()


@pytest.fixture
async def work(worker):
    workers = ThreadWorkers(asyncio.get_running_loop(), worker, threads=1)
    yield DeepWork(workers)
    await workers.close()


@pytest.mark.parametrize(
    ("count", "codec", "in_worker"), [(3, Codec.NONE, False), (1001, Codec.NONE, True), (3, Codec.ZSTD, True)]
)
async def test_only_small_batches_are_opened_on_the_loop(worker, work, new_batch, count, codec, in_worker):
    """The answer is the same."""
    batch = bytes(new_batch(*[b"v"] * count, timestamp_ms=1000, codec=codec))
    for timestamp_ms in (0, 1002, 9000):
        search = BatchSearch(batch, timestamp_ms, 0, count)
        assert await work.search(search) == search.find()
    assert len(worker.commands) == (3 if in_worker else 0)


async def test_what_is_wrong_with_a_batch_reaches_who_asked(work, new_batch):
    """As it does for one that is opened here."""
    batch = bytearray(new_batch(b"v" * 100, codec=Codec.GZIP))
    batch[HEADER_BYTES] ^= 0xFF
    with pytest.raises(Corrupt):
        await work.search(BatchSearch(bytes(batch), 0, 0, 1))


async def test_a_lost_worker_is_told(work, new_batch):
    """The client may ask again."""
    await work.close()
    with pytest.raises(WorkerLost):
        await work.search(BatchSearch(bytes(new_batch(b"v", codec=Codec.LZ4)), 0, 0, 1))


@pytest.mark.parametrize(("batch", "outcome"), [(True, bytearray), (False, Exception)])
async def test_a_batch_is_reworked_or_what_is_wrong_is_told(worker, work, new_batch, batch, outcome):
    """One callback for both."""
    done = asyncio.get_running_loop().create_future()
    data = bytes(new_batch(b"v")) if batch else b"no batch"
    work.rework(data, Codec.ZSTD, False, done.set_result)
    answer = await done
    assert isinstance(answer, outcome)
    assert worker.commands == [Rework(data, Codec.ZSTD, keys_required=False)]
    if batch:
        assert read_header(answer).codec is Codec.ZSTD
