"""Finish the work that a stop has interrupted: deletions, temporary files, the cleaner's swap."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from stratalog.hot.segments.scan import scan_headers
from stratalog.hot.segments.segment import CLEANED, DELETED, SUFFIXES, SWAP
from stratalog.hot.segments.transaction_index import aborted_from_bytes
from stratalog.hot.storage.filesystem import Entry, Filesystem
from stratalog.wire.errors import Corrupt

__all__ = ["NAMED", "drop_undecided_swaps", "finish_interrupted"]

NAMED: Final = re.compile(r"(\d{20})(\.\w+)")
"""A file of a log: base offset and suffix."""

_VOID: Final = (DELETED, ".tmp", CLEANED)


def finish_interrupted(files: Filesystem, directory: str, entries: Sequence[Entry], lost: Collection[int] = ()) -> bool:
    """Remove what was given up and complete what was decided; returns whether names changed.

    ``.deleted``, ``.tmp`` and ``.cleaned`` files are void, and indexes without a ``.log``, but for segments whose
    ``.log`` is ``lost``. A segment whose ``.log`` is ``.swap`` is complete: it
    replaces those whose offsets it covers (Kafka's rule). Where the ``.log`` is still ``.cleaned``, the ``.swap``
    files beside it are void, too; where it has its name already, they get theirs. Running it again after a crash in
    the middle ends the same. Raises `OSError`.
    """
    names = {entry.name for entry in entries}
    swaps = sorted(name for name in names if name.endswith(SWAP))
    undecided = drop_undecided_swaps(files, directory, names)
    orphans = [name for name in sorted(names) if _is_orphan(name, names, lost)]
    void = [name for name in sorted(names) if name.endswith(_VOID)]
    for name in orphans:
        files.unlink(f"{directory}/{name}")
    if any(name.endswith(".log" + DELETED) for name in void):
        files.sync_directory(directory)  # an index that outlived it would tell the next start of a lost ``.log``
    for name in void:
        files.unlink(f"{directory}/{name}")
    decided = [name for name in swaps if name not in undecided]
    if decided:
        _complete_swap(files, directory, names - undecided, decided)
    return bool(orphans or void or swaps)


def _is_orphan(name: str, names: Collection[str], lost: Collection[int]) -> bool:
    """Whether this is an index of a segment whose ``.log`` was removed before it."""
    match = NAMED.fullmatch(name)
    if match is None or match[2] not in SUFFIXES or match[2] == ".log" or int(match[1]) in lost:
        return False
    path = match[1] + ".log"
    return path not in names and path + SWAP not in names


def drop_undecided_swaps(files: Filesystem, directory: str, names: Collection[str]) -> set[str]:
    """Remove the ``.swap`` files whose ``.log`` is still ``.cleaned``; returns their names. Raises `OSError`.

    Durably: the ``.cleaned`` file, without which they would count, may go afterwards.
    """
    swaps = [name for name in names if name.endswith(SWAP)]
    undecided = {name for name in swaps if _log_of(name) + CLEANED in names and _log_of(name) + SWAP not in names}
    for name in undecided:
        files.unlink(f"{directory}/{name}")
    if undecided:
        files.sync_directory(directory)
    return undecided


def _log_of(swap: str) -> str:
    """The name of the ``.log`` that belongs to a file of the swap."""
    return swap.partition(".")[0] + ".log"


def _complete_swap(files: Filesystem, directory: str, names: Collection[str], swaps: Sequence[str]) -> None:
    """Old segments go first, then the new files get their names, each ``.log`` last: it says what is to be done."""
    for name in swaps:
        match = NAMED.fullmatch(name.removesuffix(SWAP))
        if match is not None and match[2] == ".log":
            base_offset, path = int(match[1]), f"{directory}/{name}"
            covered = range(base_offset, _end_offset(files, path, base_offset))
            if _log_of(name) not in names:
                # No old `.log`: the indexes of this name are the new ones, or the new ones are about to replace them.
                covered = covered[1:]
                aborted = match[1] + ".txnindex"
                if (
                    aborted in names
                    and aborted + SWAP not in names
                    and not _fits(files, f"{directory}/{aborted}", path)
                ):
                    files.unlink(f"{directory}/{aborted}")
            for other in sorted(names):
                named = NAMED.fullmatch(other)
                if named is not None and named[2] in SUFFIXES and int(named[1]) in covered:
                    files.unlink(f"{directory}/{other}")
    files.sync_directory(directory)
    for name in sorted(swaps, key=lambda name: name.endswith(".log" + SWAP)):
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    files.sync_directory(directory)


def _fits(files: Filesystem, aborted_path: str, log_path: str) -> bool:
    """Whether every marker that a ``.txnindex`` names stands in this ``.log``: an old one outlives its swap otherwise.

    Kafka, and stratalog of before, put no empty one in its place. Readers skip what follows an entry without its marker.
    """
    try:
        named = {transaction.last_offset for transaction in aborted_from_bytes(files.read_bytes(aborted_path))}
    except Corrupt:
        return True  # it is damaged, which is said where it is read
    if named:
        file = files.open_read(log_path)
        for _, header in scan_headers(file, 0, file.size_bytes()):
            if header.is_control and header.record_count:
                named.discard(header.last_offset)
    return not named


def _end_offset(files: Filesystem, path: str, base_offset: int) -> int:
    """Behind the last batch; a segment from which everything was cleaned still covers the one of its own name."""
    file = files.open_read(path)
    end = base_offset + 1
    for _, header in scan_headers(file, 0, file.size_bytes()):
        end = header.next_offset
    return end
