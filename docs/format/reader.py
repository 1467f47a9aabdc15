"""Reads a stratalog archive from a directory with nothing but Python's standard library.

It exists to prove that ``bucket.md`` says everything a reader needs: it imports nothing of stratalog. Usage::

    python reader.py ARCHIVE [--topic NAME] [--partition N] [--from OFFSET] [--uncommitted] [--list]

prints one JSON object per record. Gzip needs nothing; snappy, lz4 and zstd need ``cramjam``, ``lz4`` or ``zstandard``,
and so do the pages of archives with more than 128 objects a partition: ``zstandard``.
CRC-32C is checked everywhere, quickly if the package ``crc32c`` is there, slowly but as strictly if not.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import importlib
import json
import struct
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

SUFFIX_BYTES = 64 * 1024
TRAILER = struct.Struct(">QIIQHH4s")
CHUNK = struct.Struct(">qQIIq")
ABORTED = struct.Struct(">hqqqq")
BATCH = struct.Struct(">qiibIhiqqqhii")


class DamagedError(Exception):
    """Bytes are not what was written."""


def _table() -> Iterator[int]:
    for start in range(256):
        byte = start
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


CRC_TABLE = tuple(_table())


def slow_crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), RFC 3720."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


try:
    from crc32c import crc32c
except ImportError:
    crc32c = slow_crc32c


def check(condition: object, message: str) -> None:
    """Raise `DamagedError` unless the condition holds."""
    if not condition:
        raise DamagedError(message)


class Segment:
    """One ``.seg`` file: its footer, its chunk table, its aborted transactions, its batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        size = path.stat().st_size
        tail = self.read(max(0, size - SUFFIX_BYTES), min(size, SUFFIX_BYTES))
        check(len(tail) >= TRAILER.size, f"{path} is too short")
        footer_pos, footer_len, footer_crc, self.data_len, version, flags, magic = TRAILER.unpack(tail[-TRAILER.size :])
        check(magic == b"STRT" and version == 1 and flags == 0, f"{path} is no segment of version 1")
        check(footer_pos + footer_len + TRAILER.size == size, f"{path} has a wrong trailer")
        footer = self.read(footer_pos, footer_len)
        check(crc32c(footer) == footer_crc, f"{path}: the footer fails its CRC")
        self.footer = json.loads(footer)
        check(self.footer["entry"]["data_len"] == self.data_len, f"{path}: footer and trailer differ")
        self.chunks = list(CHUNK.iter_unpack(self.blob("chunks")))
        self.aborted = [row[1:4] for row in ABORTED.iter_unpack(self.blob("aborted"))]

    def read(self, position: int, length: int) -> bytes:
        """Exactly these bytes: over HTTP this would be one range GET."""
        with self.path.open("rb") as file:
            file.seek(position)
            data = file.read(length)
        check(len(data) == length, f"{self.path} ends early")
        return data

    def blob(self, name: str) -> bytes:
        """One of the parts behind the data."""
        where = self.footer["blobs"][name]
        data = self.read(where["pos"], where["len"])
        check(crc32c(data) == where["crc32c"], f"{self.path}: the part {name} fails its CRC")
        return data

    def batches(self, start_offset: int) -> Iterator[tuple[tuple[int, ...], bytes]]:
        """``(header, records)`` of every batch from the one that holds ``start_offset`` on; skips chunks before it."""
        for number, (_, position, length, crc, _) in enumerate(self.chunks):
            if number + 1 < len(self.chunks) and self.chunks[number + 1][0] <= start_offset:
                continue
            data = self.read(position, length)
            check(crc32c(data) == crc, f"{self.path}: the chunk at {position} fails its CRC")
            at = 0
            while at < len(data):
                header = BATCH.unpack_from(data, at)
                end = at + 12 + header[1]
                where = f"{self.path}: the batch at {position + at}"
                check(header[3] == 2 and at + BATCH.size <= end <= len(data), f"{where} is torn or no batch")
                check(crc32c(data[at + 21 : end]) == header[4], f"{where} fails its CRC")
                if header[0] + header[6] >= start_offset:
                    yield header, data[at + BATCH.size : end]
                at = end


def need(module: str) -> Any:
    """A package that only some codecs need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        sys.exit(f"this archive holds batches that need the package {module.partition('.')[0]}: install it")


def decompress(codec: int, data: bytes) -> bytes:
    """The records of a batch: codec 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    if codec == 0:
        return data
    if codec == 1:
        return gzip.decompress(data)
    if codec == 2:
        raw = need("cramjam").snappy.decompress_raw
        if data[:8] != b"\x82SNAPPY\0":
            return bytes(raw(data))
        pieces, at = [], 16
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            pieces.append(bytes(raw(data[at + 4 : at + 4 + size])))
            at += 4 + size
        return b"".join(pieces)
    if codec == 3:
        return bytes(need("lz4.frame").decompress(data))
    check(codec == 4, f"codec {codec} is not defined")
    return bytes(need("zstandard").ZstdDecompressor().decompressobj().decompress(data))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and the position behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def field(data: bytes, at: int) -> tuple[bytes | None, int]:
    """A length (-1 is null) and so many bytes."""
    length, at = varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def records(header: tuple[int, ...], payload: bytes) -> Iterator[dict[str, Any]]:
    """Offset, timestamp, key, value and headers of every record of a batch."""
    base_offset, _, _, _, _, attributes, _, base_ts, max_ts, *_, count = header
    data, at = decompress(attributes & 7, payload), 0
    for _ in range(count):
        length, at = varint(data, at)
        ts_delta, at = varint(data, (body := at) + 1)
        delta, at = varint(data, at)
        key, at = field(data, at)
        value, at = field(data, at)
        header_count, at = varint(data, at)
        headers = []
        for _ in range(header_count):
            name, at = field(data, at)
            content, at = field(data, at)
            headers.append(((name or b"").decode("utf-8", "replace"), content))
        timestamp = max_ts if attributes & 8 else base_ts + ts_delta
        check(at == body + length, f"a record of the batch at offset {base_offset} is not as long as its fields")
        yield {"offset": base_offset + delta, "timestamp": timestamp, "key": key, "value": value, "headers": headers}
    check(at == len(data), f"the batch at offset {base_offset} has bytes behind its last record")


