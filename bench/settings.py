"""How long, how often and where to measure; memory that was touched before."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Settings", "file_system", "real_disk", "touch_memory"]

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 8 << 30
_NO_DISK = frozenset({"tmpfs", "ramfs", "overlay"})


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system that holds ``path``, of the text of ``/proc/mounts`` (fstab(5)); "" if unknown."""
    found, longest = "", -1
    for line in mounts.splitlines():
        _, where, kind, *_ = line.split()
        if path.is_relative_to(where) and len(where) >= longest:
            found, longest = kind, len(where)
    return found


def real_disk() -> Path:
    """The folder for temporary files, or that of the C programs where the first is memory."""
    path = Path(tempfile.gettempdir()).resolve()
    mounts = Path("/proc/mounts")
    if not mounts.exists() or file_system(path, mounts.read_text()) not in _NO_DISK:
        return path
    beside = Path(__file__).resolve().parent / "build"
    beside.mkdir(exist_ok=True)
    return beside


@dataclass(frozen=True, slots=True)
class Settings:
    """``seconds`` is the measured time of one run, ``repetitions`` the least of each kind, ``disk`` is on a real disk.

    ``paced_seconds`` and ``paced_repetitions`` are those of the runs at a fixed rate.
    """

    seconds: float = 1.5
    repetitions: int = 3
    paced_seconds: float = 30.0
    paced_repetitions: int = 5
    disk: Path = field(default_factory=real_disk)

    @property
    def memory(self) -> Path:
        """Where files cost no disk: what is compared there is software. ``disk`` if there is no such place."""
        if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES_MIN:
            return _MEMORY
        return self.disk

    @contextmanager
    def folder(self, parent: Path) -> Iterator[Path]:
        """A folder of this run, removed at the end."""
        path = Path(tempfile.mkdtemp(prefix=f"stratalog-bench-{os.getpid()}-", dir=parent))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def touch_memory(size_bytes: int) -> None:
    """Use memory once and give it back, so that the run that follows does not pay for a machine's first touch.

    A guest's pages come from its host when they are first written (seven times slower here), and may go back to it.
    """
    with mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for position in range(0, size_bytes, mmap.PAGESIZE):
            memory[position] = 1
