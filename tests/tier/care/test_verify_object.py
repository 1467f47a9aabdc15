from __future__ import annotations

import pytest

from stratalog.tier.care.verify_object import verify_object_bytes
from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore


@pytest.mark.story
def test_every_flipped_bit_of_an_object_is_found(archive):
    """Data, indexes, chunk table, footer and trailer: there is no byte that nothing covers."""
    entry = archive.manifest.entries[0]
    raw = archive.raw_entry(0)
    for position in [*range(0, len(raw), 101), *range(entry.data_bytes, len(raw), 17), len(raw) - 1]:
        archive.flip(entry.key, position)
        assert archive.kinds(deep=True), f"a flipped bit at position {position} was not found"
        archive.store.put(entry.key, raw)
    assert archive.anomalies(deep=True) == []


def test_an_entry_and_an_object_of_another_partition_are_foreign(archive):
    """A manifest that names another partition's object, and an object that says it is another's."""
    data = archive.log_bytes.segment(archive.manifest.entries[0].base, 5, leader_epoch=2)
    archive.replace_object(0, data, partition=archive.other)
    assert archive.kinds(deep=True) == {AnomalyKind.FOREIGN_KEY}
    stranger = from_bytes(archive.store.get(archive.other.manifest_key)[0], "").entries[0]
    archive.change(0, key=stranger.key)
    assert AnomalyKind.FOREIGN_KEY in archive.kinds()


def test_compaction_may_have_removed_where_an_epoch_began(archive):
    """The entry says where it began; the first batch that is left of it may come later, but of no other epoch."""
    base = archive.manifest.entries[0].base
    data = archive.log_bytes.segment(base, 2, leader_epoch=1) + archive.log_bytes.segment(base + 30, 2, leader_epoch=2)
    for begun, found in ((base + 25, set()), (base + 30, set()), (base + 35, {AnomalyKind.ENTRY_DIFFERS})):
        epochs = (LeaderEpoch(1, base), LeaderEpoch(2, begun))
        archive.replace_object(0, data, epochs=epochs)
        assert archive.kinds(deep=True) == found, begun


def test_compaction_may_have_removed_all_of_the_epoch_in_which_an_object_begins(archive):
    """The first batch that is left comes later in the object, and in a later epoch."""
    base = archive.manifest.entries[0].base
    data = archive.log_bytes.segment(base + 30, 2, leader_epoch=2)
    for begun, found in ((base + 25, set()), (base + 35, {AnomalyKind.ENTRY_DIFFERS})):
        epochs = (LeaderEpoch(1, base), LeaderEpoch(2, begun))
        archive.replace_object(0, data, epochs=epochs)
        assert archive.kinds(deep=True) == found, begun


@pytest.mark.parametrize("fault", [Fault.CORRUPT, Fault.TRUNCATE])
def test_damage_on_the_way_of_an_object_is_no_anomaly(archive, fault):
    """Each kind of request is damaged as often as it may be; the archive is well."""
    entry = archive.manifest.entries[0]
    for operation in ("get_range", "get_suffix"):
        for skip in range(6):
            faulty = FaultyStore(archive.store, [FaultRule(fault, operation, skip=skip, count=READS_MAX - 1)])
            assert verify_object_bytes(faulty, archive.manifest.partition, entry) == []
