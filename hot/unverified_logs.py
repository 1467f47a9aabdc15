"""Logs that a clean stop does not vouch for: they were not opened since a stop that was not clean.

A log that cannot be opened after a power cut may lack a page in the middle, or its end. Its broker serves the others, and
stops in order. The mark of the clean stop is for the whole directory; so ``unverified-logs`` names those that the next start
has to verify all the same. It is written by each clean stop, before the mark, and is not there if it would be empty. The
form is that of ``log-bounds``, with a list of names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Final

from crc32c import crc32c

from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.directory_names import parse_directory_name
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

__all__ = ["UNVERIFIED", "read_unverified", "write_unverified"]

UNVERIFIED: Final = "unverified-logs"
_VERSION: Final = 1


def write_unverified(files: Filesystem, directory: str, names: Iterable[TopicPartition]) -> None:
    """Name these logs durably; without any the file goes. Raises `OSError`: then the stop is not a clean one."""
    path = f"{directory}/{UNVERIFIED}"
    texts = [str(name) for name in sorted(names)]
    if not texts:
        files.unlink(path)  # one that comes back with a power cut has logs verified that need not be
        return
    body = json.dumps(texts, separators=(",", ":")).encode()
    write_durably(files, path, b"%d %08x %d\n%b" % (_VERSION, crc32c(body), len(body), body))


def read_unverified(
    files: Filesystem, directory: str, found: Collection[TopicPartition], damaged: list[str]
) -> set[TopicPartition]:
    """The logs that the last clean stop has named; all that were ``found`` if the file is damaged, which joins ``damaged``."""
    try:
        return set(_parsed(files.read_bytes(f"{directory}/{UNVERIFIED}")))
    except FileNotFoundError:
        return set()
    except Corrupt:
        damaged.append(UNVERIFIED)
        return set(found)


def _parsed(data: bytes) -> Iterable[TopicPartition]:
    head, _, body = data.partition(b"\n")
    try:
        version, crc, length = (int(part, base) for part, base in zip(head.split(b" "), (10, 16, 10), strict=True))
        names = [parse_directory_name(text) for text in json.loads(body)]
    except (ValueError, TypeError) as error:
        raise Corrupt(f"{UNVERIFIED} is not readable: {error}") from error
    if (version, crc, length) != (_VERSION, crc32c(body), len(body)):
        raise Corrupt(f"{UNVERIFIED} is damaged, or of another version")
    return [name for name in names if name is not None]
