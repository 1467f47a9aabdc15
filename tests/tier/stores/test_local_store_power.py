"""The power goes while a local store writes: at every moment the disk holds an object as it was or as it will be.

The test follows durability call by call: a file's bytes by its own fsync, a name by the fsync of its directory, which
must be durable itself. All else is lost.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.store import NotFound

KEY = "topics/t/0000000000/manifest.json"
OTHER = "topics/t/0000000000/seg/a.seg"


class Platter:
    """Files that are on the disk below ``root`` for certain, after each fsync so far."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bytes: dict[int, bytes] = {}
        self._names: dict[Path, int | None] = {}
        self._fsync = os.fsync
        self.moments: list[dict[str, bytes]] = [{}]

    def fsync(self, descriptor: int) -> None:
        """In the place of `os.fsync`."""
        self._fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 - the link is the kernel's
        if path.is_dir():
            kept = {at: inode for at, inode in self._names.items() if at.parent != path}
            found = {at: None if at.is_dir() else at.stat().st_ino for at in path.iterdir()}
            self._names = kept | found
        else:
            self._bytes[os.fstat(descriptor).st_ino] = path.read_bytes()
        self.moments.append(self._objects())

    def _objects(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.root)): self._bytes.get(inode, b"")
            for path, inode in self._names.items()
            if inode is not None and all(one in self._names for one in path.parents if self._below(one))
        }

    def _below(self, path: Path) -> bool:
        return path != self.root and path.is_relative_to(self.root)


@pytest.fixture
def platter(tmp_path, monkeypatch):
    """The disk of a store in ``tmp_path/bucket``."""
    found = Platter(tmp_path / "bucket")
    monkeypatch.setattr(os, "fsync", found.fsync)
    return found


@pytest.fixture
def after_power(tmp_path):
    """A store on what was left: as many as there are moments."""

    def make(number: int, objects: dict[str, bytes]) -> LocalStore:
        root = tmp_path / f"left{number}"
        for name, data in objects.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        root.mkdir(exist_ok=True)
        return LocalStore(str(root))

    return make


def read(store: LocalStore, key: str) -> bytes | None:
    """The object; None if there is none."""
    try:
        return store.get(key)[0]
    except NotFound:
        return None


def replace_by_swap(store: LocalStore) -> None:
    """The manifest's way."""
    store.compare_and_swap(KEY, b"new" * 5000, store.head(KEY).version)


CHANGES = {
    "create": (None, lambda store: store.put_if_absent(KEY, b"new" * 5000), b"new" * 5000),
    "replace": (b"old" * 7000, replace_by_swap, b"new" * 5000),
    "overwrite": (b"old" * 7000, lambda store: store.put(KEY, b"new" * 5000), b"new" * 5000),
    "delete": (b"old" * 7000, lambda store: store.delete_many([KEY]), None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_object_is_as_it_was_or_as_it_will_be(platter, after_power, name):
    """Between any two syncs; and once the change was answered it is there."""
    before, change, wanted = CHANGES[name]
    store = LocalStore(str(platter.root))
    store.put(OTHER, b"beside")
    if before is not None:
        store.put(KEY, before)
    first = len(platter.moments) - 1
    change(store)
    seen = []
    for number, objects in enumerate(platter.moments[first:]):
        left = after_power(number, objects)
        assert read(left, OTHER) == b"beside"
        seen.append(read(left, KEY))
        assert {info.key for info in left.list("")} == {OTHER} | ({KEY} if seen[-1] is not None else set())
    assert set(seen) == {before, wanted}
    assert (seen[0], seen[-1]) == (before, wanted)


def test_unsynced_bytes_are_lost_here(platter):
    """The platter can tell: a store that syncs nothing leaves nothing."""
    LocalStore(str(platter.root), sync=False).put(KEY, b"data")
    assert platter.moments == [{}]
