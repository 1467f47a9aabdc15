from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.loose_manifest import page_entries, read_loosely
from stratalog.wire.errors import Corrupt


def test_entries_need_not_follow_each_other(archive):
    """A manifest with a hole is read, and so is what lies around it."""
    whole = archive.manifest
    archive.put(replace(whole, entries=whole.entries[1:]))
    loose = read_loosely(archive.store, archive.partition)
    assert loose.manifest == replace(whole, entries=whole.entries[1:])
    assert (loose.fault, bool(loose.version), loose.raw) == ("", True, to_bytes(loose.manifest))


def test_a_missing_manifest_differs_from_a_damaged_one(archive):
    """Neither is a manifest."""
    archive.flip(archive.partition.manifest_key, 50)
    damaged = read_loosely(archive.store, archive.partition)
    assert damaged.manifest is None
    assert "damaged" in damaged.fault
    archive.damage("missing-manifest")
    missing = read_loosely(archive.store, archive.partition)
    assert (missing.manifest, missing.version, missing.raw, missing.fault) == (None, "", b"", "")


def test_the_live_entries_of_a_page_are_read(archive):
    """Those before the dead ones are left out; a page that was changed is refused."""
    manifest = archive.manifest
    (page,) = manifest.pages
    assert [entry.base for entry in page_entries(archive.store, manifest, page)] == [0, 50]
    assert [entry.base for entry in page_entries(archive.store, manifest, replace(page, dead_count=1))] == [50]
    archive.flip(page.key, 30)
    with pytest.raises(Corrupt):
        page_entries(archive.store, manifest, page)
