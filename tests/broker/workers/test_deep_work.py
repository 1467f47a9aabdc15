"""Work on records goes to the worker, unless it is small."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.workers.cpu_worker import Rework, cpu_worker
from stratalog.broker.workers.deep_work import LOOKED_AT_BYTES_MAX, DeepWork, FairQueue
from stratalog.broker.workers.workers import ThreadWorkers, WorkerLost
from stratalog.hot.segments.batch_search import BatchSearch
from stratalog.wire.batch import HEADER_BYTES, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, Retriable
from stratalog.wire.record_rules import RecordRules

RULES = RecordRules("t-0")


class NotedWorker:
    """The cpu worker, and a record of its commands."""

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


async def test_the_error_of_a_bad_batch_reaches_the_caller(work, new_batch):
    """As it does for one that is opened here."""
    batch = bytearray(new_batch(b"v" * 100, codec=Codec.GZIP))
    batch[HEADER_BYTES] ^= 0xFF
    with pytest.raises(Corrupt):
        await work.search(BatchSearch(bytes(batch), 0, 0, 1))


async def test_a_lost_worker_is_reported(work, new_batch):
    """The client may ask again."""
    await work.close()
    with pytest.raises(WorkerLost):
        await work.search(BatchSearch(bytes(new_batch(b"v", codec=Codec.LZ4)), 0, 0, 1))


@pytest.mark.parametrize(("batch", "outcome"), [(True, bytearray), (False, Exception)])
async def test_a_batch_is_reworked_or_refused_with_the_reason(worker, work, new_batch, batch, outcome):
    """One callback for both."""
    done = asyncio.get_running_loop().create_future()
    data = bytes(new_batch(b"v")) if batch else b"no batch"
    work.rework(data, Codec.ZSTD, RULES, done.set_result, 1 << 20, None)
    answer = await done
    assert isinstance(answer, outcome)
    assert worker.commands == [Rework(data, Codec.ZSTD, RULES, 1 << 20)]
    if batch:
        assert read_header(answer).codec is Codec.ZSTD


class Held:
    """A worker that answers on demand."""

    def __init__(self):
        self.at_worker = []

    def submit(self, command, on_done):
        self.at_worker.append((command, on_done))

    def answer(self):
        command, on_done = self.at_worker.pop(0)
        on_done(command, None)


def test_sources_take_turns():
    """One that sends a hundred batches has two at the worker; the first of another one is not behind them."""
    held, done = Held(), []
    queue = FairQueue(held.submit)
    for number in range(100):
        queue.put("greedy", ("greedy", number), lambda report, _error: done.append(report))
    assert len(held.at_worker) == 2
    for source in "abc":
        queue.put(source, (source, 0), lambda report, _error: done.append(report))
    assert len(held.at_worker) == 4
    while held.at_worker:
        held.answer()
    assert [name for name, _ in done[:6]].count("greedy") <= 4
    assert {("a", 0), ("b", 0), ("c", 0)} <= set(done[:6])
    assert [number for name, number in done if name == "greedy"] == list(range(100))


def test_a_failed_submission_is_reported_to_the_waiting_caller():
    """The worker is closed: everybody who waits in line hears of it, once."""

    def submit(_command, _on_done):
        raise WorkerLost("closed")

    queue, errors = FairQueue(submit), []
    for number in range(3):
        queue.put(number, number, lambda _report, error: errors.append(error))
    assert [type(error) for error in errors] == [WorkerLost] * 3


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=80))
def test_every_command_ends_once_and_in_the_order_of_its_source(events):
    """Commands of a source end in its order, with answers in any order, and no more than two are at the worker."""
    held, done, put = Held(), [], []
    queue = FairQueue(held.submit)
    for source, answers in events:
        command = (source, len(put))
        put.append(command)
        queue.put(source, command, lambda report, _error: done.append(report))
        if answers and held.at_worker:
            held.answer()
        sources = [name for (name, _), _ in held.at_worker]
        assert len(sources) <= 4
        assert all(sources.count(name) <= 2 for name in sources)
    while held.at_worker:
        held.answer()
    for source in range(4):
        assert [one for one in done if one[0] == source] == [one for one in put if one[0] == source]


def test_few_refused_batches_are_looked_at_at_once():
    """Any client may send them: beyond the room they are refused without a look. One is always looked at."""
    submitted, outcomes = [], []
    work = DeepWork(SimpleNamespace(submit=lambda _command, report: submitted.append(report)))
    half = b"x" * (LOOKED_AT_BYTES_MAX // 2)
    for data in (half * 4, half):
        work.rework(data, None, RULES, outcomes.append, 1 << 20, None)
    assert (len(submitted), [type(each) for each in outcomes]) == (1, [Retriable])
    work.rework(half, Codec.ZSTD, RULES, outcomes.append, 1 << 20, None)
    assert len(submitted) == 2, "what must be opened waits for its turn"
    submitted[0](None, Corrupt("rubbish"))
    for _ in range(3):
        work.rework(half, None, RULES, outcomes.append, 1 << 20, None)
    assert [type(each) for each in outcomes] == [Retriable, Corrupt, Retriable]
