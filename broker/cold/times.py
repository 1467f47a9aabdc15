"""Looking archived records up by time: the manifest says which objects may hold one, the worker looks into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from stratalog.broker.workers.io_worker import Submit, ask
from stratalog.hot.log.times import TimestampOffset
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.view import ManifestView, RemoteSegment
from stratalog.tier.messages import commands
from stratalog.tier.reading.remote_log import RemoteLog
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["RemoteTimes"]

_Answer = TypeVar("_Answer")


class _Replaced(NamedTuple):
    """An object is gone: the manifest has to be read again."""


class _Manifest(Protocol):
    """The keeper of the partition's manifest."""

    is_stale: bool
    """Whether entries were rewritten since those known were read: later ones are not known, though local files may have left."""
    seen_seq: int
    """The number of the newest manifest that was seen, also of one whose entries are still to come."""

    @property
    def start_offset(self) -> int:
        """The first archived offset."""

    @property
    def end_offset(self) -> int:
        """Behind the last archived offset of this cluster's log: another owner may have archived more."""

    def apply(self, view: ManifestView, *, asked_seq: int) -> object:
        """Take a manifest in that was asked for when number ``asked_seq`` was known."""

    def raise_remembered(self) -> None:
        """Raise `KafkaError` if it could not be taken in."""

    def unload(self) -> None:
        """Let the entries go."""


class RemoteTimes:
    """The times of one partition's archive."""

    def __init__(self, partition: PartitionId, remote: RemoteLog, manifest: _Manifest, submit: Submit) -> None:
        self._partition = partition
        self._remote = remote
        self._manifest = manifest
        self._submit = submit

    def may_hold(self, timestamp_ms: int, before_offset: int) -> bool:
        """Whether a look-up for this time must ask the archive."""
        if not self._remote.loaded or self._manifest.is_stale:
            return True
        segment = self._remote.time_candidate(timestamp_ms, self._manifest.start_offset)
        return segment is not None and segment.base < before_offset

    async def find_timestamp(self, timestamp_ms: int, from_offset: int, before_offset: int) -> TimestampOffset | None:
        """The first archived record at or after a time in ``[from_offset, before_offset)``. Raises `KafkaError`."""
        await self._load()
        at = start = max(self._manifest.start_offset, from_offset)
        before_offset, again = min(before_offset, self._manifest.end_offset), True
        while (segment := self._remote.time_candidate(timestamp_ms, at)) is not None:
            if segment.base >= before_offset:
                return None
            found = await self._find_in(segment, timestamp_ms, start, before_offset, again=again)
            if isinstance(found, TimestampOffset):
                return found
            at, again = (segment.end, True) if found is None else (at, False)
            await self._load()
        return None

    async def find_max_timestamp(self, before_offset: int) -> TimestampOffset | None:
        """The first archived record with the largest timestamp; None if the local log has it. Raises `KafkaError`."""
        for again in (True, False):
            await self._load()
            found = await self._find_largest(before_offset, again=again)
            if not isinstance(found, _Replaced):
                return found
        return None

    async def _find_largest(self, before_offset: int, *, again: bool) -> TimestampOffset | _Replaced | None:
        """As above. The object that holds the log start may have its largest timestamp in a record that was deleted."""
        start, end = self._manifest.start_offset, self._manifest.end_offset
        if end < self._remote.remote_end:
            return await self._largest_of(self._remote.latest_within(start, end), start, end, again=again)
        left: TimestampOffset | None = None
        segment = self._remote.latest_timestamp(start)
        if segment is not None and segment.base < start:
            first, segment = segment, self._remote.latest_timestamp(segment.end)
            command = commands.FindLargestTimestamp(self._partition, first.key, start, before_offset)
            found = await self._found(command, again=again)
            if isinstance(found, _Replaced):
                return found
            left = found
        if segment is None or (left is not None and left.timestamp_ms >= segment.max_timestamp_ms):
            return left
        if segment.base >= before_offset:
            return None
        return await self._find_in(segment, segment.max_timestamp_ms, start, before_offset, again=again)

    async def _largest_of(
        self, segments: Sequence[RemoteSegment], start: int, end: int, *, again: bool
    ) -> TimestampOffset | _Replaced | None:
        """The first record of ``[start, end)`` in these objects with the largest timestamp.

        Another owner may have archived more behind ``end``: that says nothing of the local log.
        """
        best: TimestampOffset | None = None
        for segment in segments:
            found = await self._found(
                commands.FindLargestTimestamp(self._partition, segment.key, start, end), again=again
            )
            if isinstance(found, _Replaced):
                return found
            if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
                best = found
        return best

    async def _find_in(
        self, segment: RemoteSegment, timestamp_ms: int, start: int, end: int, *, again: bool
    ) -> TimestampOffset | _Replaced | None:
        command = commands.FindTimestamp(self._partition, segment.key, timestamp_ms, start, end)
        return await self._found(command, again=again)

    async def _found(
        self, command: commands.FindTimestamp | commands.FindLargestTimestamp, *, again: bool
    ) -> TimestampOffset | _Replaced | None:
        """The record. With ``again`` an object that is gone may have been replaced: the manifest is let go."""
        report = await ask(self._submit, command)
        if again and isinstance(report, commands.MissingReport):
            self._manifest.unload()
            return _Replaced()
        found = _answer(report, commands.TimestampFound)
        return None if found.offset < 0 else TimestampOffset(found.timestamp_ms, found.offset, found.leader_epoch)

    async def _load(self) -> None:
        """Have all the ranges, as they are now; an answer that a commit has overtaken brings none, and is asked for again."""
        while not self._remote.loaded or self._manifest.is_stale:
            self._manifest.raise_remembered()
            asked_seq = self._manifest.seen_seq
            report = await ask(self._submit, commands.ReadManifest(self._partition))
            self._manifest.apply(_answer(report, commands.ManifestRead).view, asked_seq=asked_seq)
            self._manifest.raise_remembered()


def _answer(report: commands.Report, kind: type[_Answer]) -> _Answer:
    """The report if it is of this kind. Raises `KafkaError` for any other."""
    if isinstance(report, kind):
        return report
    corrupt = isinstance(report, commands.CorruptReport)
    code = ErrorCode.CORRUPT_MESSAGE if corrupt else ErrorCode.KAFKA_STORAGE_ERROR
    raise KafkaError(code, getattr(report, "message", str(report)))
