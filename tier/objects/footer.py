"""The end of a ``.seg`` object: a JSON footer that locates every part, and a trailer of 32 bytes that locates it.

.. code-block:: text

    [0, data_len)   the .log bytes of the range
    offset_index, time_index, leader_epochs, producer_snapshot, aborted
    chunks          right before the footer
    footer          JSON
    trailer         footer_pos u64, footer_len u32, footer_crc32c u32, data_len u64, version u16, flags u16, "STRT"

One GET of the last 64 KiB gives footer and chunk table of an object of any permitted size.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec
from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.documents.json import parse_json
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.documents.unknown_fields import (
    UnknownFields,
    canonical_json,
    integer,
    keep_unknown,
    restore_unknown,
    text,
    topic_name,
)
from stratalog.tier.manifests.entry import Entry, entry_from_fields, entry_to_fields
from stratalog.tier.objects.chunk_table import ChunkTable
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import uuid_parse, uuid_text

__all__ = [
    "BLOBS",
    "SUFFIX_BYTES",
    "TRAILER_BYTES",
    "Blob",
    "Footer",
    "Trailer",
    "encode_footer",
    "read_footer",
    "read_trailer",
]

FORMAT_NAME: Final = "stratalog-segment"
FORMAT_VERSION: Final = 1
MAGIC: Final = b"STRT"
SUFFIX_BYTES: Final = 64 * 1024
"""The part that a reader asks for first."""
BLOBS: Final = ("offset_index", "time_index", "leader_epochs", "producer_snapshot", "aborted", "chunks")
"""The parts behind the data, in their order."""

_TRAILER: Final = Struct(">QIIQHH4s")
TRAILER_BYTES: Final = _TRAILER.size
_KNOWN: Final = frozenset(
    {"format", "version", "writer", "cluster_id", "topic", "topic_id", "partition", "entry", "blobs"}
)


class Blob(NamedTuple):
    """One part behind the data. ``position`` counts from the start of the object."""

    position: int
    length: int
    crc32c: int

    def check(self, name: str, data: bytes | memoryview) -> None:
        """Raise `Corrupt` unless ``data`` are this part's bytes."""
        if len(data) != self.length or crc32c(data) != self.crc32c:
            raise Corrupt(f"the part {name!r} at position {self.position} of {self.length} bytes fails its CRC-32C")


class Trailer(NamedTuple):
    """The last 32 bytes."""

    footer_position: int
    footer_length: int
    footer_crc32c: int
    data_length: int
    version: int
    flags: int
    magic: bytes = MAGIC


class Footer(msgspec.Struct, frozen=True):
    """An object's description of itself.

    ``entry`` is what the manifest will say; its ``size_bytes`` and ``crc32c`` (which cover the footer too) are not
    in the object: the reader takes the size from the store, and ``crc32c`` is 0.
    """

    partition: PartitionId
    cluster_id: str
    writer: str
    entry: Entry
    blobs: Mapping[str, Blob]
    chunks: ChunkTable | None = None
    unknown: UnknownFields = ()


def encode_footer(footer: Footer) -> bytes:
    """The JSON footer, without the trailer."""
    entry = entry_to_fields(footer.entry, footer.partition.prefix)
    del entry["size"], entry["crc32c"]
    fields = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "writer": footer.writer,
        "cluster_id": footer.cluster_id,
        "topic": footer.partition.topic,
        "topic_id": uuid_text(footer.partition.topic_id),
        "partition": footer.partition.partition,
        "entry": entry,
        "blobs": {
            name: {"pos": blob.position, "len": blob.length, "crc32c": blob.crc32c}
            for name, blob in footer.blobs.items()
        },
    }
    return canonical_json(restore_unknown(fields, footer.unknown)).encode("ascii")


def encode_trailer(footer_position: int, footer: bytes, data_length: int) -> bytes:
    """The trailer for a footer written at ``footer_position``."""
    return _TRAILER.pack(*Trailer(footer_position, len(footer), crc32c(footer), data_length, FORMAT_VERSION, 0))


