"""How long, how often and where to measure."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings"]

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 8 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    """``seconds`` is the measured time of one run; ``disk`` is a directory on a real disk."""

    seconds: float = 2.0
    repetitions: int = 3
    disk: Path = Path(tempfile.gettempdir())

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
    """Use memory once, so that no kind pays for the machine's first touch of its pages."""
    page = bytes(1 << 20)
    with tempfile.TemporaryFile(dir=_MEMORY if _MEMORY.is_dir() else None) as file:
        for _ in range(size_bytes >> 20):
            file.write(page)
