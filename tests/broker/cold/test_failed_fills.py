"""Fills that end in an error: the cache goes on, and readers that wait for a chunk get it, or hear of it."""

from __future__ import annotations

import pytest

from stratalog.broker.cold.fill_gate import FILLS_MAX
from stratalog.tier.messages import commands
from tests.broker.cold.chunk_cache_rig import INDEX, PARTITION, Cache, ref


def broken(_reader):
    raise AttributeError("a reader of another kind")


@pytest.fixture
def full(tmp_path):
    """A cache with room for one chunk, which is wanted by two readers of a kind that cannot be judged."""
    cache = Cache(tmp_path / "cache", 29, is_gone=broken)
    cache.want(ref(9), reader="old")
    cache.answer()
    return cache


def test_an_error_of_the_books_leaves_no_chunk_on_its_way_for_ever(full):
    """That which was taken in before it is fetched, for its reader and for others."""
    with pytest.raises(AttributeError):
        full.want(ref(0), ref(5), reader="r")
    assert full.want(ref(0), reader="later")
    full.answer()
    assert full.woken[-2:] == ["r", "later"]
    assert full.files.get(ref(0).id, "later") is not None


def test_an_error_of_the_books_takes_no_fetch_away(full):
    """A chunk that came with its table is over, whatever is made of it."""
    full.want(ref(8), reader="old")
    full.answer()
    for _ in range(FILLS_MAX):
        full.now_ms += 1000
        first = full.files.begin_first(PARTITION, bytes(16), 4, "r")
        filled = commands.FilledChunk("5".join(first), 10, *INDEX, 60)
        with pytest.raises(AttributeError):
            full.files.end_first(PARTITION, ref(5).id, filled, "r")
    assert full.files.begin_first(PARTITION, bytes(16), 4, "r") is not None


def test_a_failed_fill_is_over_for_all_its_chunks_before_readers_hear_of_it(tmp_path):
    """They may ask again at once, and an error of theirs leaves no chunk on its way."""
    cache = Cache(tmp_path / "cache")
    cache.files.want(PARTITION, [ref(0), ref(1)], "r", failed=lambda *_: broken("r"))
    _, answered = cache.submitted.pop()
    with pytest.raises(AttributeError):
        answered(commands.FailedReport("down", retriable=True))
    assert cache.want(ref(0), ref(1), reader="later")
    assert [len(command.chunks) for command, _ in cache.submitted] == [2]
