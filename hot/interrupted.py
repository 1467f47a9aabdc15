"""What was under way when a log's owner stopped: deletions, temporary files, the cleaner's swap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stratalog.hot.filesystem import Entry, Filesystem
from stratalog.hot.scan import scan_headers
from stratalog.hot.segment import DELETED, SUFFIXES

__all__ = ["NAMED", "finish_interrupted"]

NAMED: Final = re.compile(r"(\d{20})(\.\w+)")
"""A file of a log: base offset and suffix."""

_SWAP: Final = ".swap"
_VOID: Final = (DELETED, ".tmp", ".cleaned")


def finish_interrupted(files: Filesystem, directory: str, entries: Sequence[Entry]) -> bool:
    """Remove what was given up and complete what was decided; returns whether names changed.

    ``.deleted``, ``.tmp`` and ``.cleaned`` files are void. A ``.swap`` segment is complete: it replaces those whose
    offsets it covers (Kafka's rule). Running it again after a crash in the middle ends the same. Raises `OSError`.
    """
    changed = False
    for entry in entries:
        if entry.name.endswith(_VOID):
            files.unlink(f"{directory}/{entry.name}")
            changed = True
    swaps = [entry.name for entry in entries if entry.name.endswith(_SWAP)]
    if swaps:
        _complete_swap(files, directory, [entry.name for entry in entries], swaps)
    return changed or bool(swaps)


def _complete_swap(files: Filesystem, directory: str, names: Sequence[str], swaps: Sequence[str]) -> None:
    for name in swaps:
        match = NAMED.fullmatch(name.removesuffix(_SWAP))
        if match is not None and match[2] == ".log":
            covered = range(int(match[1]), _end_offset(files, f"{directory}/{name}", int(match[1])))
            for other in names:
                named = NAMED.fullmatch(other)
                if named is not None and named[2] in SUFFIXES and int(named[1]) in covered:
                    files.unlink(f"{directory}/{other}")
    for name in swaps:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(_SWAP)}")
    files.sync_directory(directory)


def _end_offset(files: Filesystem, path: str, base_offset: int) -> int:
    file = files.open_read(path)
    end = base_offset
    for _, header in scan_headers(file, 0, file.size_bytes()):
        end = header.next_offset
    return end
