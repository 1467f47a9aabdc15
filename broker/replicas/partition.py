"""One partition hosted on this broker: what stays over its leaderships.

.. code-block:: text

    DirectoryWriter --- written, flushed ---> Partition --- the same ---> Leader or Follower (one epoch)
    readers <---------- watchers ------------     |    <-- the mark ------   waiting appends
                                              Log, high watermark

The log, its directory, the high watermark and those who wait for news of them outlive every role. The role is an object
of its own (`stratalog.broker.replicas.leader`, `stratalog.broker.replicas.follower`), made new for each leader epoch and
taken down wholly. `Partition.leader` is the only reference to it that lasts: code that appends asks for the role each
time, or dies with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.follower import Follower
from stratalog.broker.replicas.in_sync import NO_FOLLOWERS, InSyncAsking
from stratalog.broker.replicas.leader import Leader, Rework
from stratalog.broker.replicas.refused_batches import RefusedBatches
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.watchers import Watchers
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.replica_state import NO_BROKER_EPOCH, ReplicaState
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["Partition"]

log = logging.getLogger(__name__)

NO_EPOCH = -1
"""The leader epoch of a partition that has had no role yet."""


class Partition:
    """The log of a partition at work on the event loop, and the role that this broker has in it."""

    def __init__(
        self,
        log_: Log,
        *,
        directory: DirectoryWriter,
        high_watermark: int,
        clock: Clock,
        rework: Rework,
        asking: InSyncAsking = NO_FOLLOWERS,
        refused: RefusedBatches | None = None,
    ) -> None:
        """``high_watermark`` is what is known to be committed from earlier roles; there is no role yet.

        ``refused`` is the broker's memory of refused batches; None for one of its own.
        """
        self.log = log_
        self.directory = directory
        self.high_watermark = high_watermark
        """Consumers read below this offset. It never goes back, unless the log itself was begun anew."""
        self.leader: Leader | None = None
        """The role, while this broker leads."""
        self.follower: Follower | None = None
        """The role, while it copies the log of another broker."""
        self.leader_epoch = NO_EPOCH
        """The epoch of the role, or of the last one."""
        self.watchers = Watchers()
        """Called when readers may see something else: the high watermark or the log start has moved, or a role has
        begun or ended. They outlive roles: who reads looks at the epoch each time.
        """
        self.end_watchers = Watchers()
        """Called when more of the log can be read by followers, the high watermark moves, a role has begun or ended, or
        queued batches are refused.
        """
        self.held_back: str | None = None
        """Why the partition takes no requests for now (rule 8: it is being compared with its archive)."""
        self.refused = RefusedBatches(clock.monotonic) if refused is None else refused
        self._clock = clock
        self._rework = rework
        self._asking = asking
        self._log_start_offset = log_.log_start_offset
        self._flushed_at = clock.monotonic()
        log_.producer_state.on_high_watermark(high_watermark)  # recovery cannot know which markers are final
        directory.add(self)

    # -- identity and watermarks --------------------------------------------------------------------------

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""
        return self.log.topic_partition

    @property
    def topic_id(self) -> Uuid:
        """The id of its topic."""
        return self.log.topic_id

    @property
    def last_stable_offset(self) -> int:
        """read_committed consumers read below this offset."""
        if self.log.producer_state.first_unstable_offset is None:  # as nearly always; each fetch asks
            return self.high_watermark
        first_unstable_offset = self.log.first_unstable_offset
        return self.high_watermark if first_unstable_offset is None else min(self.high_watermark, first_unstable_offset)

    @property
    def is_behind(self) -> bool:
        """Whether the high watermark has yet to reach the start of the leader's epoch: consumers may have read further."""
        return self.leader is not None and not self.leader.state.epoch_established

    @property
    def others_have_it(self) -> bool:
        """Whether other replicas have all that is committed, as far as the role knows."""
        return self.follower is not None or (self.leader is not None and len(self.leader.state.in_sync) > 1)

    @property
    def is_damaged(self) -> bool:
        """Whether the disk has lost a range of the log."""
        return bool(self.log.recovery.missing) and bool(self.log.missing_ranges())

    @property
    def is_copied(self) -> bool:
        """Whether this is a follower on a directory that works."""
        return self.follower is not None and self.directory.offline is None

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raises FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client believes in another epoch (KIP-320)."""
        if self.leader is None or self.held_back is not None or self.directory.offline is not None:
            self.check_online()
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        raise self._other_epoch(current_leader_epoch)

    def _other_epoch(self, current_leader_epoch: int) -> KafkaError:
        fenced = current_leader_epoch < self.leader_epoch
        return KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self.topic_partition} has leader epoch {self.leader_epoch}, the request {current_leader_epoch}",
        )

    def check_reader_epoch(self, current_leader_epoch: int) -> None:
        """The same for a reader, which a follower serves, too. Its epoch is that of the leader it copies (KIP-392)."""
        if self.leader is not None or self.follower is None:
            self.check_leader_epoch(current_leader_epoch)
            return
        if self.held_back is not None or self.directory.offline is not None:
            self._check_available()
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise self._other_epoch(current_leader_epoch)

    def check_online(self) -> None:
        """Raises NOT_LEADER_OR_FOLLOWER without a role or while held back, KAFKA_STORAGE_ERROR while offline."""
        if self.leader is None:
            raise self._not_led()
        self._check_available()

    def _check_available(self) -> None:
        if self.held_back is not None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is not served yet: {self.held_back}"
            )
        if self.directory.offline is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.topic_partition} is offline: its log directory failed with {self.directory.offline}",
            )

    # -- roles ----------------------------------------------------------------------------------------------

    def led(self) -> Leader:
        """The role as leader. Raises NOT_LEADER_OR_FOLLOWER where there is none."""
        if self.leader is None:
            raise self._not_led()
        return self.leader

    def _not_led(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is not led by this broker")

    def lead(
        self,
        local_id: int,
        leader_epoch: int,
        *,
        replicas: Iterable[int],
        in_sync: Iterable[int],
        partition_epoch: int = 0,
        broker_epoch: int = NO_BROKER_EPOCH,
        is_recovering: bool = False,
    ) -> None:
        """Lead in a new epoch, which begins at the log end, with a role that knows nothing of earlier ones.

        ``is_recovering``: the metadata log has the leader as elected uncleanly, and not as recovered.
        Appends that wait in the role before fail with NOT_LEADER_OR_FOLLOWER; waiting readers look again.
        """
        before = self.leader
        own_end = max(self.high_watermark, self.log.flushed_offset)
        if self.follower is not None and self.log.config.flush_messages > 1:  # it counted itself so while it followed
            own_end = max(own_end, self.log.written_offset)
        self._end_following()
        if before is not None:  # without sync on ack it counted itself by what is in the file
            own_end = max(own_end, before.state.leader_end_offset)
        state = ReplicaState(
            local_id,
            replicas=replicas,
            in_sync=in_sync,
            leader_epoch=leader_epoch,
            epoch_start_offset=self.log.log_end_offset,
            leader_end_offset=own_end,
            high_watermark=self.high_watermark,
            partition_epoch=partition_epoch,
            min_insync_replicas=self.log.config.min_insync_replicas,
            local_broker_epoch=broker_epoch,
            is_recovering=is_recovering,
            now_ms=self._now_ms(),
        )
        self.log.assign_leader_epoch(leader_epoch)
        self.log.forgotten.begin_to_lead(self.log.log_end_offset)
        self._begin(state, f"{self.topic_partition} has leader epoch {leader_epoch} now")

    def sync_for_role(self) -> None:
        """Have what is written above the leader's own end synced: without sync on ack no other one may come before the next append."""
        if self.leader is not None and self.leader.state.leader_end_offset < self.log.written_offset:
            self.directory.sync(self)

    def restarted(self) -> None:
        """The log was begun anew elsewhere: the high watermark is its end, and what still waits is not in it.

        The role begins anew as well, in its own epoch.
        """
        self.high_watermark = end = self.log.log_end_offset
        if self.leader is None:
            self.wake()
            return
        before = self.leader.state
        state = ReplicaState(
            before.local_id,
            replicas=before.replicas,
            in_sync=before.in_sync,
            leader_epoch=before.leader_epoch,
            epoch_start_offset=end,
            leader_end_offset=end,
            high_watermark=end,
            partition_epoch=before.partition_epoch,
            min_insync_replicas=before.min_insync_replicas,
            local_broker_epoch=before.local_broker_epoch,
            is_recovering=before.is_recovering,
            now_ms=self._now_ms(),
        )
        self._begin(state, f"{self.topic_partition} went on from its archive")

    def _now_ms(self) -> int:
        """The time by which followers are late: a wall clock that is set would throw all of them out at once."""
        return int(self._clock.monotonic() * 1000)

    def _begin(self, state: ReplicaState, ending: str) -> None:
        """Replace the role. The new one is in place before the old one ends: who hears of the end finds the new one."""
        before = self.leader
        self.leader = Leader(self, state, clock=self._clock, rework=self._rework, asking=self._asking)
        self.leader_epoch = state.leader_epoch
        if state.high_watermark > self.high_watermark:
            self.high_watermark = state.high_watermark
            self.log.producer_state.on_high_watermark(state.high_watermark)
        if before is not None:
            before.take_down(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, ending))
        self.wake()

    def follow(self, leader_id: int, leader_epoch: int) -> Follower:
        """Copy the log of another broker in a new epoch. Appends that wait fail with NOT_LEADER_OR_FOLLOWER."""
        before = self.follower
        self._end_following()
        self.follower = Follower(self, leader_id, leader_epoch, clock=self._clock)
        self.leader_epoch = leader_epoch
        self._end_leading()
        if before is not None:
            self.wake()  # its readers have the epoch before
        return self.follower

    def cut_before_damage(self) -> bool:
        """End the log before what the disk has lost, to copy it again; False if the disk fails, which is reported.

        The role ends first: as a leader the shorter log would have followers that do not know of the next one cut theirs.
        """
        self.resign()
        log_, end = self.log, self.log.log_end_offset
        try:
            kept = log_.cut_before_damage(self._clock.wall_ms())
        except OSError as error:
            self.directory.report(error, self)
            return False
        log.warning(
            "%s: %d records from offset %d on are copied again from its leader, for the disk has lost some of them%s",
            self.topic_partition,
            end - log_.log_end_offset,
            log_.log_end_offset,
            "" if kept is None else f"; the damaged bytes are kept in {kept}",
        )
        self.high_watermark = min(self.high_watermark, log_.log_end_offset)
        log_.producer_state.on_high_watermark(self.high_watermark)  # they were read anew
        self.wake()
        return True

    def resign(self) -> None:
        """Neither lead nor follow: waiting appends fail with NOT_LEADER_OR_FOLLOWER, waiting readers hear of it."""
        followed = self.follower is not None
        self._end_following()
        self._end_leading()
        if followed:
            self.wake()

    def _end_following(self) -> None:
        if self.follower is not None:
            self.follower.take_down()
            self.follower = None

    def _end_leading(self) -> None:
        before, self.leader = self.leader, None
        if before is not None:
            before.take_down(self._not_led())
            self.wake()

    def move_to(self, directory: DirectoryWriter) -> None:
        """The log lies in another directory from now on, where all that is written is durable."""
        self.directory.remove(self)
        self.directory = directory
        directory.add(self)
        directory.enqueue(self)
        self.on_flushed()

    def close(self) -> None:
        """The partition is hosted here no longer: its role ends, the log is the caller's."""
        self.directory.remove(self)
        self.resign()

    # -- what the log directory reports ---------------------------------------------------------------------

    def flush_due(self) -> bool:
        """Kafka's ``flush.messages``, counted in offsets, and after every roll; ``flush.ms`` is :meth:`tick`'s."""
        return self.log.flush_due

    def on_written(self) -> None:
        """All that was queued is in the file."""
        leader = self.leader
        if leader is not None:
            leader.on_written()
            if self.end_watchers:
                self.end_watchers.call()
        elif self.follower is not None:
            self.follower.on_written()

    def on_flushed(self) -> None:
        """More of the log is on disk; after recovery this ends the wait."""
        self._flushed_at = self._clock.monotonic()
        if self.leader is not None:
            self.leader.on_flushed()
        elif self.follower is not None:
            self.follower.on_flushed()

    def on_write_refused(self, error: OSError) -> None:
        """Refuse what is queued, which the disk had no room for; written batches go on waiting for their sync."""
        if self.leader is not None:
            self.leader.on_write_refused(error)
        elif self.follower is not None:
            self.follower.on_write_refused(error)
        if self.end_watchers:
            self.end_watchers.call()

    def on_storage_failed(self, error: OSError) -> None:
        """Waiting appends will not be acknowledged as written."""
        failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} went offline: {error}")
        if self.leader is not None:
            self.leader.fail_waiting(failure)
        self.wake()

    # -- news for readers -----------------------------------------------------------------------------------

    def advance(self, high_watermark: int) -> None:
        """The role has found more to be committed: keep the mark, and let readers look."""
        self.high_watermark = high_watermark
        producers = self.log.producer_state
        if producers.first_unstable_offset is not None:
            producers.on_high_watermark(high_watermark)
        self.watchers.call()
        if self.end_watchers:  # followers hear of the mark with their next answer
            self.end_watchers.call()

    def wake(self) -> None:
        """Let everyone who waits for news of this partition look again."""
        self.watchers.call()
        if self.end_watchers:
            self.end_watchers.call()

    def update_config(self, config: LogConfig, *, is_led: bool = True) -> None:
        """New topic settings, effective from the next append on.

        ``is_led``: the image that has the settings has the present leadership, too. One that has ended there takes none
        of them: by a lower minimum it would acknowledge what the leader after it lacks.
        """
        self.log.update_config(config)
        if self.leader is not None and is_led:
            self.leader.update_config(config)

    def tick(self, now: float) -> None:
        """Time-outs of ``acks=-1``, ``flush.ms``, news of log start and markers; called a few times a second."""
        log_, producers = self.log, self.log.producer_state
        if self.leader is not None:
            self.leader.tick(now)
            if self.leader.state.epoch_start_offset > log_.log_end_offset:
                self.leader.state.log_cut(log_.log_end_offset)  # a full disk, some time ago perhaps
            if log_.leader_epochs.latest_epoch < self.leader_epoch:  # nothing was written in it, and a cut took it
                log_.assign_leader_epoch(self.leader_epoch)
        if log_.written_offset > log_.flushed_offset and (now - self._flushed_at) * 1000 >= log_.config.flush_ms:
            self.directory.sync(self)
        unstable = producers.first_unstable_offset
        if unstable is not None:
            producers.on_high_watermark(self.high_watermark)  # after a full disk it was read anew
        if log_.log_start_offset != self._log_start_offset or producers.first_unstable_offset != unstable:
            self._log_start_offset = log_.log_start_offset
            self.wake()
