"""The sentence about a range that a local disk has lost."""

from __future__ import annotations

from stratalog.hot.recovery.missing import MissingRange
from stratalog.wire.topic import TopicPartition

__all__ = ["missing_sentence"]


def missing_sentence(
    topic_partition: TopicPartition, remote_end: int | None, missing: MissingRange, *, others_have_it: bool = False
) -> str:
    """Names the range, the reason, who serves it and what to do. ``remote_end`` is None without an archive."""
    base, end = missing.base_offset, missing.end_offset
    archived_end = base if remote_end is None else min(max(base, remote_end), end)
    said = f"{topic_partition}: offsets [{base}, {end}) are missing on this disk: {missing.why}."
    if others_have_it:
        return f"{said} Other replicas have them: this one leaves the in-sync set and copies its log again from there"
    if archived_end == end:
        return f"{said} They are read from the archive, nothing has to be done"
    if archived_end > base:
        said = f"{said} Those below {archived_end} are read from the archive."
    return (
        f"{said} No reader gets [{archived_end}, {end}), all others are served. Stop the broker, put the damaged file back from a "
        f"copy, and remove the note beside {missing.path} (and that file, if it is empty). Or move the log start to {end} with "
        "DeleteRecords, or have consumers seek to it"
    )
