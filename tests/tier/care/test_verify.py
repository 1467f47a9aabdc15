from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.manifest import set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.tier.work.archive_writer import archive_log

DEEP = ["wrong-crc", "entry-differs", "broken-batches", "unreadable-index"]
SHALLOW = [kind.value for kind in AnomalyKind if kind.value not in DEEP]


@pytest.mark.parametrize("deep", [False, True])
def test_a_clean_archive_has_no_anomaly(archive, deep, damages):
    """Pages, history, several epochs, two topics; every object is looked at."""
    reports = list(verify_bucket(archive.store, damages.OPTIONS._replace(deep=deep)))
    assert [report.anomalies for report in reports] == [[], []]
    assert {str(report.partition): report.object_count for report in reports} == {"orders-3": 6, "payments-0": 1}
    assert sum(report.size_bytes for report in reports) == sum(
        info.size_bytes for info in archive.store.list("") if "/seg/" in info.key
    )


@pytest.mark.parametrize("damage", SHALLOW)
@pytest.mark.parametrize("deep", [False, True])
def test_shallow_and_deep_find_what_needs_no_bytes(archive, damage, deep):
    """Each kind is found where it was put, and nothing is said of the other topic."""
    kind = archive.damage(damage)
    anomalies = archive.anomalies(deep=deep)
    assert kind in {one.kind for one in anomalies}
    assert {one.topic for one in anomalies} == {"orders"}


@pytest.mark.parametrize("damage", DEEP)
def test_deep_finds_what_only_the_bytes_say(archive, damage):
    """Each kind is found, in the object that was damaged; shallow, which reads no object, sees nothing."""
    kind = archive.damage(damage)
    assert archive.anomalies() == []
    anomalies = archive.anomalies(deep=True)
    assert kind in {one.kind for one in anomalies}
    assert {one.key for one in anomalies} == {archive.manifest.entries[0].key}


def test_keys_outside_of_every_topic_are_foreign(archive):
    """Told under no topic; other folders than topics/ are none of our business."""
    archive.store.put("topics/readme.txt", b"x")
    archive.store.put("pictures/readme.txt", b"x")
    assert [(one.kind, one.key, one.topic) for one in archive.anomalies()] == [
        (AnomalyKind.FOREIGN_KEY, "topics/readme.txt", "")
    ]


def test_a_topic_can_be_chosen(archive, damages):
    """The others are not looked at."""
    archive.damage("missing-object")
    reports = list(verify_bucket(archive.store, damages.OPTIONS, topics=["payments"]))
    assert [(str(one.partition), one.anomalies) for one in reports] == [("payments-0", [])]


def test_a_live_writer_is_never_reported(memory_store, log_bytes):
    """While one thread archives and moves the log start, verification after verification is clean."""
    archive_log(memory_store, log_bytes.partition, [log_bytes.segment(0, 2)], now_ms=1)
    stop = threading.Event()

    def write():
        base = 20
        while not stop.is_set():
            archive_log(memory_store, log_bytes.partition, [log_bytes.segment(base, 2)], now_ms=base)
            base += 20
            if base % 100 == 0:
                manifest = read_manifest(memory_store, log_bytes.partition).manifest
                trash = [item.key for item in manifest.trash]
                change_manifest(
                    memory_store,
                    log_bytes.partition,
                    lambda m, at=base: set_log_start(m, m.claimant, at - 60, now_ms=at, reason="test"),
                )
                memory_store.delete_many(trash)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            for deep in (False, True) * 5:
                now = max(info.modified_ms for info in memory_store.list(""))
                options = VerifyOptions(now, 60_000, deep)
                assert [one for each in verify_bucket(memory_store, options) for one in each.anomalies] == []
        finally:
            stop.set()
        writing.result()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind.value for kind in AnomalyKind])
def test_every_one_of_a_hundred_random_damages_of_a_kind_is_found(damages, log_bytes, kind):
    """1,500 in all: which object, which byte, which field is drawn; before each, the archive is clean."""
    missed = []
    for seed in range(100):
        archive = damages.Damaged(MemoryStore(), log_bytes, random.Random(seed))
        assert archive.anomalies(deep=True) == []
        archive.damage(kind)
        if kind not in archive.kinds(deep=True):
            missed.append(seed)
    assert missed == []


@pytest.mark.story
@pytest.mark.parametrize("store", ["local_store", "s3_store"])
def test_other_stores_are_verified_as_well(request, damages, log_bytes, store):
    """Listings in pages, checksums that a store keeps or does not."""
    archive = damages.Damaged(request.getfixturevalue(store), log_bytes)
    assert archive.anomalies(deep=True) == []
    archive.damage("wrong-crc")
    archive.damage("offset-gap")
    assert archive.kinds(deep=True) == {AnomalyKind.WRONG_CRC, AnomalyKind.OFFSET_GAP}


@pytest.mark.parametrize("operation", ["get", "get_range", "get_suffix"])
def test_damage_on_the_way_is_no_anomaly(archive, damages, operation):
    """Each read in turn is spoilt once: manifest, page, history copy, footer, chunk, the last bytes."""
    whole = archive.store
    archive.store = counted = CountingStore(whole, log_count=1)
    assert archive.anomalies(deep=True) == []
    count = counted.count(operation)
    assert count > 3
    for at in range(count):
        archive.store = FaultyStore(whole, [FaultRule(Fault.CORRUPT, operation, skip=at)])
        assert archive.anomalies(deep=True) == [], f"a spoilt {operation} number {at} is reported"
