"""Carries out what `BrokerLifecycle` decides: registrations and heartbeats over a channel, on the timers of the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, field

from stratalog.broker.lifecycle.broker_lifecycle import BrokerLifecycle
from stratalog.broker.lifecycle.complaints import Complaints
from stratalog.broker.lifecycle.controller_channel import Channel, Quorum
from stratalog.broker.lifecycle.lifecycle_events import (
    Action,
    Beat,
    BeatAnswered,
    CaughtUp,
    DataLost,
    DirectoryFailed,
    DirectoryLeft,
    End,
    Ended,
    Event,
    FencedAgain,
    LeaderChanged,
    LifecycleTimes,
    LogsOpened,
    MetadataProgress,
    OtherStops,
    Phase,
    Refused,
    Register,
    Registered,
    RegistrationChanged,
    RegistrationLost,
    Started,
    StopWanted,
    Ticked,
    TookEpoch,
    Unanswered,
    Unfenced,
)
from stratalog.broker.lifecycle.refusals import why_refused
from stratalog.broker.runtime.alarm import Alarm
from stratalog.metadata.image.brokers_image import BrokersImage, ListenerAddress, SupportedLevels
from stratalog.metadata.image.features import DIRECTORIES_SINCE, METADATA_VERSION
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, StratalogError
from stratalog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from stratalog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["BrokerSelf", "Lifecycle", "LifecycleEnded"]

log = logging.getLogger(__name__)


class BrokerSelf(Struct, frozen=True, kw_only=True):
    """A broker's description of itself."""

    broker_id: int
    cluster_id: str
    listeners: Mapping[str, ListenerAddress]
    """The advertised addresses by the name of the listener; without those of a controller."""
    features: Mapping[str, SupportedLevels]
    """The levels that it can run; all features that the cluster uses are named, or it is refused."""
    directories: Callable[[], tuple[Uuid, ...]]
    """The log directories that are online."""
    rack: str | None = None
    previous_broker_epoch: int = -1
    """The epoch of the process before, if it stopped without a loss."""
    cordoned_directories: tuple[Uuid, ...] = field(default=())


class LifecycleEnded(StratalogError):
    """The registration has ended before what was waited for."""


