"""The published reader against archives that we write: it shares no code with us."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.manifest import set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.messages.commands import SetLogStart
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_commands import move_log_start
from stratalog.wire.batch import Header, Record, build_batch, build_control_batch, iter_headers, iter_records
from stratalog.wire.compression import Codec

READER = Path(__file__).resolve().parents[2] / "docs" / "format" / "reader.py"


@pytest.fixture(scope="module")
def reader():
    """The published program, imported as a module."""
    spec = importlib.util.spec_from_file_location("published_reader", READER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*args):
    """The program in a clean interpreter: no site-packages, so no package of ours or anybody's."""
    command = [sys.executable, "-I", "-S", str(READER), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_the_reader_is_short_and_needs_only_the_standard_library():
    """Fewer than 300 lines; everything it imports at the top comes with Python, except an optional CRC."""
    source = READER.read_text()
    assert len(source.splitlines()) < 300
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add(node.module)
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"crc32c"}


def test_a_clean_interpreter_reads_what_we_wrote(write_archive, log_bytes):
    """Plain and gzip batches, headers, nulls, bytes that are no text; in order, with the slow CRC."""
    odd = Record(200, 5, None, b"\xff\x00", (Header("h", None), Header("i", b"x")))
    segments = [
        log_bytes.segment(0, 10),
        log_bytes.segment(100, 10, codec=Codec.GZIP),
        bytes(build_batch([odd], leader_epoch=1)),
    ]
    code, rows, errors = run(write_archive(*segments))
    assert (code, errors) == (0, "")
    assert [row["offset"] for row in rows] == list(range(201))
    assert rows[7] == {
        "topic": "orders", "partition": 3, "offset": 7, "timestamp": 1007, "key": "k7", "value": "v" * 20, "headers": [],
    }  # fmt: skip
    assert rows[200]["value"] == {"base64": "/wA="}
    assert (rows[200]["key"], rows[200]["headers"]) == (None, [["h", None], ["i", "x"]])


def altered(batch, old, new):
    """The batch with other bytes in its records, under a right CRC."""
    data = bytearray(bytes(batch).replace(old, new))
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def test_names_of_headers_need_be_no_text(write_archive):
    """As in the Java client, U+FFFD stands for bytes that are none."""
    batch = build_batch([Record(0, 5, b"k", b"v", (Header("name", b"x"),))], leader_epoch=1)
    _, rows, errors = run(write_archive(altered(batch, b"name", b"n\xffme")))
    assert errors == ""
    assert rows[0]["headers"] == [["n\ufffdme", "x"]]


@pytest.mark.parametrize("key_bytes", [2, 9, 60])
def test_a_record_that_is_not_as_long_as_its_fields_is_damage(write_archive, key_bytes):
    """No row is made of bytes of the next one, or of nothing."""
    batch = build_batch([Record(n, 5, b"key", b"value") for n in range(2)], leader_epoch=1)
    code, rows, errors = run(
        write_archive(altered(batch, b"\x06key\x0avalue", bytes([2 * key_bytes]) + b"key\x0avalue"))
    )
    assert (code, rows) == (1, [])
    assert "damaged" in errors
    assert "Traceback" not in errors


def test_reading_can_begin_anywhere(write_archive, log_bytes):
    """At an offset, at the log start; a topic that does not exist has no records."""
    root = write_archive(log_bytes.segment(0, 10), log_bytes.segment(100, 10))
    assert run(root, "--from", 155)[1][0]["offset"] == 155
    assert run(root, "--topic", "other")[1] == []
    assert run(root, "--partition", 3, "--list")[1] == [
        {"topic": "orders", "partition": 3, "start": 0, "end": 200, "objects": 2}
    ]
    store = LocalStore(str(root), sync=False)
    change_manifest(
        store, log_bytes.partition, lambda m: set_log_start(m, m.claimant, 123, now_ms=9, reason="retention.ms")
    )
    assert [row["offset"] for row in run(root)[1]] == list(range(123, 200))


