"""quorum-state is written in a thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum.state_writing import StateWriting
from stratalog.metadata.raft.actions import StoreQuorumState


@pytest.mark.parametrize("error", [None, OSError(28, "no space")])
async def test_the_end_comes_with_its_error(until, error):
    """While a state is written, that is known."""
    stored, ended = [], []

    def store_state(state):
        stored.append(state)
        if error is not None:
            raise error

    with ThreadPoolExecutor(1) as threads:
        writing = StateWriting(SimpleNamespace(threads=threads, store_state=store_state), ended.append)
        writing.write(StoreQuorumState("a state"))
        assert writing.is_under_way
        await until(lambda: ended)
    assert (stored, ended, writing.is_under_way) == (["a state"], [error], False)


async def test_a_cancelled_write_has_no_end():
    """The node has ended."""
    ended = []
    loop = asyncio.get_running_loop()
    writing = StateWriting(SimpleNamespace(threads=None, store_state=lambda _: None), ended.append)
    pending = loop.create_future()
    pending.cancel()
    writing._stored(pending)
    assert ended == []
