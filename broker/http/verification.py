"""The result of a verification of the broker's bucket, so that the page can show when it was and what it found. Pure.

`stratalog tier verify` needs no broker and may run anywhere with the bucket; only with ``--tell`` does it say how it
went. It decides nothing, and is forgotten with the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stratalog.wire.errors import Invalid

__all__ = ["Verification", "verification_of"]

_COUNTS: Final = ("partitions", "objects", "size_bytes", "anomalies")


class Verification(NamedTuple):
    """The scope and findings of a verification; ``told_ms`` by the clock of
    the broker. ``topics`` is empty for all of them.
    """

    told_ms: int
    deep: bool
    topics: tuple[str, ...]
    partitions: int
    objects: int
    size_bytes: int
    anomalies: int


def verification_of(body: Mapping[str, Any], bucket_url: str, told_ms: int) -> Verification:
    """The verification that was sent, checked. Raises `Invalid` for
    anything odd, and for a verification of another bucket.
    """
    unknown = sorted(set(body) - {"bucket", "deep", "topics", *_COUNTS})
    if unknown:
        raise Invalid(f"unknown field {unknown[0]!r}: a verification has bucket, deep, topics, {', '.join(_COUNTS)}")
    bucket, deep, topics = body.get("bucket"), body.get("deep"), body.get("topics", [])
    if not isinstance(bucket, str) or bucket.rstrip("/") != bucket_url.rstrip("/"):
        raise Invalid(f"this broker's bucket is {bucket_url}, not {bucket}: give the same URL to both")
    if not isinstance(deep, bool):
        raise Invalid(f"'deep' must be true or false, got {deep!r}")
    if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
        raise Invalid(f"'topics' must be a list of names, got {topics!r}")
    counts = [body.get(name) for name in _COUNTS]
    for name, count in zip(_COUNTS, counts, strict=True):
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise Invalid(f"{name!r} must be a whole number from 0 on, got {count!r}")
    return Verification(told_ms, deep, tuple(topics), *(int(count or 0) for count in counts))
