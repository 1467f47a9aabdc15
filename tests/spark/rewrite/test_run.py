"""A run is listed for as long as it lasts."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stratalog.spark.rewrite import run as module
from stratalog.spark.rewrite.run import RUN_MS, RewriteRun
from stratalog.tier.manifests.jobs import JobRefused, end_job
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.runs import COMPACT_KIND, ERASE_KIND, RunStruckOff, RunUnderWay
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore


@pytest.fixture
def store(rewrite_rig: Any) -> Any:
    held = MemoryStore("memory:run")
    for number in range(2):
        rewrite_rig.archive(held, rewrite_rig.make_history(number), number)
    return held


def jobs(rig: Any, store: Any, partition: int = 0) -> list[tuple[bytes, str]]:
    return [(job.uuid, job.kind) for job in rig.manifest_of(store, partition).jobs]


def test_a_run_is_listed_before_anything_is_read_and_ended_in_any_case(rewrite_rig: Any, store: Any) -> None:
    """The manifest that it gets is the one that lists it."""
    with RewriteRun(store, COMPACT_KIND) as run:
        manifest = run.begin(rewrite_rig.topic())
        assert [job.uuid for job in manifest.jobs] == [run.uuid]
        assert manifest.jobs[0].expires_ms == manifest.jobs[0].listed_ms + RUN_MS
        run.begin(rewrite_rig.topic(1))
        with RewriteRun(store, ERASE_KIND) as other, pytest.raises(RunUnderWay):
            other.begin(rewrite_rig.topic())
        assert jobs(rewrite_rig, store) == [(run.uuid, COMPACT_KIND)]
        with RewriteRun(store, ERASE_KIND, take_over=True) as other:
            other.begin(rewrite_rig.topic())
            assert jobs(rewrite_rig, store) == [(other.uuid, ERASE_KIND)]
    assert jobs(rewrite_rig, store) == jobs(rewrite_rig, store, 1) == []


def test_the_end_says_how_far_the_archive_is_clean(rewrite_rig: Any, store: Any) -> None:
    """If all that is live below is clean; a run that was struck off says nothing."""
    entries = rewrite_rig.manifest_of(store).entries
    with RewriteRun(store, COMPACT_KIND) as run:
        run.begin(rewrite_rig.topic())
        run.begin(rewrite_rig.topic(1))
        with pytest.raises(JobRefused):
            run.finish(rewrite_rig.topic(), entries[2].end, {entries[0].uuid})
        run.finish(rewrite_rig.topic(), entries[1].end, {entry.uuid for entry in entries[:2]})
        change_manifest(store, rewrite_rig.topic(1), lambda found: end_job(found, run.uuid, now_ms=1))
        with pytest.raises(RunStruckOff):
            run.finish(rewrite_rig.topic(1), 10, set())
    assert rewrite_rig.manifest_of(store).archive_clean_offset == entries[1].end
    assert rewrite_rig.manifest_of(store, 1).archive_clean_offset == 0


def test_a_long_run_is_renewed(rewrite_rig: Any, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a third of its time is over; not before, and never when it was struck off."""
    now_ms = [10**12]
    monkeypatch.setattr(module, "_now_ms", lambda: now_ms[0])
    looked = threading.Semaphore(0)
    renew = module.RewriteRun._renew_one

    def watched(self: Any, partition: Any, at_ms: int) -> None:
        renew(self, partition, at_ms)
        looked.release()

    monkeypatch.setattr(module.RewriteRun, "_renew_one", watched)
    with RewriteRun(store, COMPACT_KIND, look_seconds=0.01) as run:
        run.begin(rewrite_rig.topic())
        assert not looked.acquire(timeout=0.1)
        now_ms[0] += RUN_MS // 3
        assert looked.acquire(timeout=10)
        assert rewrite_rig.manifest_of(store).jobs[0].expires_ms == now_ms[0] + RUN_MS
        assert not looked.acquire(timeout=0.1)
        change_manifest(store, rewrite_rig.topic(), lambda found: end_job(found, run.uuid, now_ms=1))
        now_ms[0] += RUN_MS
        assert looked.acquire(timeout=10)
        assert not looked.acquire(timeout=0.1)
    assert jobs(rewrite_rig, store) == []


def test_a_bucket_that_fails_is_asked_again(
    rewrite_rig: Any, store: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A renewal has time; an end that fails is left to the clock, and told."""
    now_ms = [10**12]
    monkeypatch.setattr(module, "_now_ms", lambda: now_ms[0])
    failing = FaultyStore(store)
    with RewriteRun(failing, COMPACT_KIND, look_seconds=0.01) as run:
        run.begin(rewrite_rig.topic())
        failing.set_rules([FaultRule(Fault.FAIL_BEFORE, "get", count=2)])
        now_ms[0] += RUN_MS // 2
        for _ in range(1000):
            if rewrite_rig.manifest_of(store).jobs[0].expires_ms == now_ms[0] + RUN_MS:
                break
            threading.Event().wait(0.01)
        else:
            pytest.fail("the run was not renewed")
        failing.set_rules([FaultRule(Fault.FAIL_BEFORE, "*", count=None)])
    assert "this is tried again" in caplog.text
    assert "it runs out by itself" in caplog.text
    assert jobs(rewrite_rig, store) == [(run.uuid, COMPACT_KIND)]
