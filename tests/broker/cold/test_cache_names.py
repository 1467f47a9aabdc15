"""The meaning of cache files' names."""

from __future__ import annotations

import pytest

from stratalog.broker.cold.cache_names import FoundChunk, chunk_name, known_files
from stratalog.tier.reading.remote_log import ChunkId

TOPIC, OBJECT = bytes(range(16)), bytes(range(16, 32))


def name(number, unique="ab-1"):
    """The file of one chunk."""
    return chunk_name(TOPIC, ChunkId(OBJECT, number), unique)


def test_a_name_says_which_chunk_it_is_and_whose():
    """Written and read back."""
    assert known_files([(name(7), 5)], 100) == ([FoundChunk(name(7), 5, TOPIC, ChunkId(OBJECT, 7))], [])


@pytest.mark.parametrize(
    "other", ["notes.txt", "a.chunk.b", "0" * 32, f"{'g' * 32}.1.chunk", "lost+found", "x" + "0" * 31 + ".1.chunk"]
)
def test_files_of_others_are_neither_kept_nor_removed(other):
    """A name that is no chunk's is passed over and stays in the directory."""
    assert known_files([(other, 5)], 100) == ([], [])


@pytest.mark.parametrize(
    "old", [f"{'0' * 32}.3.chunk", f"{'0' * 32}.3.chunk.ab-1", f"{'0' * 32}.3.chunk.tmp", name(1) + ".tmp"]
)
def test_half_written_files_and_those_of_earlier_releases_go(old):
    """They cannot be used."""
    assert known_files([(old, 5)], 100) == ([], [old])


def test_the_latest_are_kept_as_far_as_there_is_room():
    """One file for each chunk, in order of age; an empty one is of no use."""
    files = [(name(1), 40), (name(2), 40), (name(2, "ab-2"), 40), (name(3), 40), (name(4), 0)]
    kept, useless = known_files(files, 100)
    assert [found.name for found in kept] == [name(2, "ab-2"), name(3)]
    assert set(useless) == {name(1), name(2), name(4)}
