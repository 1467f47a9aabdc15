"""quorum-state is written in a thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum import state_writing
from stratalog.broker.quorum.state_writing import StateWriting
from stratalog.metadata.raft.actions import StoreQuorumState


@pytest.mark.parametrize("error", [None, OSError(5, "broken"), ValueError("a mistake")])
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
    writing._stored(StoreQuorumState("a state"), 0, pending)
    assert ended == []


async def test_a_full_disk_is_waited_for(until, monkeypatch, caplog):
    """A node that ends for it would come back to a disk that is as full."""
    monkeypatch.setattr(state_writing, "AGAIN_SECONDS", 0.01)
    stored, ended, room = [], [], []

    def store_state(state):
        stored.append(state)
        if not room:
            raise OSError(28, "no space")

    with ThreadPoolExecutor(1) as threads:
        writing = StateWriting(SimpleNamespace(threads=threads, store_state=store_state), ended.append)
        writing.write(StoreQuorumState("a state"))
        await until(lambda: len(stored) > 3)
        assert (writing.is_under_way, ended) == (True, [])
        room.append(True)
        await until(lambda: ended)
        assert (ended, writing.is_under_way) == ([None], False)
        assert caplog.text.count("quorum-state cannot be written") == 1
        room.clear()
        writing.write(StoreQuorumState("another"))
        await until(lambda: isinstance(writing._storing, asyncio.TimerHandle))
        writing.close()
        count = len(stored)
        await asyncio.sleep(0.05)
        assert (len(stored), writing.is_under_way, ended) == (count, False, [None])