def test_aborted_records_and_markers_are_left_out(write_archive, log_bytes):
    """Each object alone is enough to know which transactions were aborted."""
    data = b"".join(
        bytes(part)
        for part in (
            log_bytes.batch(0, 5, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
            log_bytes.batch(5, 5, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True),
            build_control_batch(
                0, bytes(6), offset=10, timestamp_ms=1, leader_epoch=1, producer_id=1, transactional=True
            ),
            build_control_batch(
                1, bytes(6), offset=11, timestamp_ms=1, leader_epoch=1, producer_id=2, transactional=True
            ),
            log_bytes.batch(12, 3),
        )
    )
    root = write_archive(data, aborted=[AbortedTransaction(1, 0, 10, 10)])
    assert [row["offset"] for row in run(root)[1]] == [5, 6, 7, 8, 9, 12, 13, 14]
    assert [row["offset"] for row in run(root, "--uncommitted")[1]] == [*range(10), 12, 13, 14]


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read_where_its_package_is(write_archive, log_bytes, reader, codec):
    """The same records as our own decoder gives."""
    data = log_bytes.segment(0, 6, codec=codec)
    (partition,) = reader.partitions(write_archive(data))
    ours = [r for position, _ in iter_headers(data) for r in iter_records(data, position)]
    theirs = [(r["offset"], r["timestamp"], r["key"], r["value"]) for r in partition.records()]
    assert theirs == [(r.offset, r.timestamp_ms, r.key, r.value) for r in ours]


def test_a_missing_codec_package_is_named(write_archive, log_bytes):
    """Instead of a traceback."""
    code, _, errors = run(write_archive(log_bytes.segment(0, 1, codec=Codec.ZSTD)))
    assert code == 1
    assert "install it" in errors


def test_damage_is_refused(write_archive, log_bytes):
    """One flipped bit anywhere in the data stops the reader with a word about where."""
    root = write_archive(log_bytes.segment(0, 10))
    (path,) = root.rglob("*.seg")
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    code, _, errors = run(root)
    assert code == 1
    assert "damaged" in errors
    assert path.name in errors


def test_entries_in_pages_are_read_like_the_others(write_archive, log_bytes, reader, monkeypatch):
    """From the first, from an offset in a page, behind a log start inside one; a damaged page is refused."""
    for name, value in (("INLINE_MAX", 4), ("INLINE_KEPT", 2), ("FANOUT", 3), ("MERGED_ENTRIES_MAX", 18)):
        monkeypatch.setattr(manifest_pages, name, value)
    for number in range(23):
        root = write_archive(log_bytes.segment(10 * number, 1))
    (partition,) = reader.partitions(root)
    assert len(partition.manifest["pages"]) > 1
    assert partition.manifest["totals"]["segments"] == 23
    assert [record["offset"] for record in partition.records()] == list(range(230))
    assert [record["offset"] for record in partition.records(77)] == list(range(77, 230))
    store = LocalStore(str(root), sync=False)
    manifest = read_manifest(store, log_bytes.partition).manifest
    move_log_start(store, SetLogStart(log_bytes.partition, manifest.claimant, 33, 9, "retention"))
    (partition,) = reader.partitions(root)
    assert partition.manifest["pages"][0]["dead"] == 3
    assert [record["offset"] for record in partition.records()] == list(range(33, 230))
    page = root / log_bytes.partition.prefix / partition.manifest["pages"][0]["loc"]
    page.write_bytes(page.read_bytes()[:-1] + b"?")
    with pytest.raises(reader.DamagedError, match="CRC"):
        next(partition.records())


@given(st.binary(max_size=300))
def test_the_slow_crc_is_the_quick_one(reader, data):
    """CRC-32C by table against the package."""
    assert reader.slow_crc32c(data) == crc32c(data)
