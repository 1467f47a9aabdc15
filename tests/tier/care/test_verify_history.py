from __future__ import annotations

from msgspec.structs import replace

from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.pages import compressed
from stratalog.tier.manifests.parts import HISTORY_KIND, TrashEntry


def test_a_copy_in_the_middle_of_the_history_that_was_changed_is_found(archive):
    """Only deep reads the whole chain."""
    first = archive.partition.history_key(archive.manifest.history.seq - 1, "b1")
    archive.store.put(first, compressed(to_bytes(replace(archive.manifest, high_watermark=1))))
    assert archive.anomalies() == []
    assert [(one.kind, one.key) for one in archive.anomalies(deep=True)] == [(AnomalyKind.BROKEN_HISTORY, first)]


def test_a_copy_that_was_removed_on_purpose_is_no_damage_and_one_left_behind_is_an_orphan(archive):
    """The manifest says where the kept ones start; while the trash speaks for an older one it may lie there."""
    before = archive.manifest
    first = archive.partition.history_key(before.history.seq - 1, "b1")
    trimmed = replace(before, history=replace(before.history, start=before.history.seq))
    item = TrashEntry(first, 1, 1, before.seq, "history trimmed", 1, kind=HISTORY_KIND)
    archive.put(replace(trimmed, trash=(*before.trash, item)))
    assert archive.anomalies(deep=True) == []
    archive.put(trimmed)
    assert [(one.kind, one.key) for one in archive.anomalies(deep=True)] == [(AnomalyKind.ORPHAN_OBJECT, first)]
    archive.store.delete_many([first])
    assert archive.anomalies(deep=True) == []
    archive.put(before)
    assert [(one.kind, one.key) for one in archive.anomalies(deep=True)] == [(AnomalyKind.BROKEN_HISTORY, first)]
