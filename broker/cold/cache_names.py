"""Names of the cache's files: the chunk and the object they hold, and their owner. Pure.

A name holds the id of the topic, that of the object and the chunk's number, and ends in what no other file ever had:
files are removed later than they are replaced. The file's content is not believed, it is checked against the archive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from stratalog.broker.runtime.ballast import is_of_cache
from stratalog.tier.reading.remote_log import ChunkId
from stratalog.wire.topic import Uuid

__all__ = ["FoundChunk", "chunk_name", "known_files", "name_around"]

_NAME: Final = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{32})\.(\d{1,9})\.chunk\.[0-9a-z-]+")


class FoundChunk(NamedTuple):
    """A file that an earlier run left."""

    name: str
    length: int
    topic_id: Uuid
    chunk_id: ChunkId


def chunk_name(topic_id: Uuid, chunk_id: ChunkId, unique: str) -> str:
    """The name of a new file; ``unique`` is of digits, lower-case letters and dashes, and never used before."""
    return str(chunk_id.number).join(name_around(topic_id, chunk_id.uuid, unique))


def name_around(topic_id: Uuid, uuid: Uuid, unique: str) -> tuple[str, str]:
    """The parts of the name before the chunk's number and behind it."""
    return f"{topic_id.hex()}.{uuid.hex()}.", f".chunk.{unique}"


def known_files(files: Iterable[tuple[str, int]], room_bytes: int) -> tuple[list[FoundChunk], list[str]]:
    """The chunks among ``(name, length)``, oldest first, and the names of what is to be removed.

    The latest chunks are kept, one file each, as far as there is room. Files of others are in neither list.
    """
    kept: list[FoundChunk] = []
    useless: list[str] = []
    seen: set[ChunkId] = set()
    for name, length in reversed(list(files)):
        found = _NAME.fullmatch(name)
        if found is not None and length <= room_bytes:
            chunk_id = ChunkId(bytes.fromhex(found[2]), int(found[3]))
            if length and chunk_id not in seen:
                seen.add(chunk_id)
                room_bytes -= length
                kept.append(FoundChunk(name, length, bytes.fromhex(found[1]), chunk_id))
                continue
        if is_of_cache(name):
            useless.append(name)
    return kept[::-1], useless
