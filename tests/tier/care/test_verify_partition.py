from __future__ import annotations

import pytest

from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.json import NewerManifest


@pytest.mark.parametrize("damage", ["missing-object", "offset-gap", "wrong-length", "wrong-bounds"])
def test_one_damage_is_one_kind(archive, damage):
    """Consequences of one damage are not reported as other damage."""
    kind = archive.damage(damage)
    assert archive.kinds(deep=True) == {kind}


def test_a_damaged_manifest_and_page_are_found(archive):
    """Unreadable counts as missing; what it would have named is not called an orphan besides."""
    archive.flip(archive.manifest.pages[0].key, 20)
    assert archive.kinds() == {AnomalyKind.MISSING_PAGE}
    archive.flip(archive.partition.manifest_key, 100)
    assert archive.kinds() == {AnomalyKind.MISSING_MANIFEST}


def test_an_upload_under_way_is_no_orphan(archive, damages):
    """An object that nothing names yet is one only when it is older than the grace."""
    archive.damage("orphan-object")
    modified = max(info.modified_ms for info in archive.store.list(""))
    assert archive.kinds(now_ms=modified + damages.DAY_MS - 1) == set()
    assert archive.kinds(now_ms=modified + damages.DAY_MS) == {AnomalyKind.ORPHAN_OBJECT}


def test_many_anomalies_are_counted_and_not_all_kept(archive, damages):
    """Memory stays bounded, whatever a bucket holds."""
    for number in range(250):
        archive.store.put(f"{archive.partition.prefix}seg/{number}.jpg", b"x")
    (report, _) = verify_bucket(archive.store, damages.OPTIONS)
    assert (len(report.anomalies), report.untold) == (200, 50)


def test_a_manifest_of_a_later_release_is_not_judged(archive):
    """It is not damage: the reader is too old."""
    raw = archive.store.get(archive.partition.manifest_key)[0]
    newer = raw.replace(b'"min_reader_version":2', b'"min_reader_version":99')
    assert newer != raw
    archive.store.put(archive.partition.manifest_key, newer.rpartition(b',"crc32c":')[0] + b"}")
    with pytest.raises(NewerManifest):
        archive.anomalies()
