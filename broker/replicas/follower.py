"""The role of a follower in one leader epoch: what its leader sends goes into the log, as the leader wrote it.

.. code-block:: text

    answer of the leader --> take --> log --> DirectoryWriter --> on_written, on_flushed --> taken: fetch on from here

A follower asks for more when the last records are as durable as the topic demands: with sync on ack, on the disk. So the
offset that it asks for tells the leader what would survive a power cut here. Where its history parts from the leader's it
cuts its log by leader epochs, never to its high watermark (KIP-101, KIP-279). Taken down, it takes nothing any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.log_position import LogPosition, cut_to
from stratalog.broker.runtime.clock import Clock
from stratalog.hot.forgotten_records import goes_on, set_log_aside
from stratalog.hot.log.answer_parts import bytes_of_a_turn
from stratalog.hot.log.log_owner import LogOwner
from stratalog.hot.log_beginning import begin_within, begin_without_notes
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import EpochEndOffset, PartitionData
from stratalog.wire.topic import TopicPartition

__all__ = ["Follower", "Outcome"]

log = logging.getLogger(__name__)


class Outcome(Protocol):
    """Hears how an answer was taken, once for each."""

    def taken(self, follower: Follower, position: LogPosition, /) -> None:
        """All of it is in the log."""

    def refused(self, follower: Follower, position: LogPosition, /) -> None:
        """It could not be taken, and is to be asked for again after a pause."""


class Copied(LogOwner, Protocol):
    """The partition as its role sees it: `stratalog.broker.replicas.partition.Partition`."""

    directory: DirectoryWriter
    high_watermark: int

    def advance(self, high_watermark: int) -> None:
        """Everything below ``high_watermark`` is committed: keep the mark, let readers look."""

    def wake(self) -> None:
        """Let everyone who waits for news of this partition look again."""


class Follower:
    """One partition's, on the event loop. The partition makes it."""

    def __init__(self, partition: Copied, leader_id: int, leader_epoch: int, *, clock: Clock) -> None:
        self._partition = partition
        self._log = partition.log
        self._clock = clock
        self.leader_id = leader_id
        self.epoch = leader_epoch
        self._outcome: Outcome | None = None
        self.leader_high_watermark = -1
        """As the leader last said it; -1 before its first answer."""
        self._ended = False
        self._doubted_offset = -1
        """The end of a gap that was refused: no checksum covers the offset of a batch."""
        self._part_end: int | None = None
        """Where the log ended with the part of an answer that was taken last, None if none is left of it."""
        begin_without_notes(self._log)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is copied."""
        return self._log.topic_partition

    @property
    def key(self) -> PartitionKey:
        """The partition by the id of its topic."""
        return PartitionKey(self._log.topic_id, self._log.topic_partition.partition)

    @property
    def lag(self) -> int:
        """The offsets that the log lacks of what the leader last said to be committed."""
        return max(0, self.leader_high_watermark - self._log.log_end_offset)

    @property
    def _durable_offset(self) -> int:
        log_ = self._log
        return log_.flushed_offset if log_.config.flush_messages <= 1 else log_.written_offset

    @property
    def is_durable(self) -> bool:
        """Whether the whole log is as durable as the topic demands: it may be asked for more."""
        return self._durable_offset >= self._log.log_end_offset

    @property
    def position(self) -> LogPosition:
        """The end of the part of the log that is as durable as the topic demands: its leader counts what lies below.

        The log start is the one that a crash leaves.
        """
        log_ = self._log
        offset, last_epoch = log_.log_end_offset, log_.leader_epochs.latest_epoch
        if self._durable_offset < offset:
            offset = max(self._durable_offset, log_.log_start_offset)
            before = log_.leader_epochs.epoch_for(offset - 1) if offset else None
            last_epoch = -1 if before is None else before
        start = log_.log_start_offset if log_.start.is_kept else min(log_.start.kept_offset, log_.log_start_offset)
        return LogPosition(offset, last_epoch, start)

    @property
    def is_overtaken(self) -> bool:
        """Whether a cleaner has taken records of the log away for later ones that it has not got yet: its leader has to have them."""
        log_ = self._log
        return max(log_.log_start_offset, log_.first_base_offset) < log_.log_end_offset < log_.gaps.passed_below

    @property
    def cleaner_epoch(self) -> int | None:
        """The latest leader epoch of what was committed when that cleaner came by; None if it is not known."""
        return self._log.gaps.known_epoch

    def settle(self, outcome: Outcome) -> None:
        """Tell ``outcome`` the position, as soon as all that is in the log is durable: an earlier role may have left it."""
        if self._ended:
            return
        self._outcome = outcome
        self._settle()
        if self._outcome is not None:
            self._partition.directory.enqueue(self._partition)
            self._partition.directory.sync(self._partition)

    def move_into(self, start_offset: int, end_offset: int) -> bool:
        """Bring the log to where its leader's, from ``start_offset`` to ``end_offset``, goes on. A failed disk is reported.

        Returns whether there is more to cut, in another turn of the loop.
        """
        if self._ended:
            return False
        log_ = self._log
        try:
            if self.is_overtaken and end_offset < log_.gaps.passed_below:
                self._copy_again(f"its log ends at {end_offset}, or another history begins there")
            elif end_offset < log_.log_start_offset:
                why = f"its log ends at {end_offset}, before this one begins"
                if self.truncate(log_.log_start_offset, why):
                    return True
                self._begin_anew(start_offset, why)
            elif end_offset < log_.log_end_offset:
                return self.truncate(end_offset, f"its log ends at {end_offset}")
            elif start_offset > log_.log_end_offset:
                text = (
                    "%s: offsets from %d to %d are deleted at the leader, broker %d: the copy begins anew behind them"
                )
                log.warning(text, self.topic_partition, log_.log_end_offset, start_offset, self.leader_id)
                self._begin_at(start_offset, partial(log_.truncate_fully_and_start_at, start_offset, (), None))
            else:
                self._raise_log_start(start_offset)
        except OSError as error:
            self._partition.directory.report(error, self._partition)
        return False

    def _begin_anew(self, offset: int, why: str, *, is_kept: bool = False) -> None:
        """Drop all of the log, or keep it aside, and go on at ``offset``. Raises `OSError`."""
        log_ = self._log
        self._tell_dropped(log_.log_start_offset, log_.log_end_offset, why)
        begin = partial(log_.truncate_fully_and_start_at, offset, (), None)
        self._begin_at(offset, partial(log_.compaction.begin_again, self._clock.wall_ms(), why) if is_kept else begin)

    def _begin_at(self, offset: int, begin: Callable[[], object]) -> None:
        """Have ``begin`` begin the log anew there. Raises `OSError`, also where it has, and lacks the room to end it."""
        log_, partition = self._log, self._partition
        try:
            begin()
        finally:
            if log_.first_base_offset == log_.log_end_offset == offset:
                partition.high_watermark = offset
                log_.producer_state.on_high_watermark(offset)
                partition.wake()

    def begin_behind(
        self, offset: int, leader_epochs: Sequence[EpochEntry], producer_snapshot: bytes | None, log_start_offset: int
    ) -> None:
        """Begin the log anew at ``offset``, the end of its archive, with the history there. A failed disk is reported."""
        if self._ended:
            return
        log_, partition = self._log, self._partition
        text = "%s: offsets from %d to %d are in the archive: the copy begins behind them, at the leader on broker %d"
        log.info(text, self.topic_partition, log_.log_end_offset, offset, self.leader_id)
        try:
            begin, start = log_.truncate_fully_and_start_at, min(log_start_offset, offset)
            self._begin_at(offset, partial(begin, offset, leader_epochs, producer_snapshot, log_start_offset=start))
            log_.sync()
        except OSError as error:
            partition.directory.report(error, partition)
            partition.directory.sync(partition)  # once there is room

    def evictable(self, offset: int) -> tuple[int, int]:
        """Where its disk begins, and where it would after `evict_below`: an equal offset if no whole segment lies below."""
        return self._log.first_base_offset, self._log.start.local_start_after(min(offset, self._log.flushed_offset))

    def evict_below(self, offset: int) -> bool:
        """Let local segments below ``offset`` go, which the archive has; whether more are to go. A failed disk is reported."""
        if self._ended:
            return False
        log_ = self._log
        try:
            log_.delete_local_before(min(offset, log_.flushed_offset))
        except OSError as error:
            self._partition.directory.report(error, self._partition)
            return False
        return log_.start.is_leaving

    # -- answers of the leader ------------------------------------------------------------------------------

    def take(self, data: PartitionData, outcome: Outcome) -> PartitionData | None:
        """Append the records of an answer, or cut the log where histories part. ``outcome`` hears of the end, maybe at once.

        An answer may have tens of thousands of small batches, or cut very much: more than a turn of the loop takes. Then the
        result is what is left: hand it in in a later turn, and nothing else before.
        """
        part_end, self._part_end = self._part_end, None
        if self._ended:
            return None
        self._outcome = outcome
        if part_end is not None and part_end != self._log.log_end_offset:  # the disk had no room for the part before
            self._refuse()
            return None
        rest = self._take(data)
        if rest is not None:
            self._part_end, self._outcome = self._log.log_end_offset, None
        return rest

    def _take(self, data: PartitionData) -> PartitionData | None:
        rest: memoryview | None = None
        try:
            if data.diverging_epoch is not None:
                if self._cut(data.diverging_epoch):
                    return data
            elif data.records and self._goes_on(data):
                self.leader_high_watermark = data.high_watermark
                rest = self._append(memoryview(data.records), data.log_start_offset)  # type: ignore[arg-type]  # received records are one buffer
        except KafkaError as error:
            text = "%s: what its leader, broker %d, sent cannot be appended: %s"
            log.error(text, self.topic_partition, self.leader_id, error)
            self._refuse()
            return None
        except OSError as error:
            self._partition.directory.report(error, self._partition)
            self._refuse()
            return None
        except Exception:  # a mistake in one partition may not stop all that come from this leader
            log.exception(
                "%s: an answer of its leader, broker %d, could not be taken", self.topic_partition, self.leader_id
            )
            self._refuse()
            return None
        if rest is not None:
            data.records = rest
            return data
        if data.diverging_epoch is None:  # after a cut, what is left may still be another's history: the mark waits
            self.leader_high_watermark = data.high_watermark
        self._raise_log_start(data.log_start_offset)
        self._settle()
        if self._outcome is not None and not data.records:  # a cut may end above what is on the disk
            self._partition.directory.sync(self._partition)
        return None

    def _append(self, records: memoryview, leaders_start: int) -> memoryview | None:
        """Append as many batches as a turn takes; the rest, None if there is none, or it is not to be taken."""
        if leaders_start == self._log.log_end_offset:  # a batch may hold it, where this log is a fork
            self._raise_log_start(leaders_start)
        taken_bytes = bytes_of_a_turn(records)
        records, rest = records[:taken_bytes], records[taken_bytes:]
        log_ = self._log
        if (offset := log_.gaps.first_of_another(records, log_.log_end_offset, self.epoch)) is not None:
            self._copy_again(f"epoch {self.epoch} begins at {offset} there")
            return None
        log_.gaps.note_copy(records, log_.log_end_offset, self.leader_high_watermark, self.epoch)
        gap = log_.gaps.first_unkept(records, log_.log_end_offset)
        if gap is not None:
            position, offset = gap
            records, rest = records[:position], rest[:0]
            # The leader's cleaner comes as far as its mark: with that, one write is enough for the whole copy.
            if offset <= self.leader_high_watermark or (not position and offset == self._doubted_offset):
                below = max(offset, self.leader_high_watermark)
                log_.gaps.passed(below, self.epoch)  # the row that is awaited has the epoch, too
                log_.gaps.expect(below)
            elif not position:
                self._doubted_offset = offset  # a leader checks the batches that it is asked for again
                text = f"offset {log_.log_end_offset} is due, its leader sent {offset}, which no cleaner has reached"
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
        begin_within(log_, records, self.epoch)
        info = log_.append_as_follower(records, leader_epoch=self.epoch, now_ms=self._clock.wall_ms())
        if info is not None:
            self._partition.directory.enqueue(self._partition)
        return rest or None

    def _goes_on(self, data: PartitionData) -> bool:
        """Keep the log aside and begin anew, without the records, if it may have what a tombstone that its leader lacks had ended.

        Raises `OSError`.
        """
        log_, forgotten_below = self._log, data.forgotten_below
        if goes_on(log_, forgotten_below):
            return True
        data.records, now_ms = b"", self._clock.wall_ms()
        again = partial(set_log_aside, log_, self.leader_id, forgotten_below, now_ms=now_ms)
        self._begin_at(log_.log_start_offset, again)
        return False

    def _cut(self, diverging: EpochEndOffset) -> bool:
        offset = cut_to(
            diverging,
            self._log.leader_epochs.end_offset_for(diverging.epoch, self._log.log_end_offset),
            self._log.log_end_offset,
        )
        return self.truncate(offset, f"epoch {diverging.epoch} ends at {diverging.end_offset} there")

    def truncate(self, offset: int, why: str) -> bool:
        """Cut the log towards ``offset``, as far as a turn of the loop takes; whether more is to be cut. Raises `OSError`."""
        log_, partition = self._log, self._partition
        if log_.log_start_offset < offset < log_.log_end_offset and log_.compaction.has_passed(offset):
            self._copy_again(why)
            return False
        end, cut = log_.log_end_offset, log_.next_cut(offset)
        if cut is None:
            return True
        log_.truncate_to(cut)
        if cut >= end:
            return False
        self._tell_dropped(log_.log_end_offset, end, why)
        partition.high_watermark = min(partition.high_watermark, log_.log_end_offset)
        log_.producer_state.on_high_watermark(partition.high_watermark)  # they were read anew
        partition.wake()
        return cut > offset

    def _copy_again(self, why: str) -> None:
        """Begin the whole log anew, for it lacks records that its leader may have. Raises `OSError`."""
        text = f"{why}, and a cleaner has taken older records away for those: all of it is kept beside it as -stray, and copied again"
        self._begin_anew(self._log.log_start_offset, text, is_kept=True)

    def _tell_dropped(self, offset: int, end_offset: int, why: str) -> None:
        text = "%s: %d records from offset %d on are dropped: broker %d leads in epoch %d without them (%s)"
        log.warning(text, self.topic_partition, end_offset - offset, offset, self.leader_id, self.epoch, why)

    def _raise_log_start(self, offset: int) -> None:
        """Take over the leader's log start: records below it are deleted, or lie in the archive alone."""
        log_ = self._log
        if not log_.log_start_offset < offset <= log_.log_end_offset:
            return
        log_.advance_log_start(offset)
        if not log_.config.remote_storage_enable:
            self._drop_files_below_start()

    def _drop_files_below_start(self) -> None:
        """Remove the files of deleted records. A failed disk is reported."""
        log_ = self._log
        try:
            log_.delete_local_before(log_.log_start_offset)
        except OSError as error:
            self._partition.directory.report(error, self._partition)

    # -- what the log directory reports ---------------------------------------------------------------------

    def on_written(self) -> None:
        """More of the log is in the file."""
        self._settle()

    def on_flushed(self) -> None:
        """More of the log, or where it starts, is on the disk."""
        self._settle()

    def on_write_refused(self, _error: OSError) -> None:
        """The disk had no room for what was queued; the log ends with what is in the file."""
        self._refuse()

    def take_down(self) -> None:
        """End the role: nothing that comes late is taken."""
        self._ended = True
        self._outcome = None

    def _settle(self) -> None:
        outcome = self._outcome
        if outcome is None or not self.is_durable:
            return
        # Its leader answers DeleteRecords when every copy begins there, also after a crash. And a gap that the
        # log directory does not have would be damage then, with what lies behind it. Without a row, a lost tail would be a gap.
        start, directory = self._log.start, self._partition.directory
        if self._log.gaps.lacks_row(self._log.may_have_gaps):
            directory.await_bounds(self._partition)
            return
        if not self._log.forgotten.is_kept:
            directory.await_bounds(self._partition)
            return
        if not start.is_kept:
            (directory.sync if start.waits_for_names else directory.await_bounds)(self._partition)
            return
        # Not before: after a crash an archived log begins where its checkpoint says, whatever files it has.
        if self._log.first_base_offset < self._log.log_start_offset:
            self._drop_files_below_start()
            if self._outcome is None:  # the disk has failed
                return
        self._outcome = None
        high_watermark = min(self.leader_high_watermark, self._log.log_end_offset)
        if high_watermark > self._partition.high_watermark:
            self._partition.advance(high_watermark)
        outcome.taken(self, self.position)

    def _refuse(self) -> None:
        outcome, self._outcome = self._outcome, None
        if outcome is not None and not self._ended:
            outcome.refused(self, self.position)
