"""The bytes of the bucket's format: what today's writer writes, and what today's readers read."""

import importlib.util
import runpy
from pathlib import Path

import pytest

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.objects.chunk_table import ChunkTable
from stratalog.tier.objects.segment_reader import read_blob, read_chunks, read_object_footer
from stratalog.tier.stores.local_store import LocalStore
from stratalog.wire.batch import iter_headers, iter_records

HERE = Path(__file__).resolve().parent
PARTITION = PartitionId("orders", bytes(range(16)), 3)
VERSIONS = {1: (1, 4), 2: (3, 14)}
"""Log start and number of the manifest, by the version that a reader of it must know: 2 has pages."""
HIDDEN = {16, 17, 18, 22, 23}
"""Offsets that were aborted, and markers."""


@pytest.fixture(scope="module")
def maker():
    """The functions of the script that made them."""
    return runpy.run_path(str(HERE / "make_golden.py"))


def stored(version):
    """Every file of a golden archive by its key."""
    root = HERE / f"v{version}"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("version", VERSIONS)
def test_todays_writer_makes_the_same_bytes(maker, version):
    """Changing them changes the format: archives like these exist and must be readable by old readers."""
    made, kept = maker["golden_files"](version), stored(version)
    assert sorted(made) == sorted(kept)
    for key, data in kept.items():
        assert made[key] == data, f"{key} is written differently now"


def test_the_record_batches_say_what_they_said(maker):
    """Batches made today have the kept records, and the kept headers but for lengths and checksums."""
    kept, now = (HERE / "records.log").read_bytes(), maker["record_batches"]()
    told = [
        [
            (header.base_offset, header.attributes, header.producer_id, *iter_records(data, position))
            for position, header in iter_headers(data)
        ]
        for data in (kept, now)
    ]
    assert told[0] == told[1]
    assert {header.codec.name for _, header in iter_headers(kept)} == {"NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"}


@pytest.mark.parametrize("version", VERSIONS)
def test_todays_reader_reads_them(version):
    """The data of all objects, put together, is the log that went in, from the log start on."""
    store = LocalStore(str(HERE / f"v{version}"), sync=False)
    manifest = read_manifest(store, PARTITION).manifest
    entries, data = list(iter_entries(store, manifest)), b""
    for entry in entries:
        footer = read_object_footer(store, entry.key)
        table = ChunkTable.from_bytes(read_blob(store, entry.key, footer, "chunks"))
        data += b"".join(map(bytes, read_chunks(store, entry.key, list(table))))
    log = (HERE / "records.log").read_bytes()
    assert log.endswith(data)
    assert next(iter_headers(data))[1].base_offset == entries[0].base == (0 if version == 1 else 2)
    assert bool(manifest.pages) == (version == 2)
    assert (manifest.log_start_offset, manifest.seq, manifest.remote_end) == (*VERSIONS[version], 25)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_published_reader_reads_them(version):
    """Records that a consumer that reads committed would see."""
    path = HERE.parents[1] / "docs" / "format" / "reader.py"
    spec = importlib.util.spec_from_file_location("published_reader", path)
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    (partition,) = reader.partitions(str(HERE / f"v{version}"))
    assert partition.manifest["min_reader_version"] == version
    seen = [record["offset"] for record in partition.records()]
    assert seen == [offset for offset in range(VERSIONS[version][0], 25) if offset not in HIDDEN]
