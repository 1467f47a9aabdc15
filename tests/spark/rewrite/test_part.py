"""The protocol of one task of a run."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from stratalog.spark.rewrite import part as module
from stratalog.spark.rewrite.part import RewritePart, changed, live_range, part_uuid
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.jobs import JOBS_MAX, JobRefused
from stratalog.tier.manifests.manifest_store import ManifestContended, change_manifest
from stratalog.tier.manifests.parts import Job
from stratalog.tier.manifests.runs import COMPACT_KIND, JobsFull, RunStruckOff, begin_run, list_part
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.stores.memory_store import MemoryStore

RUN = b"r" * 16


@pytest.fixture
def store(rewrite_rig: Any) -> Any:
    held = MemoryStore("memory:part")
    rewrite_rig.archive(held, rewrite_rig.make_history(1))
    return held


def test_a_uuid_is_of_one_run_partition_and_range() -> None:
    """Brokers know an object's chunks by its uuid alone."""
    here, there = PartitionId("t", b"t" * 16, 0), PartitionId("t", b"t" * 16, 1)
    uuids = {part_uuid(run, whose, base) for run in (RUN, b"s" * 16) for whose in (here, there) for base in (0, 10)}
    assert {len(uuid) for uuid in uuids} == {16}
    assert len(uuids) == 8
    assert part_uuid(RUN, here, 0) == part_uuid(RUN, here, 0)


def test_the_live_range_is_exact(rewrite_rig: Any, store: Any) -> None:
    """Borders are those of objects, or there is none."""
    manifest = rewrite_rig.manifest_of(store)
    entries = manifest.entries
    assert live_range(store, manifest, entries[1].base, entries[2].end) == entries[1:3]
    for base, end in ((entries[1].base + 1, entries[2].end), (entries[1].base, entries[2].end + 1), (9999, 10000)):
        with pytest.raises(JobRefused, match="Run it again"):
            live_range(store, manifest, base, end)


def test_others_are_waited_for(rewrite_rig: Any, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is full, a manifest that many change; not for ever, and not for a run that is dead."""
    slept: list[float] = []
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=slept.append))  # other threads sleep on
    errors: list[Exception] = [JobsFull("full"), ManifestContended("busy")]

    def transition(manifest: Any) -> Any:
        if errors:
            raise errors.pop(0)
        return manifest

    changed(store, rewrite_rig.topic(), transition, RUN)
    assert len(slept) == 2
    assert 0 < slept[0] <= 0.1
    errors[:] = [JobsFull("full")] * 500
    with pytest.raises(JobsFull):
        changed(store, rewrite_rig.topic(), transition, RUN)
    assert 300 < sum(slept) < 700
    errors[:] = [RunStruckOff("dead")]
    with pytest.raises(RunStruckOff):
        changed(store, rewrite_rig.topic(), transition, RUN)


def test_a_part_waits_for_its_place_in_the_list(rewrite_rig: Any, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until another one has ended."""
    whose = rewrite_rig.topic()
    change_manifest(store, whose, lambda found: begin_run(found, Job(RUN, COMPACT_KIND, 1, 1 << 50), now_ms=1))
    others = [Job(bytes([n, 9] * 8), COMPACT_KIND, 1, 2, (bytes([n, 9] * 8),)) for n in range(JOBS_MAX - 1)]
    for job in others:
        change_manifest(store, whose, lambda found, job=job: list_part(found, RUN, job, now_ms=1))

    def ended(_: float) -> None:
        RewritePart(store, whose, RUN, others.pop().uuid, COMPACT_KIND).end()

    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=ended, time_ns=time.time_ns))
    entry = rewrite_rig.manifest_of(store).entries[0]
    part = RewritePart(store, whose, RUN, part_uuid(RUN, whose, entry.base), COMPACT_KIND)
    data = store.get(entry.key)[0][: entry.data_bytes]
    output = part.replace(
        [entry], SegmentRequest(whose, part.uuid, entry.base, entry.end, entry.epoch, [data]), storage_class=""
    )
    after = rewrite_rig.manifest_of(store)
    assert after.entries[0] == output
    assert len(after.jobs) == JOBS_MAX - 1
    part.end()
    assert rewrite_rig.manifest_of(store) == after
