"""Asks the active controller for other in-sync sets: AlterPartition on the event loop. `InSyncRequests` decides."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from stratalog.broker.lifecycle.controller_channel import Channel
from stratalog.broker.peers.peer_errors import PeerError
from stratalog.broker.replicas.in_sync import AskingLeader
from stratalog.broker.replication.in_sync_requests import (
    Answered,
    Asked,
    Event,
    Failed,
    InSyncRequests,
    Send,
    Ticked,
    Wanted,
)
from stratalog.broker.runtime.alarm import Alarm
from stratalog.hot.replica_state import NO_BROKER_EPOCH, IsrChange
from stratalog.metadata.image.directory_ids import is_online
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from stratalog.wire.topic import Uuid

__all__ = ["InSyncAsks"]

_TIMEOUT_MS: Final = 30_000

log = logging.getLogger(__name__)


class InSyncAsks:
    """The `stratalog.broker.replicas.in_sync.InSyncAsking` of a broker with others."""

    def __init__(
        self,
        channel: Channel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        leader_epoch: Callable[[], int],
        image: Callable[[], ClusterImage],
        monotonic: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        """``leader_epoch`` is that of the metadata quorum."""
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._leader_epoch = leader_epoch
        self._image = image
        self._machine = InSyncRequests(draw)
        self._leaders: dict[PartitionKey, AskingLeader] = {}
        self._sent: dict[PartitionKey, IsrChange] = {}
        """The newest change of each partition that has left: a second copy of it is counted."""
        self._alarm = Alarm(monotonic, lambda: self._step(Ticked()))
        self._closed = False
        self.expansions = 0
        """Times that a set of a partition that is led here has grown (``IsrExpandsPerSec``)."""
        self.shrinkings = 0

    def ask(self, leader: AskingLeader, change: IsrChange) -> None:
        """Have the controller put another set in force; the metadata log has it when it is granted."""
        self._leaders[leader.key] = leader
        self._step(Wanted(leader.key, Asked(leader.epoch, change)))

    def may_join(self, key: PartitionKey, broker_id: int, broker_epoch: int) -> bool:
        """Whether the image knows the broker under this epoch, it is neither fenced nor stopping, and has the replica's directory.

        A replica whose directory has just failed, or that its broker has given up, would be let in again by its last fetch.
        """
        image = self._image()
        broker, topic = image.brokers.brokers.get(broker_id), image.topics.by_id.get(key.topic_id)
        state = None if topic is None else topic.partitions.get(key.number)
        if broker is None or not broker.is_active or broker_epoch not in {NO_BROKER_EPOCH, broker.epoch}:
            return False
        if state is None or broker_id not in state.replicas:
            return False
        return is_online(state.directory_of(broker_id), broker.directories)

    def changed(self, before: int, after: int) -> None:
        """A set that this broker leads by has ``after`` members now, and had ``before``."""
        self.expansions += after > before
        self.shrinkings += after < before

    def close(self) -> None:
        """Send nothing any more."""
        self._closed = True
        self._alarm.cancel()

    # -- driving ----------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        if self._closed:
            return
        for action in self._machine.step(event, self._alarm.now_ms()):
            if isinstance(action, Send):
                self._send(action.asked)
                continue
            leader = self._leaders.get(action.key)
            if leader is not None and leader.epoch == action.asked.leader_epoch:
                log.info(
                    "%s: the controller refuses %s: %s",
                    leader.topic_partition,
                    action.asked.change.broker_ids,
                    action.code.name,
                )
                leader.in_sync_refused(action.asked.change, action.code)
        self._alarm.set(self._machine.wake_at_ms)

    def _send(self, asked: Mapping[PartitionKey, Asked]) -> None:
        wanted = {key: one for key, one in asked.items() if self._is_wanted(key, one)}
        settled = {key: ErrorCode.NONE for key in asked if key not in wanted}
        if not wanted:
            asyncio.get_running_loop().call_soon(self._step, Answered(ErrorCode.NONE, settled))
            return
        for key, one in wanted.items():
            if self._sent.get(key) is one.change:
                self._leaders[key].state.ask_again()
            self._sent[key] = one.change
        answer = self._channel.ask(self._request(wanted), timeout_ms=_TIMEOUT_MS)
        answer.add_done_callback(partial(self._answered, settled))

    def _is_wanted(self, key: PartitionKey, asked: Asked) -> bool:
        """Whether the leader still waits for it; if not, it is forgotten."""
        leader = self._leaders.get(key)
        if leader is not None and leader.ended is None:
            state = leader.state
            if asked.change is state.retraction or (asked.change is state.pending and state.retraction is None):
                return True
        self._forget(key)
        return False

    def _request(self, wanted: Mapping[PartitionKey, Asked]) -> AlterPartitionRequest:
        topics: dict[Uuid, AlterPartitionTopic] = {}
        for key, one in wanted.items():
            topic = topics.setdefault(key.topic_id, AlterPartitionTopic(topic_id=key.topic_id, partitions=[]))
            members = one.change.in_sync
            topic.partitions.append(
                AlterPartitionPartition(
                    partition_index=key.number,
                    leader_epoch=one.leader_epoch,
                    new_isr=[member.broker_id for member in members],
                    new_isr_with_epochs=[
                        BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch) for member in members
                    ],
                    partition_epoch=one.change.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _answered(self, settled: Mapping[PartitionKey, ErrorCode], answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()  # seen, also where it no longer matters
        if self._closed:
            return
        if error is not None:
            if not isinstance(error, PeerError):
                log.error("in-sync sets cannot be asked for, and are tried again", exc_info=error)
            self._step(Failed())
            return
        response: AlterPartitionResponse = answer.result()
        code = _code(response.error_code)
        if code is ErrorCode.NOT_CONTROLLER:
            self._channel.not_controller(self._leader_epoch())
        codes = {
            PartitionKey(topic.topic_id, one.partition_index): _code(one.error_code)
            for topic in response.topics
            for one in topic.partitions
        }
        passed_over = list(self._passed_over(response))
        self._step(Answered(code, {**settled, **codes}))
        for leader, change in passed_over:
            leader.in_sync_passed_over(change)
        for key in codes:
            if not self._machine.holds(key):
                self._forget(key)

    def _passed_over(self, response: AlterPartitionResponse) -> Iterator[tuple[AskingLeader, IsrChange]]:
        """The changes that were granted under the partition epoch that they build on, and their leaders: no image will follow."""
        for topic in response.topics:
            for one in topic.partitions:
                key = PartitionKey(topic.topic_id, one.partition_index)
                leader, sent = self._leaders.get(key), self._sent.get(key)
                if leader is None or sent is None or one.error_code:
                    continue
                if (one.leader_epoch, one.partition_epoch) == (leader.epoch, sent.partition_epoch):
                    yield leader, sent

    def _forget(self, key: PartitionKey) -> None:
        """Keep no leader, and with it no log of a deleted topic, for which there is nothing to ask."""
        self._leaders.pop(key, None)
        self._sent.pop(key, None)


def _code(number: int) -> ErrorCode:
    """The error with this number; one that a newer controller has decides nothing, and is asked again."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
