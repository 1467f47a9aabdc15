"""The record of an erasure: written before, and once more in the end; it does not hold what it tells of."""

from __future__ import annotations

import pytest

from stratalog.tier.bucket.erasure_audit import (
    ErasedRange,
    ErasureAudit,
    begin_audit,
    end_audit,
    hashed,
    read_audit,
    replaced_objects,
)
from stratalog.tier.stores.store import AlreadyExists, NotFound, PreconditionFailed
from stratalog.wire.errors import Corrupt

SALT = b"s" * 16
AUDIT = ErasureAudit(
    b"u" * 16, "customers", b"t" * 16, 1_700_000_000_000, "me@here", SALT, keys=(hashed(SALT, b"c-4711"),), note="311"
)  # fmt: skip


def test_it_tells_who_when_what_and_where(memory_store):
    """A person who knows the key can find it; others cannot read it."""
    version = begin_audit(memory_store, AUDIT)
    begun = read_audit(memory_store, AUDIT.key)
    assert replaced_objects(memory_store) == {}
    assert (begun["state"], begun["by"], begun["note"], begun["ranges"]) == ("begun", "me@here", "311", [])
    ranges = [ErasedRange(3, 10, 20, 2, ("old-key",), "new-key"), ErasedRange(4, 0, 5, 1, ("a", "b"), "c")]
    ended = end_audit(memory_store, AUDIT, version, ranges, ended_ms=1_700_000_000_009, whole=True, held_by=["monday"])
    assert (ended.state, ended.ranges) == ("done", tuple(ranges))
    fields = read_audit(memory_store, AUDIT.key)
    assert (fields["state"], fields["records"], fields["held_by"]) == ("done", 3, ["monday"])
    assert fields["ranges"][0] == {
        "partition": 3, "base": 10, "end": 20, "records": 2, "old": ["old-key"], "new": "new-key",
    }  # fmt: skip
    assert fields["keys_sha256"] == [hashed(bytes.fromhex(fields["salt"]), b"c-4711")]
    assert replaced_objects(memory_store) == {"old-key": "new-key", "a": "c", "b": "c"}
    assert b"4711" not in memory_store.get(AUDIT.key)[0]
    assert AUDIT.key.startswith("audit/1700000000000-")


def test_no_other_role_writes_it(memory_store):
    """One that could not do everything says so; one that was ended is not ended again."""
    version = begin_audit(memory_store, AUDIT)
    with pytest.raises(AlreadyExists):
        begin_audit(memory_store, AUDIT)
    assert end_audit(memory_store, AUDIT, version, [], ended_ms=5, whole=False, held_by=()).state == "partial"
    with pytest.raises(PreconditionFailed):
        end_audit(memory_store, AUDIT, version, [], ended_ms=6, whole=True, held_by=())


def test_other_documents_are_refused(memory_store):
    """With their key."""
    with pytest.raises(NotFound):
        read_audit(memory_store, "audit/none.json")
    for data in (b"{}", b"[]", b"x", b'{"format":"other","min_reader_version":1}'):
        memory_store.put("audit/x.json", data)
        with pytest.raises(Corrupt, match=r"audit/x\.json"):
            read_audit(memory_store, "audit/x.json")