class Lifecycle:
    """One broker's registration. Used on one event loop only."""

    def __init__(
        self,
        me: BrokerSelf,
        times: LifecycleTimes,
        *,
        channel: Channel,
        quorum: Quorum,
        image: Callable[[], ClusterImage],
        monotonic: Callable[[], float],
        draw: Callable[[], float],
        new_incarnation: Callable[[], Uuid],
        on_failed: Callable[[str], None],
        on_registration_lost: Callable[[], None] = lambda: None,
        on_registered: Callable[[int], None] = lambda _epoch: None,
        on_caught_up_again: Callable[[], None] = lambda: None,
    ) -> None:
        """A call of :meth:`start` begins it. ``image`` gives the image as it is applied here.

        ``on_failed`` is called with a sentence if the process must end though it was not asked to. ``on_registration_lost``
        is called when the controller knows this registration no more: the broker leads nothing, and is registered anew.
        ``on_registered`` is called with the epoch of each registration, ``on_caught_up_again`` when the image has one that is
        not the first.
        """
        self._me = me
        self._times = times
        self._channel = channel
        self._quorum = quorum
        self._image = image
        self._on_failed = on_failed
        self._on_registration_lost = on_registration_lost
        self._on_registered = [on_registered]
        self._on_caught_up_again = on_caught_up_again
        self._machine = BrokerLifecycle(
            times, previous_broker_epoch=me.previous_broker_epoch, new_incarnation=new_incarnation, draw=draw
        )
        self._alarm = Alarm(monotonic, lambda: self._step(Ticked()))
        self._asked: asyncio.Future[Any] | None = None
        self._brokers = BrokersImage()
        """The brokers of the last image."""
        self._missing: frozenset[Uuid] = frozenset()
        """The directories that the image lacked last; asked for once."""
        self._complaints = Complaints(log, f"broker {me.broker_id}")
        loop = asyncio.get_running_loop()
        self._registered: asyncio.Future[None] = loop.create_future()
        self._caught_up: asyncio.Future[None] = loop.create_future()
        self._unfenced: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[End] = loop.create_future()
        quorum.on_leader_change(lambda _leader, _is_active: self._step(LeaderChanged()))

    # -- what others ask ----------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """Where the broker is in its life."""
        return self._machine.phase

    @property
    def broker_epoch(self) -> int:
        """The epoch of the present registration; -1 without one."""
        return self._machine.broker_epoch

    @property
    def incarnation_id(self) -> Uuid:
        """The incarnation that is registered, or tries to be."""
        return self._machine.incarnation_id

    @property
    def in_contact(self) -> bool:
        """Whether the controller cannot have ended the session of this broker yet."""
        return self._machine.in_contact(self._alarm.now_ms())

    async def registered(self) -> int:
        """Wait until the broker is registered for the first time; its epoch. Raises `LifecycleEnded`."""
        await asyncio.shield(self._registered)
        return self._machine.broker_epoch

    async def caught_up(self) -> None:
        """Wait until the image has the registration and all that was committed before. Raises `LifecycleEnded`."""
        await asyncio.shield(self._caught_up)

    async def unfenced(self) -> None:
        """Wait until clients may be served. Raises `LifecycleEnded`."""
        await asyncio.shield(self._unfenced)

    def on_registered(self, told: Callable[[int], None]) -> None:
        """Have ``told`` called with the epoch of each later registration, after all that were named before."""
        self._on_registered.append(told)

    # -- what others say ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Register, and go on from there."""
        self._step(Started())

    def logs_opened(self) -> None:
        """The logs are open: ask to be unfenced."""
        self._step(LogsOpened())

    def directory_failed(self, directory: Uuid, *, is_held: bool = False) -> None:
        """Report a directory that has failed, with each heartbeat from now on; held, from `directory_left` on."""
        self._step(DirectoryFailed(directory, is_held))

    def directory_left(self, directory: Uuid) -> None:
        """The controller takes no replica to be in a failed directory that lies elsewhere: the report may go."""
        self._step(DirectoryLeft(directory))

    def data_lost(self) -> None:
        """Replicas of this broker lack what it had: it is to be in no in-sync set by what it had before."""
        self._step(DataLost())

    def image_applied(self, image: ClusterImage) -> None:
        """The image is another one: if it lacks a directory of this broker, send the registration again.

        That is so after a rise of ``metadata.version`` to a level that has directories. The epoch stays the same. If
        another broker begins to stop, it is reported at once how far this image is: the stop waits for that.
        """
        if image.brokers is not self._brokers:
            before, self._brokers = self._brokers.brokers, image.brokers
            stopping = [one for one in image.brokers.brokers.values() if one.in_controlled_shutdown]
            if any(not (one.broker_id in before and before[one.broker_id].in_controlled_shutdown) for one in stopping):
                self._step(OtherStops())
        mine = image.brokers.brokers.get(self._me.broker_id)
        if (
            mine is None
            or mine.epoch != self.broker_epoch
            or image.features.get(METADATA_VERSION, 0) < DIRECTORIES_SINCE
        ):
            return
        missing = frozenset(self._me.directories()).difference(mine.directories)
        if missing and missing != self._missing:
            self._step(RegistrationChanged())
        self._missing = missing

    async def shut_down(self, timeout_ms: int) -> End:
        """Ask the controller to move what this broker leads, and wait until it says that the broker may stop.

        Kafka waits for 5 minutes. Afterwards no heartbeat is sent any more.
        """
        self._step(StopWanted(timeout_ms))
        return await asyncio.shield(self._ended)

    def close(self) -> None:
        """Send nothing any more. The channel stays open: it is the caller's."""
        if not self._ended.done():
            self._finish(End.NEVER_SERVED, "it is closed")

    # -- driving ------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        if self._ended.done():
            return
        for action in self._machine.step(event, self._alarm.now_ms()):
            self._carry_out(action)
        if not self._ended.done():
            self._alarm.set(self._machine.wake_at_ms)

    def _carry_out(self, action: Action) -> None:
        me = self._me
        match action:
            case Register():
                self._ask(action.number, _registration(me, action), self._times.session_timeout_ms)
            case Beat():
                # Half of a session: if the controller is silent, another attempt is made within it.
                self._ask(action.number, self._heartbeat(action), self._times.session_timeout_ms // 2)
            case TookEpoch(epoch):
                log.info("broker %d is registered with epoch %d", me.broker_id, epoch)
                self._took_epoch(epoch)
            case CaughtUp():
                log.info("broker %d has caught up with the metadata log", me.broker_id)
                if self._caught_up.done():
                    self._on_caught_up_again()
                _resolve(self._caught_up)
            case Unfenced():
                log.info("broker %d is unfenced", me.broker_id)
                _resolve(self._unfenced)
            case FencedAgain():
                log.warning("broker %d was fenced: its heartbeats came too late; it asks to be unfenced", me.broker_id)
            case RegistrationLost():
                self._tell_lost(action)
                self._on_registration_lost()
            case Ended(end, error_code):
                complaint = self._complaints.last
                last = f". The last attempt: {complaint}" if end.is_failure and complaint else ""
                self._finish(end, f"{end.value}{_with_error(error_code)}{last}")

    def _took_epoch(self, broker_epoch: int) -> None:
        for told in self._on_registered:
            told(broker_epoch)
        _resolve(self._registered)

    def _tell_lost(self, lost: RegistrationLost) -> None:
        text = "the controller knows the registration of broker %d with epoch %d no more; it registers anew"
        if lost.is_given_up:
            text = "broker %d gives up its registration with epoch %d, for it has lost data; it registers anew"
        log.warning(text, self._me.broker_id, lost.broker_epoch)

    def _finish(self, end: End, why: str) -> None:
        text = f"broker {self._me.broker_id}: the registration has ended: {why}"
        for future in (self._registered, self._caught_up, self._unfenced):
            if not future.done():
                future.set_exception(LifecycleEnded(text))
                future.exception()  # seen: not everybody waits for each of them
        self._ended.set_result(end)
        self._alarm.cancel()
        if self._asked is not None:
            self._asked.cancel()
        if end.is_failure:
            log.error("%s", text)
            self._on_failed(text)
        else:
            log.info("%s", text)

    def _heartbeat(self, beat: Beat) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._me.broker_id,
            broker_epoch=beat.broker_epoch,
            current_metadata_offset=self._image().provenance.offset,
            want_fence=beat.wants_fence,
            want_shut_down=beat.wants_shutdown,
            offline_log_dirs=list(beat.offline_directories),
            cordoned_log_dirs=list(self._me.cordoned_directories) if beat.names_cordoned else None,
        )

    def _progress(self) -> MetadataProgress:
        image = self._image()
        mine = image.brokers.brokers.get(self._me.broker_id)
        own = mine is not None and mine.incarnation_id == self._machine.incarnation_id
        return MetadataProgress(
            applied_offset=image.provenance.offset,
            high_watermark=self._quorum.high_watermark,
            registered_epoch=mine.epoch if mine is not None and own else -1,
        )

    def _ask(self, number: int, request: Message, timeout_ms: int) -> None:
        self._asked = self._channel.ask(request, timeout_ms=timeout_ms)
        self._asked.add_done_callback(partial(self._answered, number, type(request)))

    def _answered(self, number: int, kind: type[Message], asked: asyncio.Future[Any]) -> None:
        if asked.cancelled() or self._ended.done():
            return
        error = asked.exception()
        if error is not None:
            self._complaints.add(type(error).__name__, str(error))
            self._step(Unanswered(number))
            return
        answer = asked.result()
        if answer.error_code:
            if answer.error_code == ErrorCode.NOT_CONTROLLER:
                self._channel.not_controller(self._quorum.leader.epoch)
            self._complaints.add(str(answer.error_code), self._refusal(kind, answer.error_code))
            self._step(Refused(number, answer.error_code))
            return
        self._complaints.end()
        if kind is BrokerRegistrationRequest:
            self._step(Registered(number, answer.broker_epoch, self._progress()))
        else:
            said = (answer.is_caught_up, answer.is_fenced, answer.should_shut_down)
            self._step(BeatAnswered(number, *said, self._progress()))

    def _refusal(self, kind: type[Message], error_code: int) -> str:
        name, me, meaning = kind.__name__.removesuffix("Request"), self._me, ""
        if error_code == ErrorCode.NOT_CONTROLLER:
            return f"{name}: the node that was asked is not the active controller, or not yet; it is asked again"
        if kind is BrokerRegistrationRequest:
            meaning = why_refused(
                error_code,
                self._image(),
                broker_id=me.broker_id,
                cluster_id=me.cluster_id,
                directories=me.directories(),
                features=me.features,
            )
        end = f": {meaning}. It is asked again" if meaning else "; it is asked again"
        return f"{name}: the active controller refuses it{_with_error(error_code)}{end}"


def _registration(me: BrokerSelf, action: Register) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=me.broker_id,
        cluster_id=me.cluster_id,
        incarnation_id=action.incarnation_id,
        listeners=[
            Listener(name=name, host=at.host, port=at.port, security_protocol=at.security_protocol)
            for name, at in me.listeners.items()
        ],
        features=[
            Feature(name=name, min_supported_version=levels.minimum, max_supported_version=levels.maximum)
            for name, levels in me.features.items()
        ],
        rack=me.rack,
        is_migrating_zk_broker=False,
        log_dirs=sorted(me.directories()),
        previous_broker_epoch=action.previous_broker_epoch,
    )


def _with_error(error_code: int) -> str:
    if not error_code:
        return ""
    known = error_code in ErrorCode.__members__.values()
    return f" (error {error_code}{f', {ErrorCode(error_code).name}' if known else ''})"


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
