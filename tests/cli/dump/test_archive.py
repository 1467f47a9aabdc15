"""Objects of the bucket are shown and checked against themselves."""

from __future__ import annotations

import json

import pytest
import zstandard

from stratalog.cli.dump.dump import dump
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests import json as manifest_json
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.stores.opening import open_store
from stratalog.tier.stores.source import as_bytes
from stratalog.wire.topic import uuid_text

TOPIC_ID = bytes(range(16))
PARTITION = PartitionId("orders", TOPIC_ID, 0)


def rows(target, **options) -> list[dict]:
    """All rows of a dump."""
    return list(dump(str(target), **options))


def of(found: list[dict], what: str) -> list[dict]:
    """The rows of one kind."""
    return [row for row in found if row["what"] == what]


@pytest.fixture
def archive(tmp_path, three_batches):
    """A bucket with one segment object and its manifest; the store, and the object's key."""
    store = open_store(f"file://{tmp_path}/bucket")
    built = build_segment(
        SegmentRequest(
            PARTITION,
            b"u" * 16,
            100,
            109,
            4,
            [b"".join(three_batches)],
            cluster_id="cluster",
            writer="test",
            chunk_bytes=200,
        )
    )
    store.put(built.entry.key, as_bytes(built.source))
    claimant = Claimant(0, 4, b"c" * 16, 1)
    manifest = claim(Manifest(PARTITION, "cluster"), claimant, now_ms=1, start_offset=100)
    manifest = commit(manifest, claimant, [Uploaded(built.entry, claimant)], now_ms=2)
    store.put(PARTITION.manifest_key, manifest_json.to_bytes(manifest))
    return store, built.entry


def test_a_segment_object_is_shown_and_read_through(archive, tmp_path) -> None:
    """Footer, parts, chunks and batches; counts agree; by path and by URL."""
    _, entry = archive
    found = rows(tmp_path / "bucket" / entry.key)
    assert found == rows(f"file://{tmp_path}/bucket/{entry.key}")
    (segment,) = of(found, "segment")
    assert (segment["topic"], segment["base"], segment["end"]) == ("orders", 100, 109)
    assert segment["uuid"] == uuid_text(b"u" * 16)
    assert {one["name"] for one in of(found, "part")} >= {"offset_index", "chunks", "aborted"}
    assert len(of(found, "batch")) == 3
    assert not of(found, "problem")
    assert found[-1]["records"] == 9


def test_quick_leaves_the_data_unread(archive, tmp_path) -> None:
    """Damage in the data is not seen, because it is not fetched."""
    store, entry = archive
    data = bytearray(store.get(entry.key)[0])
    data[70] ^= 1
    store.put(entry.key, data)
    found = rows(tmp_path / "bucket" / entry.key, quick=True)
    assert not of(found, "problem")
    assert found[-1]["data_read"] is False


def test_damage_in_an_object_is_named(archive, tmp_path) -> None:
    """A chunk by position and first offset, a part by its position, a trailer as a whole."""
    store, entry = archive
    whole = store.get(entry.key)[0]

    def damaged(position: int) -> list[dict]:
        data = bytearray(whole)
        data[position] ^= 1
        store.put(entry.key, data)
        return of(rows(tmp_path / "bucket" / entry.key), "problem")

    chunk = damaged(70)[0]
    assert (chunk["position"], chunk["offset"]) == (0, 100)
    part = damaged(entry.data_bytes)
    assert [one["position"] for one in part] == [entry.data_bytes]
    assert len(damaged(len(whole) - 1)) == 1


def test_records_of_an_object_are_shown(archive, tmp_path) -> None:
    """The same rows as those of the log they came from."""
    _, entry = archive
    found = of(rows(tmp_path / "bucket" / entry.key, records=True), "record")
    assert [one["offset"] for one in found] == list(range(100, 109))


def test_a_manifest_is_shown(archive, tmp_path) -> None:
    """The holder, the entries and the latest changes."""
    found = rows(tmp_path / "bucket" / PARTITION.manifest_key)
    (manifest,) = of(found, "manifest")
    assert (manifest["remote_start"], manifest["remote_end"], manifest["leader_epoch"]) == (100, 109, 4)
    assert [(one["base"], one["end"]) for one in of(found, "entry")] == [(100, 109)]
    assert [one["kind"] for one in of(found, "commit")] == ["claim", "commit"]
    assert not of(found, "problem")


def test_wrong_totals_and_holes_of_a_manifest_are_problems(archive, tmp_path) -> None:
    """A checksum that does not fit; totals that are not the entries' sums; a remote end that no entry reaches."""
    store, _ = archive
    fields = json.loads(store.get(PARTITION.manifest_key)[0])
    store.put(PARTITION.manifest_key, json.dumps(fields).encode())
    assert "crc32c" in of(rows(tmp_path / "bucket" / PARTITION.manifest_key), "problem")[0]["reason"]
    del fields["crc32c"]
    fields["totals"]["bytes"] += 1
    store.put(PARTITION.manifest_key, json.dumps(fields).encode())
    assert "the totals say" in of(rows(tmp_path / "bucket" / PARTITION.manifest_key), "problem")[0]["reason"]
    fields["remote_end"] += 1
    store.put(PARTITION.manifest_key, json.dumps(fields).encode())
    assert "remote_end" in of(rows(tmp_path / "bucket" / PARTITION.manifest_key), "problem")[0]["reason"]


def test_other_json_of_the_bucket_is_shown(tmp_path) -> None:
    """Plain and compressed; what is no JSON is a problem."""
    (tmp_path / "format.json").write_text('{"version": 1}')
    assert rows(tmp_path / "format.json")[0]["content"] == {"version": 1}
    (tmp_path / "1-2-3.json.zst").write_bytes(zstandard.ZstdCompressor().compress(b"[1]"))
    assert rows(tmp_path / "1-2-3.json.zst")[0]["content"] == [1]
    (tmp_path / "topic.json").write_text("{")
    assert rows(tmp_path / "topic.json")[0]["what"] == "problem"
