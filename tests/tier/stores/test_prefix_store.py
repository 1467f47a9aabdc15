from __future__ import annotations

import uuid

import pytest

from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.prefix_store import PrefixStore
from stratalog.tier.stores.store import InvalidKey, NotFound, UploadInfo


def test_everything_happens_below_the_prefix():
    """Keys are relative in every answer, and neighbours of the prefix are out of sight."""
    memory = MemoryStore("memory:m")
    memory.put("archive2/k", b"neighbour")
    memory.put("archiv", b"neighbour")
    store = PrefixStore(memory, "/archive/")
    version = store.put("k", b"1")
    store.compare_and_swap("k", b"12", version)
    store.put_if_absent("a/n", b"345")
    store.put_large("a/l", b"6", part_bytes=1)
    assert store.url == "memory:m/archive"
    assert memory.get("archive/k")[0] == store.get("k")[0] == b"12"
    assert (store.get_range("a/n", 1, 1), store.get_suffix("a/n", 1)) == (b"4", (b"5", 3))
    assert store.head("a/n").key == "a/n"
    assert [info.key for info in store.list("")] == ["a/l", "a/n", "k"]
    assert [info.key for info in store.list("a/", "a/l")] == ["a/n"]
    store.delete_many(["k", "a/l"])
    assert [info.key for info in memory.list("")] == ["archiv", "archive/a/n", "archive2/k"]


def test_errors_name_the_whole_key():
    """The message gives the key as it is in the bucket."""
    with pytest.raises(NotFound, match="'archive/k'"):
        PrefixStore(MemoryStore(), "archive").get("k")


def test_the_prefix_does_not_hide_bad_keys():
    """A key refused without a prefix is refused with one."""
    store = PrefixStore(MemoryStore(), "archive")
    for key in (".hidden", "../k", "", "/k"):
        with pytest.raises(InvalidKey):
            store.put(key, b"")
    with pytest.raises(InvalidKey):
        list(store.list("../"))


def test_uploads_are_relative_too():
    """Unfinished uploads are listed and aborted by relative keys."""
    upload_id = uuid.uuid4().hex
    aborted = []
    memory = MemoryStore()
    memory.list_uploads = lambda prefix: iter([UploadInfo(prefix + "k", upload_id, 1)])
    memory.abort_upload = lambda key, found: aborted.append((key, found))
    store = PrefixStore(memory, "archive")
    (upload,) = store.list_uploads("a/")
    assert upload.key == "a/k"
    store.abort_upload(upload.key, upload.upload_id)
    assert aborted == [("archive/a/k", upload_id)]
