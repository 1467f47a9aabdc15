"""The bytes of bucket format version 1: what today's writer writes, and what today's readers read."""

import importlib.util
import runpy
from pathlib import Path

import pytest

from stratalog.tier.chunk_table import ChunkTable
from stratalog.tier.keys import PartitionId
from stratalog.tier.local_store import LocalStore
from stratalog.tier.manifest_entries import iter_entries
from stratalog.tier.manifest_store import read_manifest
from stratalog.tier.segment_reader import read_blob, read_chunks, read_object_footer
from stratalog.wire.batch import iter_headers, iter_records

HERE = Path(__file__).resolve().parent
PARTITION = PartitionId("orders", bytes(range(16)), 3)
VISIBLE = [*range(1, 16), 19, 20, 21, 24]
"""Offset 0 is below the log start; 16 to 18 were aborted; 22 and 23 are markers."""


@pytest.fixture(scope="module")
def maker():
    """The functions of the script that made them."""
    return runpy.run_path(str(HERE / "make_golden.py"))


def stored():
    """Every file of the golden archive by its key."""
    root = HERE / "v1"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_todays_writer_makes_the_same_bytes(maker):
    """Whoever changes them changes the format: archives of version 1 exist and must be readable by old readers."""
    made, kept = maker["golden_files"](), stored()
    assert sorted(made) == sorted(kept)
    for key, data in kept.items():
        assert made[key] == data, f"{key} is written differently now"


def test_the_record_batches_say_what_they_said(maker):
    """Whatever compression libraries make of it today: the same headers but for lengths and checksums, the same records."""
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


def test_todays_reader_reads_them():
    """The data of all objects, put together, is the log that went in."""
    store = LocalStore(str(HERE / "v1"), sync=False)
    manifest = read_manifest(store, PARTITION).manifest
    data = b""
    for entry in iter_entries(store, manifest):
        footer = read_object_footer(store, entry.key)
        table = ChunkTable.from_bytes(read_blob(store, entry.key, footer, "chunks"))
        data += b"".join(map(bytes, read_chunks(store, entry.key, list(table))))
    assert data == (HERE / "records.log").read_bytes()
    assert (manifest.log_start_offset, manifest.remote_end, manifest.seq) == (1, 25, 4)


def test_the_published_reader_reads_them():
    """What a consumer that reads committed would see."""
    path = HERE.parents[1] / "docs" / "format" / "reader.py"
    spec = importlib.util.spec_from_file_location("published_reader", path)
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    (partition,) = reader.partitions(str(HERE / "v1"))
    assert [record["offset"] for record in partition.records()] == VISIBLE
