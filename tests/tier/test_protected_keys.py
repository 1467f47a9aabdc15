from __future__ import annotations

from dataclasses import replace

from stratalog.tier.anomaly import AnomalyKind
from stratalog.tier.manifest_jobs import end_job, list_job
from stratalog.tier.manifest_parts import Job, TrashEntry


def test_trash_and_jobs_speak_for_their_objects(archive):
    """What waits for its removal, and what a job reads or writes, is no orphan."""
    manifest = archive.manifest
    entry = manifest.entries[0]
    waiting = archive.partition.segment_key(entry.base, entry.end, 1, bytes(16))
    written = archive.partition.segment_key(entry.base, entry.end, 1, bytes(15) + b"j")
    for key in (waiting, written):
        archive.store.put(key, archive.raw_entry(0))
    trashed = replace(manifest, trash=(TrashEntry(waiting, 10, 1, manifest.seq, "log start"),))
    listed = list_job(trashed, Job(bytes(15) + b"j", "merge", 1, 2), now_ms=3)
    archive.put(listed)
    assert archive.anomalies() == []
    archive.put(end_job(listed, bytes(15) + b"j", now_ms=4))
    assert [(one.kind, one.key) for one in archive.anomalies()] == [(AnomalyKind.ORPHAN_OBJECT, written)]
