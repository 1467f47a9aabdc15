"""The driver of one coordinator shard: its log, its clock and its answers.

The shard's writes during one turn of the event loop are appended together (group commit), and its answers leave when
its records are committed. A shard whose append failed, or whose partition goes, is dropped with everything that
was not committed; it is loaded anew from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from stratalog.broker.coordinators.batching import Marker, bars, batch_of, count_of_turn, grouped, parts_of
from stratalog.broker.coordinators.driver_state import DriverState, check_active
from stratalog.broker.coordinators.log_loader import load_log, until_loadable
from stratalog.broker.coordinators.under_way import Appended, answer, fail, refuse
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.tick import Tick
from stratalog.hot.log.log import AppendInfo
from stratalog.metadata.coordination import Action, CoordinatorShard, Now, Producer, Reply, Write
from stratalog.wire.batch import read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError

__all__ = ["DriverServices", "ShardDriver"]

_RELOAD_AFTER_SECONDS: Final = 0.5
_RELOAD_AFTER_LOADS: Final = 3  # as long as so many of them took: a full disk may fail every write for hours
_TIMER_SECONDS_MIN: Final = 0.001

log = logging.getLogger(__name__)


class DriverServices(Struct):
    """Shared by all drivers of one kind of coordinator."""

    clock: Clock
    tick: Tick
    perform: Callable[[ShardDriver, Action], None]
    """Carries out the actions that are neither `Reply` nor `Write`."""
    on_active: Callable[[ShardDriver], None]
    """Called when a shard is loaded and takes events."""
    codec: Codec = Codec.NONE


class ShardDriver:
    """One partition of a coordinator's topic that is led here."""

    def __init__(
        self,
        unified: UnifiedLog,
        new_shard: Callable[[UnifiedLog], CoordinatorShard],
        services: DriverServices,
        reading: asyncio.Semaphore,
    ) -> None:
        """``reading`` is held while the log is read; all drivers of a kind share it."""
        self.unified = unified
        self.leader = unified.partition.led()
        """The leadership for which the shard is loaded: its writes are appended in this epoch and in no other."""
        self.state = DriverState.LOADING
        self.failure: str | None = None
        """Why the log cannot be read: for good in `DriverState.FAILED`, for now while it is being loaded."""
        self._new_shard = new_shard
        self.shard = new_shard(unified)
        self._services = services
        self._reading = reading
        self._loop = asyncio.get_running_loop()
        self._queued: list[Write | Marker] = []
        self._late: list[Reply] = []
        self._under_way: deque[Appended] = deque()
        self._flush_deferred = False
        self._generation, self._load_seconds = 0, 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._loading: asyncio.Task[None] | None = None

    @property
    def partition_number(self) -> int:
        """Which partition of the coordinator's topic."""
        return self.unified.topic_partition.partition

    @property
    def epoch(self) -> int:
        """The coordinator epoch: the leader epoch of the partition."""
        return self.leader.epoch

    @property
    def active(self) -> bool:
        """Whether events are taken."""
        return self.state is DriverState.ACTIVE

    def has_settled(self, shard: CoordinatorShard) -> bool:
        """Whether this is the shard that takes events, and all that it knows is committed."""
        return self.shard is shard and self.state is DriverState.ACTIVE and not (self._queued or self._under_way)

    def now(self) -> Now:
        """Both clocks, for the shard."""
        clock = self._services.clock
        return Now(int(clock.monotonic() * 1000), clock.wall_ms())

    # -- loading ------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Begin to read the log for the leadership of now; requests have to come again until it is done."""
        self.leader = self.unified.partition.leader or self.leader
        self.state = DriverState.LOADING
        self._loading = self._loop.create_task(self._load(self._generation))

    async def _load(self, generation: int) -> None:
        name = self.unified.topic_partition
        try:
            if not await until_loadable(self.unified.partition, self.leader):
                self._reload_later()  # for the leadership of then, unless the shard is closed
                return
            began = self._services.clock.monotonic()
            async with self._reading:
                count = await load_log(self.unified.log, self.shard, self._services.clock.monotonic)
        except Corrupt as error:
            self._cannot_load(str(error))
            return
        except (OSError, KafkaError) as error:
            self.failure = f"{name} in {self.unified.log.directory} could not be read: {error}; it is tried again"
            log.error("%s", self.failure)
            self.shard = self._new_shard(self.unified)  # what was read of the log would be applied to itself
            self._reload_later()
            return
        except Exception as error:  # any error: requests must not hear for ever that the log is being loaded
            log.exception("loading %s failed", name)
            self._cannot_load(f"{name} in {self.unified.log.directory} cannot be loaded: {error!r}")
            return
        if generation != self._generation:
            return
        self.state, self.failure = DriverState.ACTIVE, None
        self._load_seconds = self._services.clock.monotonic() - began
        if count:
            log.info("%s: %d records loaded in %.3f s", name, count, self._load_seconds)
        try:
            self._perform(self.shard.loaded(self.now()))
            if self.active:
                self._services.on_active(self)
        except Exception as error:  # noqa: BLE001 - whatever it is: see `_failed`
            self._failed(error)
        else:
            self._arm()

    def _cannot_load(self, reason: str) -> None:
        self.state = DriverState.FAILED
        self.failure = reason
        log.error(
            "%s; what this partition coordinates is not available until the damage is repaired (the file is left as it "
            "is, other partitions are served)",
            reason,
        )

    def _reload_later(self) -> None:
        generation = self._generation

        def reload() -> None:
            if self._generation == generation:
                self.load()

        self._loop.call_later(max(_RELOAD_AFTER_SECONDS, _RELOAD_AFTER_LOADS * self._load_seconds), reload)

    # -- events -------------------------------------------------------------------------------------------------------

    def check_active(self) -> None:
        """As `driver_state.check_active`."""
        check_active(self.state, self.unified.topic_partition, self.failure)

    def ask(self, event: Any) -> None:
        """Give the shard an event. Its ``token``, if it has one, is answered sooner or later, whatever happens.

        Raises what :meth:`check_active` raises; then the token is still the caller's.
        """
        if self.state is not DriverState.ACTIVE:
            self.check_active()
        self._step(event)
        self._arm()

    def _step(self, event: Any) -> None:
        try:
            actions = self.shard.step(event, self.now())
        except Exception as error:  # noqa: BLE001 - whatever it is: see `_failed`
            self._failed(error, getattr(event, "token", None))
        else:
            self._perform(actions)

    def _failed(self, error: Exception, token: Any = None) -> None:
        """The shard has failed in the middle of an event: it may have changed without saying what to write.

        So it is read again from the log, and no client hears of a state that is nowhere but in memory.
        """
        name = self.unified.topic_partition
        log.error("%s failed in an event; its state is loaded anew", name, exc_info=error)
        known = any(token is one for one in self.shard.parked())
        self._drop(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} is loaded anew"))
        if token is not None and not known:
            token.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{name}: {error!r}"))

    def end_transaction(
        self,
        batch: bytearray,
        event: Any,
        done: Callable[[AppendInfo | KafkaError], None],
        *,
        transaction_version: int,
    ) -> None:
        """Append a transaction marker behind everything that is queued; once committed, ``event`` is stepped.

        It is not where the marker finds no open transaction. ``done`` is called once, with INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED if the log refuses the marker. Raises what :meth:`check_active` raises; then it
        is not called.
        """
        self.check_active()
        self._queue(Marker(batch, transaction_version, event, done))

    def ends(self, producer: Producer) -> bool:
        """Whether the end of this producer's transaction, or a newer epoch, waits for its place in the log, which knows neither."""
        return any(bars(one, producer) for one in self._queued)

    def _perform(self, actions: Iterable[Action]) -> None:
        generation = self._generation
        for action in actions:
            kind = type(action)
            if generation != self._generation:  # it is an action of a shard that is gone: a write before it was refused
                fail(action.replies if kind is Write else [action] if kind is Reply else (), _LOST)
            elif kind is Write:
                if action.records:
                    self._write(action)
                else:
                    assert not action.on_committed, "nothing is committed by a write without records"
                    self._perform([Reply(one.token, one.response, durable=True) for one in action.replies])
            elif kind is not Reply:
                self._services.perform(self, action)
            elif action.durable and (self._queued or self._under_way):
                (self._late if self._queued else self._under_way[-1].late).append(action)
            else:
                answer(action)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write(self, write: Write) -> None:
        """Queue the records. One that no append can hold costs the state, but only once: no client asks again after the answer."""
        try:
            parts = parts_of(write, self.unified.log.config.segment_bytes, self._services.codec)
        except KafkaError as error:
            log.error("%s could not be written: %s; its state is loaded anew", self.unified.topic_partition, error)
            fail(write.replies, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            self._drop(_LOST)
        else:
            for part in parts:
                self._queue(part)

    def _queue(self, one: Write | Marker) -> None:
        self._queued.append(one)
        if not self._flush_deferred:
            self._flush_deferred = True
            self._services.tick.defer(self._flush)

    def _flush(self) -> None:
        """Append the records of this turn of the loop, in order: one batch for all that belong to no producer.

        What would keep others for too long waits for the next turn, and the answers behind it.
        """
        self._flush_deferred = False
        count = count_of_turn(self._queued)
        queued, self._queued = self._queued[:count], self._queued[count:]
        late: list[Reply] = []
        if self._queued:
            self._flush_deferred = True
            self._loop.call_soon(self._flush)
        else:
            late, self._late = self._late, late
        generation = self._generation
        for group in grouped(queued, self.unified.log.config.segment_bytes):
            if self._generation != generation:  # an append failed at once: the rest is lost with it
                refuse([group] if isinstance(group, Marker) else group, _LOST)
                continue
            self._append(group)
        if self._generation != generation:
            fail(late, _LOST)
        elif self._under_way:
            self._under_way[-1].late += late
        else:  # all that was queued were markers that the log has refused
            for reply in late:
                answer(reply)

    def _append(self, group: Marker | list[Write]) -> None:
        generation = self._generation
        if isinstance(group, Marker):
            # A late copy ends nothing; when it is committed, the shard may have taken records of the next transaction.
            is_open = self.unified.log.producer_state.is_open(read_header(group.batch).producer_id)
            events = [group.event] if is_open else []
            appended = Appended([Write((), on_committed=events)], marker_done=group.done)
            batch = group.batch
        else:
            appended = Appended(group)
            batch = batch_of(group, self._services.codec, self._services.clock.wall_ms())
        self._under_way.append(appended)

        def acknowledge(outcome: AppendInfo | KafkaError) -> None:
            if generation == self._generation:
                self._acknowledged(appended, outcome)

        if isinstance(group, Marker):
            self.leader.append_marker(batch, group.transaction_version, acknowledge)
        else:
            self.leader.append_as_leader(batch, acknowledge)

    def _acknowledged(self, appended: Appended, outcome: AppendInfo | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            if appended.marker_done is not None and outcome.code in _MARKER_REFUSED:
                refused = self._under_way.pop()
                assert refused is appended, "a marker is refused before it has a place"
                appended.marker_done(outcome)
                return
            level = logging.INFO if outcome is self.leader.ended else logging.ERROR  # a leader epoch may end
            words = "%s could not be written: %s; its state is loaded anew"
            log.log(level, words, self.unified.topic_partition, outcome)
            self._drop(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(outcome)))
            return
        assert self._under_way[0] is appended, "batches of one partition are committed in order"
        self._under_way.popleft()
        if appended.marker_done is not None:
            appended.marker_done(outcome)
        for write in appended.writes:
            for reply in write.replies:
                answer(reply)
        for reply in appended.late:
            answer(reply)
        for event in [event for write in appended.writes for event in write.on_committed]:
            if self.state is DriverState.ACTIVE:
                self._step(event)
        self._arm()

    # -- losing what is not committed ---------------------------------------------------------------------------------

    def _drop(self, error: KafkaError) -> None:
        """Drop the state, which may no longer hold: an append failed, say. Forget it and read the log again."""
        self._let_go(error)
        if self.state is not DriverState.CLOSED:  # else it is drained: the broker stops
            self.state = DriverState.LOADING
            self._reload_later()

    def _let_go(self, error: KafkaError) -> None:
        """Fail every request that is not answered, and forget what was to be done for them."""
        self._generation += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        under_way, self._under_way = self._under_way, deque()
        queued, self._queued = self._queued, []
        late, self._late = self._late, []
        for appended in under_way:
            if appended.marker_done is not None:
                appended.marker_done(error)
            fail([reply for write in appended.writes for reply in write.replies], error)
            fail(appended.late, error)
        refuse(queued, error)
        fail(late, error)
        self._fail_parked(error)

    def _fail_parked(self, error: KafkaError) -> None:
        """Each once: the shard that remembers them is put aside."""
        parked, self.shard = self.shard.parked(), self._new_shard(self.unified)
        for token in parked:
            token.fail(error)

    def drain(self) -> None:
        """The broker is about to stop: what is being written may still be answered, what waits for others fails."""
        if self.state is not DriverState.ACTIVE:
            return
        self.state = DriverState.CLOSED
        self._fail_parked(_NOT_HERE)

    def close(self) -> None:
        """The partition is led here no longer: every client has to find the coordinator anew."""
        self.state = DriverState.CLOSED
        if self._loading is not None:
            self._loading.cancel()
        self._let_go(_NOT_HERE)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """See to it that the shard is called when its next deadline has come."""
        deadline_ms = self.shard.deadline()
        if deadline_ms is None or self.state is not DriverState.ACTIVE:
            return
        if self._timer is not None:
            if self._timer_due_ms <= deadline_ms:
                return  # it looks again when it fires
            self._timer.cancel()
        delay = max(deadline_ms / 1000 - self._services.clock.monotonic(), _TIMER_SECONDS_MIN)
        self._timer_due_ms = deadline_ms
        self._timer = self._loop.call_later(delay, self._fire)

    def _fire(self) -> None:
        self._timer = None
        deadline_ms = self.shard.deadline()
        now = self.now()
        if deadline_ms is not None and deadline_ms <= now.monotonic_ms:
            try:
                actions = self.shard.due(now)
            except Exception as error:  # noqa: BLE001 - whatever it is: see `_failed`
                self._failed(error)
            else:
                self._perform(actions)
        self._arm()


_NOT_HERE: Final = KafkaError(ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")
_MARKER_REFUSED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_LOST: Final = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's log could not be written")
