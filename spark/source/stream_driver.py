"""The driver's side of a stream, without PySpark: where it begins, how far the next micro-batch goes, and its tasks.

`stream_plan` decides, `stream_follower` looks; here the two meet. For one thread, as Spark calls it.
"""

from __future__ import annotations

import time
from functools import partial

from msgspec.structs import replace

from stratalog.spark.source.gone_back import other_records, shortened
from stratalog.spark.source.hot_tail import group_hot
from stratalog.spark.source.options import OffsetBound, ReadOptions
from stratalog.spark.source.planner import limits_of
from stratalog.spark.source.read_lease import LeaseTicket
from stratalog.spark.source.read_plan import Task, resolve_starts, tell
from stratalog.spark.source.stream_follower import ArchiveFollower, Look
from stratalog.spark.source.stream_offsets import Offsets
from stratalog.spark.source.stream_options import StreamOptions
from stratalog.spark.source.stream_plan import NO_LIMITS, BatchLimits, Spans, batch_ranges, frozen, next_end
from stratalog.spark.source.stream_tail import StreamTail, split_at
from stratalog.tier.planning.slices import OffsetRange, SegmentSlice, cut_slices, group_tasks
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.topic import ZERO_UUID

__all__ = ["StreamDriver"]


class StreamDriver:
    """One query over ``store``; ``core_count`` is that of the driver."""

    def __init__(self, store: ObjectStore, options: ReadOptions, stream: StreamOptions, core_count: int) -> None:
        self._store = store
        self._options = options
        self._core_count = core_count
        self._tail = _tail(options, stream)
        self._follower = ArchiveFollower(store, options.subscription, stream, options.lease_ms, self._tail)
        self._frozen: Offsets | None = None
        self._let_go_ms = 0

    def initial(self) -> Offsets:
        """Where a new query begins.

        Raises `Invalid` for what the options name and the archive does not have, and `DataLoss` for offsets that are
        gone, unless that is accepted.
        """
        look = self._follower.look(must_exist=True)
        spans = self._spans(look)
        by_time = bool(self._options.starting.timestamps) or self._options.starting.timestamp_ms is not None
        # Where no time is looked for no entry is needed, and an empty range reads no page.
        wanted = {each: OffsetRange(span[0] if by_time else span[1], span[1]) for each, span in spans.items()}
        archives = [
            replace(archive, log_start_offset=spans[archive.partition][0], end_offset=spans[archive.partition][1])
            for archive in self._follower.archives(look, wanted)
        ]
        # A partition without an archive may be named. When it is there, it is a new one.
        archives += self._follower.unarchived(look, self._options.starting.named() - spans.keys())
        starts = resolve_starts(self._store, self._options, archives, self._tail.times if self._tail else None)
        return {partition: offset for partition, offset in starts.items() if partition in spans}

    def start_by_options(self, end: Offsets) -> Offsets:
        """Where a first micro-batch up to ``end`` begins whose checkpoint does not say it, as earlier versions wrote them.

        Raises what `initial` raises, and `DataLoss` where the options may mean another offset than they did then, unless
        that is accepted.
        """
        starts = self.initial()
        known = {partition: min(starts[partition], end[partition]) for partition in starts if partition in end}
        tell(_unsure(known, self._options.starting), fail=self._options.fail_on_data_loss)
        return known

    def freeze(self) -> None:
        """Let the stream end where the archive, or with brokers the log, ends now (``Trigger.AvailableNow``)."""
        self._frozen = self._follower.look(fresh=True).ends

    def shortened(self, ends: Offsets, known: Offsets | None = None) -> Offsets:
        """The numbers that the checkpoint keeps beside ``ends``, by the last look and those ``known`` before; see
        `stratalog.spark.source.gone_back`.
        """
        last = self._follower.last
        return shortened({} if last is None else last.manifests, ends, known)

    def next_end(self, start: Offsets, limits: BatchLimits | None, known: Offsets | None = None) -> Offsets:
        """Where the micro-batch from ``start`` on ends; ``start`` if there is none. None for all that there is.

        ``known`` are the numbers that the checkpoint has beside ``start``, None for one of an earlier version. A stream that ends waits for nothing: it would
        end with records left. Raises `DataLoss` before the micro-batch enters the checkpoint, unless loss is accepted;
        then `plan` tells it.
        """
        look = self._follower.look()
        spans = self._spans(look)
        if limits is None:
            limits = NO_LIMITS
        elif self._frozen is not None:
            limits = BatchLimits(limits.offsets_max)
        now_ms = _now_ms()
        self._let_go_ms = min(self._let_go_ms, now_ms)  # the clock may have been put back
        end = next_end(start, spans, limits, now_ms - self._let_go_ms, partial(self._follower.record_end, look))
        if end == start:
            if self._frozen is not None:
                self._follower.close()  # PySpark ends the worker without a word; nothing will be read any more
        else:
            self._let_go_ms = now_ms
            if self._options.fail_on_data_loss:
                others = other_records(look.manifests, start, known).values()
                tell([*others, *batch_ranges(start, end, spans).losses], fail=True)
        return end

    def latest(self) -> Offsets | None:
        """Where the archive, or with brokers the log, ended at the last look."""
        last = self._follower.last
        return None if last is None else last.ends

    def plan(
        self, start: Offsets, end: Offsets, known: Offsets | None = None, known_last: Offsets | None = None
    ) -> tuple[list[Task], LeaseTicket | None]:
        """The tasks of the micro-batch from ``start`` to ``end``, and the lease under which they are planned.

        What is archived by now is read from the archive, also if it was not when ``end`` was chosen. ``known`` and
        ``known_last`` are the numbers that the checkpoint has beside ``start`` and ``end``. Raises `DataLoss` for what is
        gone, or warns of it.
        """
        if start == end:
            return [], None
        look = self._follower.look_at(end)
        ranges, told = batch_ranges(start, end, look.spans)
        others = other_records(look.manifests, end, known_last)
        others.update(other_records(look.manifests, start, known))
        losses = [*others.values(), *told]
        topic_id = (lambda _: ZERO_UUID) if self._tail is None else self._tail.times.topic_id
        archived, hot = split_at(look.borders, ranges, topic_id)
        slices: list[SegmentSlice] = []
        for archive in self._follower.archives(look, archived):
            found, holes = cut_slices(archive, archived[archive.partition])
            slices += found
            losses += holes
        tell(losses, fail=self._options.fail_on_data_loss)
        return [
            *group_tasks(slices, limits_of(slices, self._options, self._core_count)),
            *group_hot(hot, self._core_count, self._options.partition_records_max),
        ], look.lease

    def committed(self) -> None:
        """The micro-batch before is done."""
        self._follower.batch_done()

    def close(self) -> None:
        """The query has ended."""
        self._follower.close()

    def _spans(self, look: Look) -> Spans:
        return look.spans if self._frozen is None else frozen(look.spans, self._frozen)


def _unsure(starts: Offsets, starting: OffsetBound) -> list[str]:
    """Which of ``starts`` may differ from what ``starting`` meant some time ago, in words.

    Offsets that are spelled out do not, nor does 0: neither log starts nor ends go back.
    """
    return [
        f"{partition}: the first micro-batch was under way, and its checkpoint does not say where it begins, because an "
        f"earlier version of stratalog wrote it. By the options that is offset {start} now, and it may have been "
        f"another one then: start with an empty checkpointLocation"
        for partition, start in sorted(starts.items())
        if start > 0 and starting.offset_of(partition) < 0
    ]


def _tail(options: ReadOptions, stream: StreamOptions) -> StreamTail | None:
    if options.hot_tail is None:
        return None
    committed = options.read_committed
    return StreamTail(options.hot_tail, options.subscription, read_committed=committed, refresh_ms=stream.tail_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
