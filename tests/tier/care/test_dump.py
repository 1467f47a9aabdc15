from __future__ import annotations

import json

import pytest

from stratalog.tier.care.dump import dump_manifest, dump_segment
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.errors import Corrupt


@pytest.fixture
def archived(memory_store, log_bytes):
    """The bytes of one object, and of its manifest."""
    manifest = archive_log(
        memory_store,
        log_bytes.partition,
        [log_bytes.segment(0, 40)],
        now_ms=1,
        chunk_bytes=2000,
        aborted=[AbortedTransaction(1, 2, 3, 4)],
    )
    raw = memory_store.get(log_bytes.partition.manifest_key)[0]
    return memory_store.get(manifest.entries[0].key)[0], raw


def dump(data, **options):
    """A dump of bytes in memory."""
    return dump_segment(lambda position, length: data[position : position + length], len(data), **options)


def test_a_dump_says_everything_and_is_json(archived):
    """Entry, parts, chunks, epochs, aborted transactions, counts of index entries; nothing is wrong with it."""
    data, _ = archived
    found = dump(data, verify=True)
    assert json.loads(json.dumps(found)) == found
    assert (found["topic"], found["partition"], found["problems"]) == ("orders", 3, [])
    assert (found["entry"]["base"], found["entry"]["end"], found["entry"]["records"]) == (0, 400, 400)
    assert found["leader_epochs"] == [{"epoch": 1, "start_offset": 0}]
    assert found["aborted"][0]["producer_id"] == 1
    assert sum(chunk["length"] for chunk in found["chunks"]) == found["entry"]["data_len"]


def test_a_tail_larger_than_the_first_read_is_read_whole(archived, monkeypatch):
    """The same dump with a suffix that holds nothing but the trailer."""
    data, _ = archived
    whole = dump(data)
    monkeypatch.setattr("stratalog.tier.care.dump.SUFFIX_BYTES", 40)
    assert dump(data) == whole


def test_problems_are_listed_where_they_are(archived):
    """A flipped bit in the data is found by verify only, one in a part always."""
    data, _ = archived
    chunk = dump(data)["chunks"][2]
    damaged = bytearray(data)
    damaged[chunk["position"] + 80] ^= 1
    assert dump(bytes(damaged))["problems"] == []
    problems = dump(bytes(damaged), verify=True)["problems"]
    assert f"position {chunk['position']} fails" in problems[0]
    assert "CRC" in problems[1]
    damaged = bytearray(data)
    damaged[dump(data)["parts"]["aborted"]["position"]] ^= 1
    assert "aborted" in dump(bytes(damaged))["problems"][0]


def test_bytes_that_are_no_object_are_corrupt():
    """There is nothing to show then."""
    with pytest.raises(Corrupt):
        dump(b"x" * 100)


def test_a_manifest_is_shown_with_whole_keys(archived, log_bytes):
    """Claim, offsets, totals, entries; its own hash, which its successor will name."""
    _, raw = archived
    found = dump_manifest(raw)
    assert json.loads(json.dumps(found)) == found
    assert found["entries"][0]["key"].startswith(log_bytes.partition.prefix)
    assert (found["remote_end"], found["totals"]["records"], len(found["sha256"])) == (400, 400, 64)