def read_trailer(suffix: bytes | memoryview, total_bytes: int) -> Trailer:
    """The trailer at the end of ``suffix``, the last bytes of an object of ``total_bytes``. Raises `Corrupt`."""
    if len(suffix) < TRAILER_BYTES:
        raise Corrupt(f"an object of {total_bytes} bytes is no segment object: its trailer alone has {TRAILER_BYTES}")
    trailer = Trailer._make(_TRAILER.unpack_from(suffix, len(suffix) - TRAILER_BYTES))
    if trailer.magic != MAGIC:
        raise Corrupt(f"the last four bytes are {trailer.magic!r}, a segment object ends in {MAGIC!r}")
    if trailer.version != FORMAT_VERSION or trailer.flags:
        raise Corrupt(
            f"the segment object has version {trailer.version} and flags {trailer.flags:#x}, this reader knows "
            f"version {FORMAT_VERSION} without flags"
        )
    footer_end = trailer.footer_position + trailer.footer_length
    if footer_end + TRAILER_BYTES != total_bytes or trailer.data_length > trailer.footer_position:
        raise Corrupt(
            f"the trailer places the footer at [{trailer.footer_position}, {footer_end}) and {trailer.data_length} "
            f"data bytes in an object of {total_bytes} bytes"
        )
    return trailer


def read_footer(suffix: bytes | memoryview, total_bytes: int) -> Footer:
    """The footer in ``suffix``, the last bytes of an object of ``total_bytes``; checked by its CRC-32C.

    ``chunks`` is filled if the suffix reaches back to the chunk table. Raises `Corrupt`, also when the suffix is too
    short to hold the footer.
    """
    view = memoryview(suffix)
    trailer = read_trailer(view, total_bytes)
    start = total_bytes - len(view)
    at = trailer.footer_position - start
    if at < 0:
        raise Corrupt(f"the footer has {trailer.footer_length} bytes, the suffix only {len(view)}: ask for more")
    raw = view[at : at + trailer.footer_length]
    if crc32c(raw) != trailer.footer_crc32c:
        raise Corrupt(f"the footer at position {trailer.footer_position} fails its CRC-32C")
    try:
        footer = _parse(parse_json(raw, "the footer"), total_bytes)
    except (Corrupt, ValueError, TypeError, LookupError, AttributeError, RecursionError, Invalid) as error:
        raise Corrupt(f"the footer at position {trailer.footer_position} is damaged: {error}") from error
    if footer.entry.data_bytes != trailer.data_length:
        raise Corrupt(f"footer and trailer differ: {footer.entry.data_bytes} and {trailer.data_length} data bytes")
    chunks = footer.blobs.get("chunks")
    if chunks is None or chunks.position < start:
        return footer
    rows = view[chunks.position - start : chunks.position - start + chunks.length]
    chunks.check("chunks", rows)
    return replace(footer, chunks=ChunkTable.from_bytes(rows))


def _parse(fields: dict[str, Any], total_bytes: int) -> Footer:
    if fields["format"] != FORMAT_NAME or integer(fields, "version") != FORMAT_VERSION:
        raise Invalid(
            f"format {fields['format']!r} version {fields.get('version')!r} is not known, {FORMAT_NAME} {FORMAT_VERSION} is"
        )
    partition = PartitionId(topic_name(fields), uuid_parse(text(fields, "topic_id")), integer(fields, "partition"))
    blobs = {
        str(name): Blob(integer(blob, "pos"), integer(blob, "len"), integer(blob, "crc32c"))
        for name, blob in fields["blobs"].items()
    }
    if any(blob.position < 0 or blob.length < 0 or sum(blob[:2]) > total_bytes for blob in blobs.values()):
        raise Invalid("a part reaches beyond the object")
    entry = entry_from_fields({**fields["entry"], "size": total_bytes, "crc32c": 0}, partition.prefix)
    return Footer(
        partition=partition,
        cluster_id=text(fields, "cluster_id", ""),
        writer=text(fields, "writer", ""),
        entry=entry,
        blobs=blobs,
        unknown=keep_unknown(fields, _KNOWN),
    )
