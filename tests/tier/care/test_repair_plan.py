from __future__ import annotations

import pytest

from stratalog.tier.bucket.walk import iter_partitions, iter_topics
from stratalog.tier.care.repair_plan import entry_of_object
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.wire.errors import Corrupt


def test_the_entry_of_an_object_is_that_of_the_manifest(archive):
    """All of it: the CRC of the whole comes from the store."""
    folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
    for entry in archive.manifest.entries:
        assert entry_of_object(archive.store, folder, entry.key, entry.size_bytes) == entry


def test_a_store_without_checksums_has_the_object_read(archive, monkeypatch):
    """To the last byte."""
    folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
    head = archive.store.head
    monkeypatch.setattr(archive.store, "head", lambda key: _without_crc(head(key)))
    entry = archive.manifest.entries[0]
    assert entry_of_object(archive.store, folder, entry.key, entry.size_bytes) == entry


@pytest.mark.parametrize("skip", range(3))
def test_a_reading_that_was_damaged_on_its_way_enters_no_manifest(archive, monkeypatch, skip):
    """Two readings must agree: what is written down is what every later check goes by."""
    folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
    entry = archive.manifest.entries[0]
    faulty = FaultyStore(archive.store, [FaultRule(Fault.CORRUPT, "get_range", skip=skip)])
    monkeypatch.setattr(faulty, "head", lambda key: _without_crc(archive.store.head(key)))
    assert entry_of_object(faulty, folder, entry.key, entry.size_bytes) == entry
    monkeypatch.undo()
    faulty.set_rules([FaultRule(Fault.CORRUPT, "get_range", count=None)])
    monkeypatch.setattr(faulty, "head", lambda key: _without_crc(archive.store.head(key)))
    with pytest.raises(Corrupt, match="with other bytes each time"):
        entry_of_object(faulty, folder, entry.key, entry.size_bytes)


def _without_crc(info):
    from msgspec.structs import replace

    return replace(info, crc32c=None)


def test_an_object_under_another_key_is_refused(archive):
    """Moved by hand, it would be taken for other offsets, or for another partition's."""
    folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
    entry = archive.manifest.entries[0]
    for key in (
        archive.partition.segment_key(0, 50, entry.epoch, entry.uuid),
        archive.other.segment_key(entry.base, entry.end, entry.epoch, entry.uuid),
    ):
        archive.store.put(key, archive.raw_entry(0))
        with pytest.raises(Corrupt):
            entry_of_object(archive.store, folder if "orders" in key else other_folder(archive), key, entry.size_bytes)


def other_folder(archive):
    """The folder of the other topic."""
    return next(iter_partitions(archive.store, list(iter_topics(archive.store))[1]))
