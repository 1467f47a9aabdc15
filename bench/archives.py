"""Topics whose history is in the bucket and off the local disk, and files that are not in the page cache."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.servers import LOCAL_START, REMOTE_LAST, BrokerServer

__all__ = ["TIERED", "drop_from_page_cache", "frozen_not_uploaded", "json_values", "wait_archived"]

TIERED = {"remote_storage_enable": "true", "local_retention_bytes": "1", "retention_ms": "-1"}
"""Everything frozen goes to the bucket and leaves the local disk as soon as it may."""

_WAIT_SECONDS = 120


def json_values(count: int, size_bytes: int) -> list[bytes]:
    """``count`` different values of ``size_bytes`` that look like events and compress as such."""
    words = [f"{index * 2654435761 % 2**32:08x}" for index in range(2000)]
    values = []
    for index in range(count):
        amount = index * 2654435761 % 100000
        text = f'{{"id":{index},"user":"{words[index * 31 % 2000]}","amount":{amount},"text":"'
        turn = index
        while len(text) < size_bytes:
            text += words[turn % 2000] + " "
            turn = turn * 1103515245 + 12345 & 0x7FFFFFFF
        values.append(f'{text[: size_bytes - 2]}"}}'.encode())
    return values


def wait_archived(broker: BrokerServer, topic: str, partition_count: int) -> list[int]:
    """Wait until all frozen segments are in the bucket and off the local disk; the end offset of each archive.

    Raises ``SystemExit`` if that takes longer than two minutes.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    frozen = 0
    while time.monotonic() < deadline:
        ends = [last + 1 for last in broker.offsets(topic, partition_count, REMOTE_LAST)]
        frozen = max(frozen_not_uploaded(broker.data, topic, ends))
        if not frozen and ends == broker.offsets(topic, partition_count, LOCAL_START):
            return ends
        time.sleep(0.25)
    raise SystemExit(f"{topic}: {frozen} segments were not uploaded in {_WAIT_SECONDS} s")


def frozen_not_uploaded(data: Path, topic: str, ends: list[int]) -> list[int]:
    """For each partition, the frozen segments in its folder that begin at or behind the end of its archive."""
    counts = []
    for partition, end in enumerate(ends):
        bases = sorted(int(path.stem) for path in (data / f"{topic}-{partition}").glob("*.log"))
        counts.append(sum(base >= end for base in bases[:-1]))
    return counts


def drop_from_page_cache(folder: Path) -> int:
    """Write the files below ``folder`` to the disk and have the kernel forget them; their bytes."""
    size_bytes = 0
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                size_bytes += os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
    return size_bytes
