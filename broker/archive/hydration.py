"""Fetches a range of the archive into the chunk cache ahead of its readers, and holds it there for a while.

It reads as a consumer does, with its budgets and read-ahead, and holds every chunk that it passes. A call works for
some seconds and says where to go on, so that no work runs on when the caller has gone.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct, field

from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.tier.reading.remote_log import ChunkId
from stratalog.wire.errors import Invalid

__all__ = ["Hydrated", "HydrationReader", "hydrate"]

_READ_BYTES: Final = 4 << 20
_POLL_S: Final = 0.02
CALL_S: Final = 5.0


class HydrationReader(Struct, frozen=True, eq=False):
    """The reader of a hydration, with a budget of its own, as one client: to the cache it is like a connection."""

    principal: str = "User:ANONYMOUS"
    client_id: str = "tier-hydrate"
    closed: bool = False
    """Never: the reader leaves when the call ends."""


class Hydrated(Struct):
    """Progress: ``[start, next_offset)`` is cached and held; ``done`` at the end of the range or of the archive."""

    start: int
    next_offset: int
    done: bool = False
    chunks: dict[ChunkId, int] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of the chunks held."""
        return sum(self.chunks.values())


async def hydrate(
    unified: UnifiedLog, chunks: ChunkFiles, start: int, end: int, *, until_ms: int, call_s: float = CALL_S
) -> Hydrated:
    """Fetch and hold ``[start, end)``, cut to what is archived, until ``until_ms`` on the clock of ``chunks``.

    Raises `Invalid` for a partition without an archive here and where the cache may hold no more, `KafkaError` for
    what cannot be read.
    """
    remote = unified.remote
    if not isinstance(remote, RemotePartition):
        raise Invalid(
            f"{unified.topic_partition} has no archive on this broker: is remote.storage.enable set, and is it led here?"
        )
    loop = asyncio.get_running_loop()
    deadline = loop.time() + call_s
    reader = (HydrationReader(), unified)
    found = Hydrated(start, max(start, remote.start_offset))
    try:
        while found.next_offset < min(end, remote.end_offset):
            if not _step(remote, chunks, reader, found, until_ms):
                await asyncio.sleep(_POLL_S)
            else:
                await asyncio.sleep(0)
            if loop.time() >= deadline:
                return found
        found.done = True
        return found
    finally:
        remote.crossed(reader, -1)


def _step(
    remote: RemotePartition,
    chunks: ChunkFiles,
    reader: tuple[HydrationReader, UnifiedLog],
    found: Hydrated,
    until_ms: int,
) -> bool:
    """Read on and hold the chunks that were read; False if they must be fetched first."""
    offset = found.next_offset
    read = remote.read(reader, offset, _READ_BYTES)
    if read is None or remote.entries is None:
        return False
    for ref in remote.entries.plan_fetch(offset, max(1, read.size_bytes)).chunks:
        if ref.chunk.first_offset >= read.next_offset:
            break
        if ref.id in found.chunks:
            continue
        if not chunks.books.hold(ref.id, until_ms):
            raise Invalid(
                f"offset {ref.chunk.first_offset}: the chunk cache holds as much as it may for later readers; what came "
                "before it is held. Ask for less, or raise stratalog.cache.bytes.max"
            )
        found.chunks[ref.id] = ref.chunk.length
    found.next_offset = read.next_offset
    return True
