from __future__ import annotations

import hashlib
import json

import pytest
from msgspec import structs

from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.jobs import list_job
from stratalog.tier.manifests.json import NewerManifest, from_bytes, predecessor_hash, to_bytes
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit, mark_deleted, set_log_start
from stratalog.tier.manifests.pages import page_ref, page_to_bytes
from stratalog.tier.manifests.parts import HistoryRef, Job, Pin
from stratalog.tier.manifests.pins import pin
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
        fields["min_reader_version"] = 2
        fields["jobs"] = [{"uuid": "A" * 22, "kind": "merge", "listed_ts": 1, "expires_ts": 2, "inputs": []}]
        fields["pins"] = [{"cut": "c", "created_ts": 1, "remote_end": 400, "log_start_offset": 120, "seq": 2}]
        fields["history"] = {"loc": "history/h", "seq": 1, "sha256": "00"}
        parts = (fields["jobs"][0], fields["pins"][0], fields["history"])
        for inside in (fields, fields["writer"], fields["totals"], fields["entries"][1], fields["trash"][0], *parts):
            inside["later"] = {"deep": [1, None]}

    newer = changed(manifest, change)
    read = from_bytes(newer, "k")
    written = json.loads(to_bytes(read))
    del written["crc32c"]
    assert written == json.loads(newer)
    later = json.loads(to_bytes(claim(read, US._replace(leader_epoch=6), now_ms=1)))
    assert (later["jobs"], later["pins"], later["history"]) == (written["jobs"], written["pins"], written["history"])


def test_fields_of_older_readers_are_written_as_before(manifest):
    """Without pages, jobs and pins a manifest needs a reader of version 1, and has no field that it would not know."""
    fields = json.loads(to_bytes(manifest))
    assert [fields[name] for name in ("pages", "jobs", "pins")] == [[], [], []]
    assert (fields["format"], fields["version"], fields["min_reader_version"]) == ("stratalog-manifest", 1, 1)
    assert not {"history", "rewritten_seq", "deleted_ts"} & set(fields)
    ageless = tuple(
        structs.replace(item, max_timestamp_ms=-1) for item in manifest.trash
    )  # a field that older readers keep
    assert hashlib.sha256(to_bytes(structs.replace(manifest, trash=ageless))).hexdigest() == VERSION_1_SHA256


VERSION_1_SHA256 = "7a554801aa679454df65bd1458e3c3621d6df52397d642833abb9fe98791f70e"
"""Bytes of the manifest above as the first release wrote it."""


def paged(manifest):
    """The manifest with its first two live entries in a page."""
    entries = manifest.entries[:2]
    data = page_to_bytes(manifest.partition, entries)
    page = page_ref(manifest.partition, entries, data, manifest.seq)
    return structs.replace(manifest, pages=(page,), entries=manifest.entries[2:])


@pytest.mark.parametrize(
    "change",
    [
        paged,
        lambda m: list_job(m, Job(bytes(16), "merge", 1, 2, (bytes(15) + b"x",)), now_ms=1),
        lambda m: pin(m, Pin("cut", 1, 400, 120), now_ms=1),
        lambda m: set_log_start(paged(m), US, 400, now_ms=1, reason="r"),
    ],
)
def test_fields_that_older_readers_would_miss_need_version_2(manifest, change):
    """Pages, jobs, pins, and the trash of a page; all of it survives its bytes."""
    newer = change(manifest)
    assert json.loads(to_bytes(newer))["min_reader_version"] == 2
    assert from_bytes(to_bytes(newer), "k") == newer


def test_marks_of_the_second_version_survive_their_bytes(manifest):
    """The rewritten number, the time of deletion and the history; no older reader is shut out by them."""
    marked = structs.replace(
        mark_deleted(manifest, now_ms=77), rewritten_seq=3, history=HistoryRef(4, manifest.partition.prefix + "h", "00")
    )
    assert from_bytes(to_bytes(marked), "k") == marked
    assert json.loads(to_bytes(marked))["min_reader_version"] == 1
    assert mark_deleted(marked, now_ms=78) is marked


@pytest.mark.story
def test_no_flipped_bit_makes_another_manifest(manifest):
    """It is damage, never age: a damaged version number does not mean that a newer release is needed.

    Only the name of the checksum may be damaged unseen; it then counts as a field of another program.
    """
    raw = to_bytes(manifest)
    unseen = 0
    for bit in range(8 * len(raw)):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            read = from_bytes(bytes(damaged), "k")
        except Corrupt:
            continue
        unseen += 1
        assert structs.replace(read, unknown=()) == manifest
    assert unseen < 8 * len("crc32c")


def test_a_manifest_for_newer_readers_is_refused(manifest):
    """Its other fields would otherwise be missing silently."""
    with pytest.raises(NewerManifest, match="upgrade"):
        from_bytes(changed(manifest, lambda f: f.update(min_reader_version=3)), "k")


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["pages"][0].update(end=150),
        lambda f: f["pages"][0].update(start=90),
        lambda f: f["pages"][0].update(dead=2),
        lambda f: f["pages"][0].update(first=-1),
        lambda f: f["pages"].append(f["pages"][0]),
        lambda f: f["pages"][0].pop("crc32c"),
        lambda f: f["pages"][0].update(loc=7),
    ],
)
def test_damaged_page_references_are_corrupt(manifest, change):
    """A page that leaves a hole, overlaps or has nothing left."""
    with pytest.raises(Corrupt, match="some/key"):
        from_bytes(changed(paged(manifest), change), "some/key")


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
        assert structs.replace(read, unknown=()) == manifest
