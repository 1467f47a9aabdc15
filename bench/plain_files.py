"""The limit of the disk without any broker: plain files that are written and synced as those of replicas are."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

__all__ = ["appended_p99_ms", "synced_rate"]

_PIECE_BYTES: Final = 1 << 20
_RECORD_BYTES: Final = 200
_REPLICAS: Final = 3
_PAUSE_SECONDS: Final = 1 / 200


def synced_rate(folder: Path, size_bytes: int, sync_bytes: int) -> float:
    """Bytes a second of one file of ``size_bytes`` that is synced every ``sync_bytes``."""
    begun = time.monotonic()
    _copy(folder / "limit", size_bytes, sync_bytes, rate=None, over=threading.Event())
    return size_bytes / (time.monotonic() - begun)


def appended_p99_ms(folder: Path, seconds: float, *, sync_bytes: int = 0, rate: float | None = None) -> float:
    """The 99th percentile of the time, from when it is due, in which three files take a record each and are synced.

    200 records a second are due. Beside them another file grows, at ``rate`` bytes a second or as fast as it can, and is
    synced every ``sync_bytes``; none does if that is 0.
    """
    over, times_ms = threading.Event(), []
    beside = threading.Thread(target=_copy, args=(folder / "beside", 1 << 40, sync_bytes, rate, over))
    if sync_bytes:
        beside.start()
    with ThreadPoolExecutor(_REPLICAS) as pool:
        files = [(folder / f"replica-{number}").open("wb", buffering=0) for number in range(_REPLICAS)]
        begun = due = time.monotonic()
        while time.monotonic() < begun + seconds:
            list(pool.map(_append, (file.fileno() for file in files)))
            times_ms.append((time.monotonic() - due) * 1000)
            due += _PAUSE_SECONDS
            time.sleep(max(0.0, due - time.monotonic()))
        for file in files:
            file.close()
    over.set()
    if sync_bytes:
        beside.join()
    return sorted(times_ms)[int(len(times_ms) * 0.99)]


def _append(descriptor: int) -> None:
    os.write(descriptor, b"x" * _RECORD_BYTES)
    os.fdatasync(descriptor)


def _copy(path: Path, size_bytes: int, sync_bytes: int, rate: float | None, over: threading.Event) -> None:
    """Write a file until it has ``size_bytes`` or it is ``over``, and remove it."""
    piece = os.urandom(_PIECE_BYTES)
    begun, written = time.monotonic(), 0
    with path.open("wb", buffering=0) as file:
        while written < size_bytes and not over.is_set():
            written += file.write(piece)
            if written % sync_bytes < _PIECE_BYTES:
                os.fdatasync(file.fileno())
            if rate is not None:
                over.wait(max(0.0, begun + written / rate - time.monotonic()))
        os.fdatasync(file.fileno())
    path.unlink()
