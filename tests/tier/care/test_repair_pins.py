"""The offsets of a cut stay after its partition's manifest was lost and rebuilt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from stratalog.tier.bucket.cuts import CutState, cut_to_bytes
from stratalog.tier.bucket.trash import leaving
from stratalog.tier.bucket.walk import iter_partitions, iter_topics
from stratalog.tier.care.repair import apply_repair
from stratalog.tier.care.repair_plan import plan_repair
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.manifests.manifest import set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.parts import Pin
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut, read_cut


@pytest.fixture
def cut(memory_store, log_bytes):
    """A cut of two objects; the log start has moved behind them since."""
    archive_log(memory_store, log_bytes.partition, [log_bytes.segment(at, 10) for at in (0, 100)], now_ms=60)
    made = create_cut(memory_store, "monday", now_ms=50)
    archive_log(memory_store, log_bytes.partition, [log_bytes.segment(200, 10)], now_ms=60)
    return made


def rebuild(store, partition):
    """The manifest after it was lost and repaired."""
    store.delete_many([partition.manifest_key])
    folders = iter_partitions(store, next(iter_topics(store)))
    folder = next(one for one in folders if one.prefix == partition.prefix)
    with ThreadPoolExecutor(2) as readers:
        plan = plan_repair(store, folder, partition.topic, VerifyOptions(2**62), readers=readers)
    return apply_repair(store, plan, uuid=b"r" * 16, now_ms=70).manifest


def test_a_rebuilt_manifest_holds_what_cuts_hold(memory_store, log_bytes, cut):
    """Retention moves it to the trash, where it stays."""
    rebuilt = rebuild(memory_store, log_bytes.partition)
    assert rebuilt.pins == (Pin(cut.cut_id, 50, 200, 0, seq=0),)
    change_manifest(
        memory_store,
        log_bytes.partition,
        lambda manifest: set_log_start(manifest, manifest.claimant, 200, now_ms=80, reason="retention"),
    )
    manifest = read_manifest(memory_store, log_bytes.partition).manifest
    assert len(manifest.trash) == 2
    assert leaving(manifest, now_ms=2**60, grace_ms=0, retention=None) == ()
    assert rebuild(memory_store, log_bytes.partition).pins == rebuilt.pins


def test_no_cut_is_read_for_a_manifest_that_can_be_read(memory_store, log_bytes, cut, monkeypatch):
    """It has its pins. A bucket of many cuts and damaged objects would be read once for each partition."""
    partition = log_bytes.partition
    (pin,) = read_manifest(memory_store, partition).manifest.pins
    memory_store.delete_many([read_manifest(memory_store, partition).manifest.entries[-1].key])
    monkeypatch.setattr("stratalog.tier.care.repair_plan.missing_pins", lambda *_: pytest.fail("cuts are read"))
    folder = next(iter_partitions(memory_store, next(iter_topics(memory_store))))
    with ThreadPoolExecutor(2) as readers:
        plan = plan_repair(memory_store, folder, partition.topic, VerifyOptions(2**62), readers=readers)
    assert plan.lost == ((200, 300),)
    repaired = apply_repair(memory_store, plan, uuid=b"r" * 16, now_ms=70, accept_loss=True, takeover=True).manifest
    assert repaired.pins == (pin,)


@pytest.mark.parametrize(
    ("state", "pinned"),
    [(CutState.CREATING, 1), (None, 1), (CutState.DELETING, 0)],
    ids=["creating", "damaged", "deleting"],
)
def test_a_cut_that_says_nothing_has_a_copy_that_does(memory_store, log_bytes, cut, state, pinned):
    """One that is being made, or whose document is damaged; one that is being deleted needs nothing any more."""
    bare = tuple(member._replace(end_offset=0, seq=-1, sha256="") for member in cut.partitions)
    raw = b"nonsense" if state is None else cut_to_bytes(replace(cut, state=state, partitions=bare))
    memory_store.put(cut.key, raw)
    assert len(rebuild(memory_store, log_bytes.partition).pins) == pinned


def test_a_partition_that_a_cut_does_not_have_gets_no_pin(memory_store, log_bytes):
    """It had no manifest when the cut was made."""
    other = log_bytes.partition._replace(partition=1)
    archive_log(memory_store, other, [log_bytes.segment(0, 10)], now_ms=60)
    create_cut(memory_store, "monday", now_ms=50)
    archive_log(memory_store, log_bytes.partition, [log_bytes.segment(0, 10)], now_ms=60)
    assert read_cut(memory_store, "monday").partitions[0].seq == 0
    assert rebuild(memory_store, log_bytes.partition).pins == ()
