"""Carries out what `DirectoryAssignments` decides: reports of replicas' directories over a channel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from stratalog.broker.lifecycle.complaints import Complaints
from stratalog.broker.lifecycle.controller_channel import Channel, Quorum
from stratalog.broker.lifecycle.directory_assignments import (
    DirectoryAssignments,
    Event,
    Failed,
    Gone,
    LeaderChanged,
    Placed,
    Replica,
    Reported,
    Ticked,
)
from stratalog.broker.runtime.alarm import Alarm
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from stratalog.wire.topic import Uuid

__all__ = ["DirectoryReports"]

log = logging.getLogger(__name__)


class DirectoryReports:
    """The reports of one broker. Used on one event loop only."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        channel: Channel,
        quorum: Quorum,
        monotonic: Callable[[], float],
        draw: Callable[[], float],
        timeout_ms: int,
    ) -> None:
        """``timeout_ms`` bounds one request."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._quorum = quorum
        self._timeout_ms = timeout_ms
        self._machine = DirectoryAssignments(draw)
        self._alarm = Alarm(monotonic, lambda: self._step(Ticked()))
        self._asked: asyncio.Future[Any] | None = None
        self._complaints = Complaints(log, f"broker {broker_id}")
        self._closed = False
        quorum.on_leader_change(lambda _leader, _is_active: self._step(LeaderChanged()))

    @property
    def waiting(self) -> int:
        """Replicas whose directories the controller does not know yet."""
        return len(self._machine)

    def placed(self, topic_id: Uuid, partition: int, directory: Uuid) -> None:
        """Report a replica that the image has in no directory, or in another one."""
        self._step(Placed(Replica(topic_id, partition), directory))

    def gone(self, topic_id: Uuid, partition: int) -> None:
        """Do not report a replica any more: it is not here, or the image names its directory."""
        self._step(Gone(Replica(topic_id, partition)))

    def awaits(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the controller has yet to take the report of a replica."""
        return self._machine.awaits(Replica(topic_id, partition))

    def close(self) -> None:
        """Send nothing any more. The channel stays open: it is the caller's."""
        self._closed = True
        self._alarm.cancel()
        if self._asked is not None:
            self._asked.cancel()

    def _step(self, event: Event) -> None:
        if self._closed:
            return
        for action in self._machine.step(event, self._alarm.now_ms()):
            request = _request(self._broker_id, self._broker_epoch(), action.directories)
            self._asked = self._channel.ask(request, timeout_ms=self._timeout_ms)
            self._asked.add_done_callback(partial(self._answered, action.number))
        self._alarm.set(self._machine.wake_at_ms)

    def _answered(self, number: int, asked: asyncio.Future[Any]) -> None:
        if asked.cancelled():
            return
        error = asked.exception()
        if error is not None:
            self._complaints.add(type(error).__name__, str(error))
            self._step(Failed(number))
            return
        answer: AssignReplicasToDirsResponse = asked.result()
        if answer.error_code:
            if answer.error_code == ErrorCode.NOT_CONTROLLER:
                self._channel.not_controller(self._quorum.leader.epoch)
            text = (
                f"AssignReplicasToDirs: the active controller refuses it (error {answer.error_code}); it is asked again"
            )
            self._complaints.add(str(answer.error_code), text)
            self._step(Failed(number))
            return
        refused = _refused(answer)
        if refused:
            text = f"AssignReplicasToDirs: {len(refused)} replicas are refused, one with error {min(refused.values())}"
            self._complaints.add("replicas", text)
        else:
            self._complaints.end()
        self._step(Reported(number, frozenset(refused)))


def _request(broker_id: int, broker_epoch: int, replicas: Mapping[Replica, Uuid]) -> AssignReplicasToDirsRequest:
    by_directory: dict[Uuid, dict[Uuid, list[AssignedPartition]]] = {}
    for replica, directory in replicas.items():
        topics = by_directory.setdefault(directory, {})
        topics.setdefault(replica.topic_id, []).append(AssignedPartition(partition_index=replica.partition))
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[
            AssignedDirectory(
                id=directory, topics=[AssignedTopic(topic_id=one, partitions=found) for one, found in topics.items()]
            )
            for directory, topics in by_directory.items()
        ],
    )


def _refused(answer: AssignReplicasToDirsResponse) -> dict[Replica, int]:
    """The replicas that were refused, with their errors."""
    return {
        Replica(bytes(topic.topic_id), partition.partition_index): partition.error_code
        for directory in answer.directories
        for topic in directory.topics
        for partition in topic.partitions
        if partition.error_code
    }
