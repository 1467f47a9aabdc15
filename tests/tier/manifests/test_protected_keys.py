from __future__ import annotations

from msgspec.structs import replace

from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.jobs import end_job, list_job
from stratalog.tier.manifests.parts import Job, Pin, TrashEntry


def test_trash_and_jobs_speak_for_their_objects(archive):
    """Objects that wait for removal, or that a job reads or writes, are no orphans."""
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


def test_pages_that_a_cut_or_a_job_may_need_are_no_orphans(archive):
    """Garbage collection holds them back, so nothing is wrong with them; nor with objects of a job that names no inputs."""
    manifest = archive.manifest
    replaced = archive.partition.page_key(0, 5, 1)
    unnamed = archive.partition.segment_key(0, 5, 1, bytes(15) + b"u")
    archive.store.put(replaced, b"a page")
    assert [one.key for one in archive.anomalies()] == [replaced]
    archive.put(replace(manifest, pins=(Pin("cut", 1, manifest.remote_end, 0),)))
    assert archive.anomalies() == []
    job = Job(bytes(15) + b"j", "merge", 1, 2, (bytes(15) + b"i",))
    archive.put(replace(manifest, jobs=(job,)))
    assert archive.anomalies() == []
    archive.store.put(unnamed, archive.raw_entry(0))
    assert [one.key for one in archive.anomalies()] == [unnamed]
    archive.put(replace(manifest, jobs=(replace(job, inputs=()),)))
    assert archive.anomalies() == []
