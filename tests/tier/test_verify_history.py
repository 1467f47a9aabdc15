from __future__ import annotations

from dataclasses import replace

from stratalog.tier.anomaly import AnomalyKind
from stratalog.tier.manifest_json import to_bytes
from stratalog.tier.manifest_pages import compressed


def test_a_copy_in_the_middle_of_the_history_that_was_changed_is_found(archive):
    """Only deep reads the whole chain."""
    first = archive.partition.history_key(archive.manifest.history.seq - 1, "b1")
    archive.store.put(first, compressed(to_bytes(replace(archive.manifest, high_watermark=1))))
    assert archive.anomalies() == []
    assert [(one.kind, one.key) for one in archive.anomalies(deep=True)] == [(AnomalyKind.BROKEN_HISTORY, first)]
