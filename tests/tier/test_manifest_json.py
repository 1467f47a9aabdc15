from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest

from stratalog.tier.entry import LeaderEpoch
from stratalog.tier.manifest import Claimant, Manifest, Uploaded, claim, commit, set_log_start
from stratalog.tier.manifest_json import NewerManifest, from_bytes, predecessor_hash, to_bytes
from stratalog.wire.errors import Corrupt

US = Claimant(2, 5, bytes(range(16)), 7)


@pytest.fixture
def manifest(log_bytes, make_entry):
    """Three live entries and one in the trash."""
    found = claim(Manifest(log_bytes.partition, cluster_id="c"), US, now_ms=10)
    entries = [make_entry(a, a + 100, epoch=5, epochs=(LeaderEpoch(a // 100, a),)) for a in (0, 100, 200, 300)]
    found = commit(found, US, [Uploaded(e, US) for e in entries], now_ms=20, high_watermark=410)
    return set_log_start(found, US, 120, now_ms=30, reason="retention.ms")


def changed(manifest, change):
    """The manifest's bytes with its JSON changed, without the checksum that no longer fits."""
    fields = json.loads(to_bytes(manifest))
    del fields["crc32c"]
    change(fields)
    return json.dumps(fields).encode()


def test_a_manifest_survives_its_bytes(manifest, log_bytes):
    """With entries and trash, and before it holds anything."""
    assert from_bytes(to_bytes(manifest), "k") == manifest
    assert from_bytes(to_bytes(Manifest(log_bytes.partition)), "k") == Manifest(log_bytes.partition)


def test_fields_of_a_newer_writer_are_kept_at_every_level(manifest):
    """Top level, writer, totals, entries and trash."""

    def change(fields):
        fields["version"] = 3
        fields["jobs"] = [{"uuid": "x", "kind": "merge"}]
        for inside in (fields, fields["writer"], fields["totals"], fields["entries"][1], fields["trash"][0]):
            inside["later"] = {"deep": [1, None]}

    newer = changed(manifest, change)
    read = from_bytes(newer, "k")
    written = json.loads(to_bytes(read))
    del written["crc32c"]
    assert written == json.loads(newer)
    assert json.loads(to_bytes(claim(read, US._replace(leader_epoch=6), now_ms=1)))["jobs"] == [
        {"uuid": "x", "kind": "merge"}
    ]


def test_reserved_lists_are_written_empty(manifest):
    """Readers of version 1 find pages, jobs and pins, and nothing in them."""
    fields = json.loads(to_bytes(manifest))
    assert [fields[name] for name in ("pages", "jobs", "pins")] == [[], [], []]
    assert (fields["format"], fields["version"], fields["min_reader_version"]) == ("stratalog-manifest", 1, 1)


@pytest.mark.parametrize("change", [lambda f: f.update(min_reader_version=2), lambda f: f.update(pages=[{"first": 0}])])
def test_a_manifest_for_newer_readers_is_refused(manifest, change):
    """Older entries in pages would otherwise be missing silently."""
    with pytest.raises(NewerManifest, match="upgrade"):
        from_bytes(changed(manifest, change), "k")


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.update(format="other"),
        lambda f: f.pop("entries"),
        lambda f: f.pop("writer"),
        lambda f: f.update(seq="1"),
        lambda f: f["entries"].pop(1),
        lambda f: f["entries"].append(f["entries"][-1]),
        lambda f: f["entries"][1].update(base=199),
        lambda f: f.update(remote_end=401),
        lambda f: f.update(claim="!"),
        lambda f: f.update(commits=[[1]]),
        lambda f: f.update(leader_epochs=[1]),
    ],
)
def test_a_damaged_manifest_is_corrupt_and_named(manifest, change):
    """Gaps, overlaps, wrong ends, missing fields and wrong types: none is guessed at."""
    with pytest.raises(Corrupt, match="some/key"):
        from_bytes(changed(manifest, change), "some/key")


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'{"format": 1', b"\xff"])
def test_bytes_that_are_no_manifest_are_corrupt(data):
    """Also what is not JSON at all."""
    with pytest.raises(Corrupt, match="damaged"):
        from_bytes(data, "k")


def test_the_hash_chain_is_plain_sha256(manifest):
    """Anyone can follow it with standard tools."""
    raw = to_bytes(manifest)
    assert predecessor_hash(raw) == hashlib.sha256(raw).hexdigest()


def test_two_hundred_entries_stay_small(manifest, make_entry):
    """About 350 to 500 bytes an entry with real names."""
    entries = [make_entry(a, a + 10**6, epoch=5) for a in range(400, 400 + 200 * 10**6, 10**6)]
    grown = commit(manifest, US, [Uploaded(e, US) for e in entries], now_ms=40)
    assert len(to_bytes(grown)) < 200 * 500


def test_every_changed_byte_is_noticed(manifest):
    """Also one that leaves valid JSON, such as another digit of an epoch, which would fence every leader."""
    raw = to_bytes(manifest)
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1
        try:
            read = from_bytes(bytes(damaged), "k")
        except (Corrupt, NewerManifest):
            continue
        # Only the name of the checksum's own field may change: then it is one that we do not know.
        assert dataclasses.replace(read, unknown=()) == manifest
