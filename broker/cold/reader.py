"""Reading the archive of one partition: manifest on demand, chunks through the cache.

No call blocks: missing data is asked for, and the partition's watchers are called when it has come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from stratalog.broker.cold.cached_reads import CachedReads
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.chunk_slices import ChunkSlices, RemoteSlices
from stratalog.broker.cold.manifest_views import RemoteViews
from stratalog.broker.cold.own_part import WHOLE, OwnPart
from stratalog.broker.cold.remembered_errors import ERROR_MS, RememberedErrors, went_back
from stratalog.broker.cold.stream import RemoteStream
from stratalog.broker.cold.times import RemoteTimes
from stratalog.broker.runtime.metrics import TopicMetrics
from stratalog.broker.workers.io_worker import Submit
from stratalog.hot.config import LONG_MAX
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.view import NO_ENTRIES, ManifestView, RemoteSegment
from stratalog.tier.messages import commands
from stratalog.tier.objects.even_table import even_table
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.reading.chunk_pins import Reader
from stratalog.tier.reading.remote_log import ChunkId, ChunkRef, RemoteLog
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import Uuid

__all__ = ["RemotePartition", "RemoteSlices"]

_IDLE_MS: Final = 30_000
_FETCH_BYTES_MIN: Final = 1
_MISSING_MAX: Final = 1000
"""Objects found gone that are remembered until a manifest tells whether others took their places."""

log = logging.getLogger(__name__)


class RemotePartition:
    """The broker's knowledge of one partition's archive, and its readers' access to it."""

    def __init__(
        self,
        partition: PartitionId,
        *,
        submit: Submit,
        chunks: ChunkFiles,
        metrics: TopicMetrics,
        wake: Callable[[], None],
        now_ms: Callable[[], int],
        checkpoint: RemoteLogState | None = None,
        views: RemoteViews | None = None,
        own: OwnPart = WHOLE,
    ) -> None:
        self.border_reads = 0
        """Readers that went on from the archive to the local disk."""
        self._partition = partition
        self._submit = submit
        self._chunks = chunks
        self._metrics = metrics
        self._wake = wake
        self.follow_start: Callable[[int], object] = lambda _offset: None
        self._now_ms = now_ms
        self._own = own
        self._checkpoint = checkpoint
        self._remote = RemoteLog(partition)
        self._views = views if views is not None else RemoteViews()
        self._loaded = False
        self.is_stale = False
        self.seen_seq = -1
        self._refreshing = False
        self._reads_begun = self._reads_done = 0
        # Object: the read of the manifest, by number, that tells whether another one took its place.
        self._missing: dict[Uuid, int] = {}
        times = RemoteTimes(partition, self._remote, self, submit)
        self.may_hold = times.may_hold
        self.find_timestamp = times.find_timestamp
        self.find_max_timestamp = times.find_max_timestamp
        self._asked_tables: set[Uuid] = set()
        self._asked_aborted: set[Uuid] = set()
        self._errors = RememberedErrors(partition, now_ms)
        self._cached = CachedReads(chunks, self._errors)
        self._streams: dict[object, RemoteStream] = {}
        self._applied_ms = 0

    # -- what is known ----------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The first archived offset, by the manifest or the local checkpoint of it."""
        remote = self._remote
        if not self._loaded:
            return self.state.log_start_offset
        return min(max(remote.remote_start, remote.log_start_offset), self._own_end)

    @property
    def end_offset(self) -> int:
        """Behind the last archived offset of this cluster's log."""
        return min(self._remote.remote_end, self._own_end) if self._loaded else self.state.remote_end_offset

    @property
    def _own_end(self) -> int:
        """Where this log's part of the archive ends: above it the archive has other records."""
        return self._own.end_under(self._remote.claimant, self._remote.leader_epochs)

    @property
    def archive_clean_offset(self) -> int:
        """Up to here the archive has been compacted; 0 while that is not known."""
        return self._remote.archive_clean_offset if self._loaded and self._own_end == LONG_MAX else 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all archived objects."""
        return self._remote.totals.size_bytes if self._loaded else self.state.remote_bytes

    @property
    def state(self) -> RemoteLogState:
        """The figures for the broker's checkpoint, and the manifest that they are from."""
        if not self._loaded:
            return self._checkpoint or RemoteLogState(0, 0, 0)
        return RemoteLogState(self.start_offset, self.end_offset, self._remote.totals.size_bytes, self._remote.seq)

    @property
    def object_count(self) -> int:
        """Archived objects; 0 until the manifest has been read."""
        return self._remote.totals.segments

    @property
    def known(self) -> bool:
        """Whether the offsets here were read from a manifest or a checkpoint, now or earlier."""
        return self._loaded or self._checkpoint is not None

    @property
    def known_end(self) -> int:
        """The offset below which a reply may leave entries out; no entries are needed as long as none were asked for."""
        return self._remote.remote_end if self._remote.loaded else NO_ENTRIES

    @property
    def leader_epochs(self) -> tuple[LeaderEpoch, ...]:
        """Which leader wrote which archived offsets; empty until the manifest has been read."""
        return self._remote.leader_epochs

    @property
    def log_start_offset(self) -> int | None:
        """The manifest's log start, as far as it concerns this log; None while it has not been read."""
        return min(self._remote.log_start_offset, self._own_end) if self._loaded else None

    @property
    def facts(self) -> RemoteLog | None:
        """The manifest's facts besides its entries; None while it has not been read."""
        return self._remote if self._loaded else None

    @property
    def entries(self) -> RemoteLog | None:
        """The archived ranges; None while they have not been read, or have been let go for others."""
        return self._remote if self._remote.loaded else None

    def unload(self) -> None:
        """Let the archived ranges go: they are read again on demand."""
        self._remote.unload()

    def apply(self, view: ManifestView, *, asked_seq: int = -1) -> bool:
        """Take a manifest in; False for one that is older than what was known, or ends before what was archived.

        Such a manifest is not believed. ``asked_seq`` is the number of the manifest that was known when this one was asked
        for: an answer that a later one has overtaken is older, too, and changes nothing.
        """
        if view.seq < asked_seq:
            if view.shortened_seq <= asked_seq:
                self._remember(None, went_back(self._partition, view.seq, asked_seq))
                return False
            self.unload()  # it was lost and repaired, and its changes are numbered anew
            self._remote.seq = self.seen_seq = -1
        known_seq, ends_early = self.state.manifest_seq, view.remote_end < self.end_offset
        if ends_early and view.seq >= self._remote.seq and not view.may_end_earlier(known_seq):
            words = f"its manifest ends at offset {view.remote_end}, but {self.end_offset} offsets were archived"
            self._remember(None, commands.LostReport(f"{self._partition}: {words}"))
            return False
        self.seen_seq = max(self.seen_seq, view.seq)
        if not self._remote.merge(view):
            self.is_stale = True  # entries were rewritten: those known serve until the new ones have come
            self.refresh()
            return True
        self._loaded = True
        if self._remote.loaded and not view.entries_from:
            self.is_stale &= view.seq < self.seen_seq  # it was read before a commit whose answer came first
            self._views.loaded(self, len(self._remote))
        self._applied_ms = self._now_ms()
        self.follow_start(min(self._remote.log_start_offset, self._own_end))  # before readers look again
        self._wake()
        return True

    def note_trash(self, report: commands.TrashEmptied) -> None:
        """The trash has been looked at, and something may have gone from it."""
        if self._loaded:
            self._remote.note_trash(report)

    def refresh(self, *, entries: bool = True) -> None:
        """Read the manifest, once at a time; with ``entries`` those that are not known yet too."""
        if self._refreshing:
            return
        self._refreshing = True
        self._reads_begun += 1
        known = self._remote.loaded and not self.is_stale
        version = self._remote.version if known or (self._loaded and not entries) else ""
        known_end = self._remote.remote_end if known else 0 if entries else NO_ENTRIES
        answered = partial(self._refreshed, self.seen_seq)
        self._submit(commands.ReadManifest(self._partition, version, known_end), answered)

    def _refreshed(self, asked_seq: int, report: commands.Report) -> None:
        self._refreshing = False
        if isinstance(report, commands.ManifestRead):
            self._reads_done = self._reads_begun
            self.apply(report.view, asked_seq=asked_seq)
        elif isinstance(report, commands.ManifestUnchanged):
            self._reads_done = self._reads_begun
            self._applied_ms = self._now_ms()
            self._wake()
        else:
            self._remember(None, report)

    # -- reading by offset ------------------------------------------------------------------------------------------

    def read(self, reader: Reader, offset: int, max_bytes: int, *, min_one_batch: bool = True) -> RemoteSlices | None:
        """Cached batches from the one that holds ``offset``, or None while they are being fetched.

        Raises `KafkaError` KAFKA_STORAGE_ERROR for what cannot be had, CORRUPT_MESSAGE for damaged chunks.
        """
        self._errors.raise_for(None)
        end_offset = self._own_end
        if not self._remote.loaded or self._remote.find(offset) is None or offset >= end_offset:
            self._not_known(offset)
            return None
        self._views.used(self)
        stream = self._stream(reader, offset)
        plan = self._remote.plan_fetch(offset, max(max_bytes, _FETCH_BYTES_MIN))
        if not plan.chunks:
            if plan.missing_table is not None:
                self._errors.raise_for(plan.missing_table.uuid)
                self._read_table(plan.missing_table, offset, reader)
            return None
        out = ChunkSlices(offset, max_bytes, min_one_batch=min_one_batch, end_offset=end_offset)
        stream.held = self._cached.take(plan.chunks, reader, out)
        if not stream.held:
            self._errors.raise_for(plan.chunks[0].id)
            wanted = stream.missing(self._remote, offset, plan.chunks[0], whole_gets=self._chunks.ahead.roomy)
            self._want(wanted, reader)
            return None
        aborted = self._aborted_in(offset, out.next_offset, stream)
        if aborted is None:
            return None
        self._read_ahead(stream, reader, offset, out.next_offset)
        stream.next_offset = out.next_offset
        return RemoteSlices(out.parts, out.size_bytes, out.next_offset, aborted)

    def throttle_ms(self, reader: Reader) -> int:
        """How long the reader waits for its turn to have something fetched; 0 if it does not."""
        return self._chunks.admission.throttle_ms(reader)

    def crossed(self, reader: Reader, offset: int) -> None:
        """``reader`` goes on at ``offset`` without the archive: its chunks go, and whether it came from there is noted."""
        if self._streams and (stream := self._streams.pop(reader, None)) is not None:
            self.border_reads += stream.next_offset == offset
            self._chunks.leave(reader)

    def end_reads(self) -> None:
        """The partition is not read here any more: nothing is kept for its readers, whose connections may last."""
        self._views.forget(self)
        streams, self._streams = self._streams, {}
        for reader in streams:
            self._chunks.leave(reader)

    def _stream(self, reader: Reader, offset: int) -> RemoteStream:
        """The reader's stream; chunks that it has read past are let go, those of readers long gone too."""
        now_ms = self._now_ms()
        stream = self._streams.get(reader)
        if stream is None:
            for other in [one for one, known in self._streams.items() if now_ms - known.read_ms >= _IDLE_MS]:
                del self._streams[other]
                self._chunks.leave(other)
            stream = self._streams[reader] = RemoteStream(offset, now_ms)
        stream.read_ms = now_ms
        for ref in stream.held:
            if not ref.chunk.first_offset <= offset < ref.end_offset:
                self._chunks.read_past(ref.id, reader)
        return stream

    def _not_known(self, offset: int) -> None:
        """The manifest as it is known does not hold ``offset``: read it again, but not all the time.

        Where its entries were rewritten since, those that come may hold it: the disk may have let it go by a commit.
        """
        is_recent = self._now_ms() - self._applied_ms < ERROR_MS
        if self._remote.loaded and not self.is_stale and (offset < self.start_offset or is_recent):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"offset {offset} of {self._partition} is neither on the local disk nor in the archive, which holds "
                f"[{self.start_offset}, {self.end_offset})",
            )
        self.refresh()

    def _read_ahead(self, stream: RemoteStream, reader: Reader, offset: int, next_offset: int) -> None:
        wanted = self._chunks.ahead.on_read(reader, offset, next_offset, self._now_ms())
        plan = stream.ahead(self._remote, next_offset, wanted, whole_gets=self._chunks.ahead.roomy)
        if plan is None:
            return
        if plan.missing_table is not None:
            self._read_table(plan.missing_table)
        if self._want(plan.chunks, reader, ahead=True):
            stream.asked(plan, wanted)

    def _want(self, refs: Sequence[ChunkRef], reader: Reader, *, ahead: bool = False) -> bool:
        want = self._chunks.want
        return self._cached.ask(lambda: want(self._partition, refs, reader, failed=self._fill_failed, ahead=ahead))

    def _fill_failed(self, ref: ChunkRef, report: commands.Report) -> None:
        self._failed(ref.id, ref.id.uuid, ref.chunk.first_offset, report)

    def _failed(self, what: object, uuid: Uuid, offset: int, report: commands.Report) -> None:
        """``what`` of the object that held ``offset`` could not be read."""
        self._metrics.remote_fetch_errors += 1
        if not (isinstance(report, commands.MissingReport) and self._may_be_replaced(uuid, offset)):
            self._remember(what, report)

    def _may_be_replaced(self, uuid: Uuid, offset: int) -> bool:
        """Whether readers of an object that is gone may find ``offset`` in another: merges take objects away.

        False once the manifest was read after the object was missed, and names it still.
        """
        if uuid not in self._missing:
            if len(self._missing) >= _MISSING_MAX:
                self._missing.clear()
            self._missing[uuid] = self._reads_begun + 1  # one under way may have come before the merge
        if self._reads_done < self._missing[uuid] or self.is_stale:
            self.refresh()
            return True
        del self._missing[uuid]
        index = self._remote.find(offset)
        if index is not None and self._remote.segment(index).uuid == uuid:
            return False
        self._wake()
        return True

    def _read_table(self, segment: RemoteSegment, offset: int = -1, reader: Reader | None = None) -> None:
        """Read an object's chunk table; with it, if there is a ``reader`` at ``offset``, the chunk that it begins with."""
        if segment.uuid in self._asked_tables:
            return
        path = None if reader is None else self._path_of_first(segment, offset, reader)
        self._asked_tables.add(segment.uuid)

        def answered(report: commands.Report) -> None:
            self._asked_tables.discard(segment.uuid)
            read = report if isinstance(report, commands.FooterRead) else None
            if read is not None:
                self._remote.add_table(segment.uuid, read.chunks)
            if path is not None:
                number, filled = (-1, None) if read is None else (read.number, read.filled)
                self._chunks.end_first(self._partition, ChunkId(segment.uuid, number), filled, reader)
            if read is not None:
                self._wake()
            else:
                self._failed(segment.uuid, segment.uuid, segment.base, report)

        self._submit(commands.ReadFooter(self._partition, segment.key, offset, path), answered)

    def _path_of_first(self, segment: RemoteSegment, offset: int, reader: Reader) -> tuple[str, str] | None:
        table = even_table(segment.base, segment.end, segment.data_bytes, segment.chunks_bytes)
        number = table.find_offset(offset)
        return self._cached.ask(lambda: self._chunks.begin_first(self._partition, segment.uuid, number, reader))

    def _aborted_in(self, start: int, end: int, stream: RemoteStream) -> list[AbortedTransaction] | None:
        """The aborted transactions that touch the range, as its objects name them; None while they are being read."""
        found: list[AbortedTransaction] = []
        complete = True
        before, stream.aborted = stream.aborted, {}
        for segment in self._remote.aborted_candidates(start, end):
            known = before.get(segment.uuid, self._chunks.aborted.get(segment.uuid))
            if known is None:
                complete = False
                self._errors.raise_for((segment.uuid, "aborted"))
                self._read_aborted(segment)
            else:
                stream.aborted[segment.uuid] = known
                found += known.touching(start, end)
        if not complete:
            return None
        stream.aborted = {}
        return found

    def _read_aborted(self, segment: RemoteSegment) -> None:
        if segment.uuid in self._asked_aborted:
            return
        self._asked_aborted.add(segment.uuid)

        def answered(report: commands.Report) -> None:
            self._asked_aborted.discard(segment.uuid)
            if isinstance(report, commands.AbortedRead):
                self._chunks.aborted.keep(segment.uuid, report.aborted)
                self._wake()
            else:
                self._failed((segment.uuid, "aborted"), segment.uuid, segment.base, report)

        self._submit(commands.ReadAborted(self._partition, segment.key), answered)

    def _remember(self, what: object, report: commands.Report) -> None:
        """Keep the failure for the readers of the next seconds, if it is one for readers."""
        if self._errors.remember(what, report):
            self._wake()

    def raise_remembered(self) -> None:
        """Raise `KafkaError` if the manifest could not be read a moment ago."""
        self._errors.raise_for(None)