class Partition:
    """One partition, as its manifest describes it."""

    def __init__(self, manifest_path: Path) -> None:
        self.folder = manifest_path.parent
        self.root = self.folder.parents[2]
        data = manifest_path.read_bytes()
        self.manifest = json.loads(data)
        check(self.manifest["format"] == "stratalog-manifest", f"{manifest_path} is no manifest")
        check(self.manifest["min_reader_version"] <= 2, f"{manifest_path} needs a newer reader")
        if "crc32c" in self.manifest:
            summed = data.rpartition(b',"crc32c":')[0]
            check(crc32c(summed) == self.manifest["crc32c"], f"{manifest_path} fails its CRC")

    def page(self, ref: dict[str, Any]) -> list[dict[str, Any]]:
        """The live entries of one page."""
        data = self.path(ref["loc"]).read_bytes()
        check(len(data) == ref["size"] and crc32c(data) == ref["crc32c"], f"{ref['loc']} fails its CRC")
        entries = json.loads(need("zstandard").ZstdDecompressor().decompress(data))["entries"]
        check(len(entries) == ref["entries"] and entries[-1]["end"] == ref["end"], f"{ref['loc']} is another page")
        return list(entries[ref.get("dead", 0) :])

    def entries(self, start_offset: int = 0) -> Iterator[dict[str, Any]]:
        """Live entries that end behind an offset: those of pages, read when needed, then those of the manifest."""
        pages = (entry for ref in self.manifest["pages"] if ref["end"] > start_offset for entry in self.page(ref))
        at = None
        for entry in chain(pages, self.manifest["entries"]):
            check(at in (None, entry["base"]), f"{self.folder}: the entries leave a hole at {at}")
            at = entry["end"]
            if at > start_offset:
                yield entry

    def path(self, loc: str) -> Path:
        """Where ``loc`` is: relative to the manifest, or to the archive with a leading slash."""
        return self.root / loc[1:] if loc.startswith("/") else self.folder / loc

    def segment(self, entry: dict[str, Any]) -> Segment:
        """The object of one entry."""
        loc = entry["loc"]
        segment = Segment(self.path(loc))
        check(segment.footer["entry"]["uuid"] == entry["uuid"], f"{loc} is another object")
        check(segment.path.stat().st_size == entry["size"], f"{loc} has another size")
        return segment

    def records(self, start_offset: int = 0, *, committed: bool = True) -> Iterator[dict[str, Any]]:
        """Every record from ``start_offset`` on, in order; without those of aborted transactions if ``committed``."""
        start_offset = max(start_offset, self.manifest["log_start_offset"])
        for entry in self.entries(start_offset):
            segment = self.segment(entry)
            for header, payload in segment.batches(start_offset):
                attributes, producer_id = header[5], header[9]
                if attributes & 0x20:
                    continue
                for record in records(header, payload):
                    if record["offset"] < start_offset:
                        continue
                    if committed and attributes & 0x10 and self.is_aborted(segment, producer_id, record["offset"]):
                        continue
                    yield record

    @staticmethod
    def is_aborted(segment: Segment, producer_id: int, offset: int) -> bool:
        """Whether an aborted transaction of this producer covers the offset."""
        return any(pid == producer_id and first <= offset <= last for pid, first, last in segment.aborted)


def partitions(root: str, topic: str | None = None, partition: int | None = None) -> Iterator[Partition]:
    """All partitions of an archive, or those asked for."""
    for path in sorted(Path(root).glob("topics/*/*/manifest.json")):
        found = Partition(path)
        if topic in (None, found.manifest["topic"]) and partition in (None, found.manifest["partition"]):
            yield found


def printable(value: bytes | int | None) -> object:
    """Text where it is text, base64 where it is not."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def main() -> None:
    """Print records, or with ``--list`` what there is."""
    parser = argparse.ArgumentParser(description="Read a stratalog archive from a directory.")
    parser.add_argument("archive")
    parser.add_argument("--topic")
    parser.add_argument("--partition", type=int)
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--uncommitted", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    for found in partitions(args.archive, args.topic, args.partition):
        where = {"topic": found.manifest["topic"], "partition": found.manifest["partition"]}
        if args.list:
            span = {"start": found.manifest["log_start_offset"], "end": found.manifest["remote_end"]}
            print(json.dumps({**where, **span, "objects": found.manifest["totals"]["segments"]}))
            continue
        for record in found.records(args.start, committed=not args.uncommitted):
            shown = {name: printable(value) for name, value in record.items() if name != "headers"}
            shown["headers"] = [[name, printable(content)] for name, content in record["headers"]]
            print(json.dumps({**where, **shown}))


if __name__ == "__main__":
    try:
        main()
    except (DamagedError, IndexError) as error:
        sys.exit(f"damaged: {error}")
