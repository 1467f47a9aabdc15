"""The last step of a rewriting job: pages are written before the manifest that names them, and never twice."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from stratalog.tier.bucket.swap_in import swapped_in
from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.jobs import JobRefused, list_job, swap
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.parts import Job
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.work.archive_writer import archive_log

JOB = bytes([9] * 16)


@pytest.fixture
def archive(memory_store, log_bytes, monkeypatch):
    """Twelve objects, most of them in pages."""
    monkeypatch.setattr(manifest_pages, "INLINE_MAX", 4)
    monkeypatch.setattr(manifest_pages, "INLINE_KEPT", 2)
    for number in range(12):
        archive_log(memory_store, log_bytes.partition, [log_bytes.segment(10 * number, 1)], now_ms=1, cluster_id="c")
    return memory_store


def replaced(archive, log_bytes, first, count):
    """Swap one object in for some."""
    manifest = read_manifest(archive, log_bytes.partition).manifest
    inputs = list(iter_entries(archive, manifest))[first : first + count]
    job = Job(JOB, "compact", 1, 2, tuple(entry.uuid for entry in inputs))
    change_manifest(archive, manifest.partition, lambda found: list_job(found, job, now_ms=1))
    data = [archive.get(entry.key)[0][: entry.data_bytes] for entry in inputs]
    output = put_segment(
        archive, build_segment(SegmentRequest(manifest.partition, JOB, inputs[0].base, inputs[-1].end, 1, data))
    )

    def transition(found):
        return swapped_in(archive, found, inputs, output, partial(swap, now_ms=3))

    change_manifest(archive, manifest.partition, transition)
    return transition


@pytest.mark.parametrize(("first", "count"), [(0, 3), (2, 8), (10, 2)])
def test_inputs_may_stand_in_pages(archive, log_bytes, first, count):
    """Before, across and behind their border; a second attempt finds that it is done."""
    assert read_manifest(archive, log_bytes.partition).manifest.pages
    transition = replaced(archive, log_bytes, first, count)
    manifest = read_manifest(archive, log_bytes.partition).manifest
    found = [(entry.base, entry.end) for entry in iter_entries(archive, manifest)]
    expected = [(10 * n, 10 * n + 10) for n in range(12)]
    expected[first : first + count] = [(10 * first, 10 * (first + count))]
    assert found == expected
    assert transition(manifest) is manifest


def test_an_input_that_is_gone_refuses(archive, log_bytes):
    """Whether in a page or not; only a page that no manifest names has been written."""
    before = list(iter_entries(archive, read_manifest(archive, log_bytes.partition).manifest))
    replaced(archive, log_bytes, 2, 3)
    for number in (2, 11):
        job = Job(bytes([number] * 16), "compact", 1, 2, (before[number].uuid,))
        change_manifest(archive, log_bytes.partition, lambda found, job=job: list_job(found, job, now_ms=1))
        output = replace(before[number], uuid=job.uuid)
        manifest = read_manifest(archive, log_bytes.partition).manifest
        if number == 11:
            assert (
                swapped_in(archive, manifest, before[number : number + 1], output, partial(swap, now_ms=3)) != manifest
            )
            continue
        with pytest.raises(JobRefused):
            swapped_in(archive, manifest, before[number : number + 1], output, partial(swap, now_ms=3))
