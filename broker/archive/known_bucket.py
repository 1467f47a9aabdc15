"""A data directory's memory of its bucket: the identity, the URL, and the starts that may have written there.

JSON in the directory of the metadata, replaced as a whole. ``starts`` are those of this directory since ``since_ms``, newest
last: a claim or a note in the bucket under any other start of this broker, made since then, was made by a timeline that this
directory does not have.
"""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.hot.storage.checkpoint import KNOWN_BUCKET, write_durably
from stratalog.hot.storage.filesystem import Filesystem

__all__ = ["STARTS_MAX", "KnownBucket", "read_known_bucket", "write_known_bucket"]

STARTS_MAX: Final = 256
"""Remembered starts at most. An older claim proves nothing: ``since_ms`` moves up behind a start that is forgotten."""


class KnownBucket(Struct, frozen=True):
    """``bucket_id`` is empty as long as no bucket was seen.

    ``since_ms`` is when the first start was noted behind which all are known, -1 for never. ``incarnation`` is that of the
    cluster when it last wrote there, -1 where an earlier release has not noted it. ``times_ms`` are those of the latest starts;
    earlier releases have noted none.
    """

    bucket_id: str = ""
    url: str = ""
    since_ms: int = -1
    starts: tuple[str, ...] = ()
    incarnation: int = -1
    times_ms: tuple[int, ...] = ()

    def with_start(self, start_id: str, now_ms: int, *, noted: str = "") -> KnownBucket:
        """A copy with one more start. The start that the bucket has ``noted`` is not forgotten for it, if it is known."""
        if start_id in self.starts:
            return self
        since_ms = self.since_ms if self.since_ms >= 0 else now_ms
        starts = [*self.starts, start_id]
        times_ms = [*[-1] * (len(self.starts) - len(self.times_ms)), *self.times_ms, now_ms]
        if len(starts) > STARTS_MAX:
            forgotten = 1 if starts[0] == noted else 0
            del starts[forgotten], times_ms[forgotten]
            if times_ms[forgotten] >= 0:  # what the forgotten one has claimed was claimed before the next one began
                since_ms = times_ms[forgotten]
        return replace(self, since_ms=since_ms, starts=tuple(starts), times_ms=tuple(times_ms))


def read_known_bucket(files: Filesystem, directory: str) -> KnownBucket | None:
    """The remembered bucket; None if the file is not there. Raises `ValueError` for one that cannot be read."""
    try:
        data = files.read_bytes(f"{directory}/{KNOWN_BUCKET}")
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(data)
        texts = [fields["bucket_id"], fields["url"], *fields["starts"]]
        since_ms, incarnation = int(fields["since_ms"]), int(fields.get("incarnation", -1))
        times_ms = tuple(map(int, fields.get("times_ms", ())))
    except (TypeError, LookupError) as error:
        raise ValueError(f"a field is missing: {error!r}") from error
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a field is no text")
    bucket_id, url, *starts = texts
    return KnownBucket(bucket_id, url, since_ms, tuple(starts), incarnation, times_ms[-len(starts) :] if starts else ())


def write_known_bucket(files: Filesystem, directory: str, known: KnownBucket) -> None:
    """Write it to the directory, durably. Raises `OSError`."""
    fields = {
        "version": 0,
        "bucket_id": known.bucket_id,
        "url": known.url,
        "since_ms": known.since_ms,
        "starts": list(known.starts),
        "incarnation": known.incarnation,
        "times_ms": list(known.times_ms),
    }
    write_durably(files, f"{directory}/{KNOWN_BUCKET}", json.dumps(fields).encode("ascii"))
