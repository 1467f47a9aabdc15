"""Producer snapshots on disk: find them, restore the state of any offset from them and the log."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from stratalog.hot.recovery.opening import OpenRequest
from stratalog.hot.recovery.replay import replay_steps
from stratalog.hot.segments.segment import Segment, segment_path
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.errors import Corrupt

__all__ = ["SNAPSHOT", "first_unflushed", "restore_steps", "stray_snapshots"]

SNAPSHOT = ".snapshot"


def restore_steps(
    files: Filesystem,
    directory: str,
    snapshots: Iterable[int],
    segments: Iterable[Segment],
    *,
    start_offset: int,
    end_offset: int,
    name: str,
) -> Generator[None, None, ProducerStateManager]:
    """The producers as they stood at ``end_offset``: the newest readable snapshot below it, and the log from there.

    Without a snapshot the log is replayed from ``start_offset``, where it begins. One of before that is not taken: batches between
    them are in no segment any more, and a producer without its last ones would be out of order for ever. Goes in the steps of `replay_steps`. Raises `OSError`.
    """
    state = ProducerStateManager(name)
    state.end_offset = start_offset
    for offset in sorted((offset for offset in snapshots if start_offset <= offset <= end_offset), reverse=True):
        try:
            state.load_bytes(files.read_bytes(segment_path(directory, offset, SNAPSHOT)), offset)
            break
        except (Corrupt, FileNotFoundError):
            continue  # an older one and a longer replay give the same state
    if state.end_offset < end_offset:
        yield from replay_steps(state, segments, end_offset)
    return state


def stray_snapshots(snapshots: Iterable[int], base_offsets: Iterable[int], end_offset: int) -> list[int]:
    """The snapshots that serve nothing: not at a segment's base, not the newest, or beyond the log end.

    A clean stop leaves one at the log end, which may lie inside a segment by now.
    """
    bases = set(base_offsets)
    valid = sorted(offset for offset in snapshots if offset <= end_offset)
    newest = valid[-1] if valid else None
    oldest_base = min(bases, default=0)
    return [
        offset
        for offset in snapshots
        if offset > end_offset or (offset != newest and (offset not in bases or offset < oldest_base))
    ]


def first_unflushed(request: OpenRequest, segments: Sequence[Segment]) -> int:
    """The number of the segment in which the recovery point lies; of two that meet there, as a rule the later one.

    The one before it may have been synced whole and not sealed: where the disk was full, its indexes are not there, or in
    part, and nothing tells of a missing entry of an aborted transaction. The snapshot at its end is written last.
    Raises `OSError`.
    """
    number, point = len(segments) - 1, request.recovery_point
    while number > 0 and segments[number].base_offset > point:
        number -= 1
    if number > 0 and segments[number].base_offset == point and segments[number - 1].missing is None:
        number -= not _has_snapshot(request, point)
    return number


def _has_snapshot(request: OpenRequest, offset: int) -> bool:
    """Whether there is one that can be read."""
    try:
        data = request.files.read_bytes(segment_path(request.directory, offset, SNAPSHOT))
        ProducerStateManager(str(request.topic_partition)).load_bytes(data, offset)
    except (Corrupt, FileNotFoundError):
        return False
    return True
