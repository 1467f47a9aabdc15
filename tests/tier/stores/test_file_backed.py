from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores import file_backed
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.file_backed import SeenBytes, file_of, look_through, pieces_of
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.prefix_store import PrefixStore
from stratalog.tier.stores.store import InvalidRange, NotFound
from stratalog.tier.stores.wrappers import CountingStore

DATA = bytes(range(256)) * 8


def shown(store, key, position, length):
    """All that was shown, as one, and the answer."""
    seen = bytearray()
    answer = look_through(store, key, position, length, lambda pieces: seen.extend(b"".join(map(bytes, pieces))))
    return bytes(seen), answer


@given(st.integers(0, len(DATA) - 1), st.integers(1, 2000))
def test_a_range_is_shown_as_it_is_read(tmp_path_factory, position, window_bytes):
    """Each size of the window shows the bytes of a read, from files and from memory; the request counts as a read."""
    local = LocalStore(str(tmp_path_factory.mktemp("store")), sync=False)
    length = len(DATA) - position
    for store in (local, MemoryStore()):
        store.put("a/k", DATA)
        counting = CountingStore(store)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_backed, "_WINDOW_BYTES", window_bytes)
            patch.setattr(file_backed._windows, "free", None)
            assert shown(PrefixStore(counting, "a"), "k", position, length) == (DATA[position:], SeenBytes(length))
            file_backed._windows.free = None
        assert (counting.count("get_range", "ok"), counting.received_bytes) == (1, length)


def test_an_unreadable_file_is_refused_like_a_read(tmp_path):
    """No such object, and a range beyond its end; nothing is shown."""
    store = LocalStore(str(tmp_path), sync=False)
    store.put("k", DATA)
    with pytest.raises(InvalidRange):
        shown(store, "k", 1, len(DATA))
    with pytest.raises(NotFound):
        shown(store, "l", 0, 1)


def test_a_file_that_ends_early_is_an_error(tmp_path):
    """It shrank since its length was asked for."""
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with path.open("rb") as file, pytest.raises(OSError, match="the file ended at byte 2048, expected 2058"):
        for _ in pieces_of(file.fileno(), 0, len(DATA) + 10):
            pass


def test_two_looks_at_once_have_a_window_each(tmp_path):
    """A caller that opens a second file while it uses a first one sees both."""
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with path.open("rb") as file:
        outer = pieces_of(file.fileno(), 0, 10)
        first = next(outer)
        assert [bytes(piece) for piece in pieces_of(file.fileno(), 100, 10)] == [DATA[100:110]]
        assert bytes(first) == DATA[:10]
        outer.close()


def test_faults_of_reads_are_faults_of_looks(tmp_path):
    """A store that damages what is read damages what is shown."""
    local = LocalStore(str(tmp_path), sync=False)
    local.put("k", DATA)
    store = FaultyStore(local, [FaultRule(Fault.CORRUPT, "get_range"), FaultRule(Fault.TRUNCATE, "get_range")])
    flipped, _ = shown(store, "k", 0, len(DATA))
    assert sum((a ^ b).bit_count() for a, b in zip(flipped, DATA, strict=True)) == 1
    assert shown(store, "k", 0, len(DATA))[0] == DATA[: len(DATA) // 2]
    assert shown(store, "k", 0, len(DATA))[0] == DATA


def test_only_stores_of_files_tell_a_file(tmp_path):
    """Others say that there is none."""
    assert file_of(LocalStore(str(tmp_path), sync=False), "k") == str(tmp_path / "k")
    assert file_of(MemoryStore(), "k") is None
