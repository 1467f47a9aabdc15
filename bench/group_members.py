"""Members of groups as fast as can be: each sends its next request when it has the answer, and thinks for no time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from stratalog.client.link import BrokerLink
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from stratalog.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    encode_protocol,
)
from stratalog.wire.schema import Message

__all__ = ["ClassicMember", "ConsumerMember", "Member"]

_PATIENCE_MS = 60_000


class Member(ABC):
    """A member with a connection of its own."""

    def __init__(self, port: int, group: str, topic: str, partition_count: int) -> None:
        self.link = BrokerLink("127.0.0.1", port)
        self.group = group
        self.topic = topic
        self.partition_count = partition_count
        self.owned_count = 0
        self.epoch = 0
        self.is_stable = False

    @abstractmethod
    def next_request(self) -> tuple[Message, int]:
        """The request to send, and its version."""

    @abstractmethod
    def take(self, answer: Any) -> None:
        """The answer. Raises ``SystemExit`` for an error that ought not to be."""

    def send(self) -> None:
        """Send the next request."""
        self.link.send(*self.next_request())

    def receive(self) -> None:
        """Take its answer."""
        self.take(self.link.receive())

    def _check(self, code: int) -> None:
        if code:
            raise SystemExit(f"a member of {self.group} was answered {ErrorCode(code).name}")


class ConsumerMember(Member):
    """A member of the consumer protocol. It is stable when nothing has changed since its last heartbeat."""

    def __init__(self, port: int, group: str, topic: str, partition_count: int, member_id: str) -> None:
        super().__init__(port, group, topic, partition_count)
        self._member_id = member_id
        self._owned: list[TopicPartitions] = []

    def next_request(self) -> tuple[Message, int]:
        """A heartbeat, with what it owns while that changes."""
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self._member_id, member_epoch=self.epoch)
        if not self.epoch:
            request.rebalance_timeout_ms = _PATIENCE_MS
            request.subscribed_topic_names = [self.topic]
        if not self.is_stable:
            request.topic_partitions = self._owned
        return request, 1

    def take(self, answer: Any) -> None:
        """Its epoch, and perhaps another assignment."""
        self._check(answer.error_code)
        self.is_stable = answer.member_epoch == self.epoch and answer.assignment is None
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._owned = answer.assignment.topic_partitions
            self.owned_count = sum(len(part.partitions) for part in self._owned)


class ClassicMember(Member):
    """A member of the classic protocol; the one that leads assigns ranges. It is stable while heartbeats say so."""

    def __init__(self, port: int, group: str, topic: str, partition_count: int) -> None:
        super().__init__(port, group, topic, partition_count)
        self._member_id = ""
        self._joined: JoinGroupResponse | None = None

    def next_request(self) -> tuple[Message, int]:
        """A heartbeat, or the next step of a rebalance."""
        if self.is_stable:
            return HeartbeatRequest(group_id=self.group, generation_id=self.epoch, member_id=self._member_id), 4
        if self._joined is not None:
            return self._sync(self._joined), 5
        metadata = encode_protocol(ConsumerProtocolSubscription(topics=[self.topic]), 1)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=_PATIENCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        return request, 9

    def _sync(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        request = SyncGroupRequest(
            group_id=self.group, generation_id=joined.generation_id, member_id=self._member_id,
            protocol_type="consumer", protocol_name="range",
        )  # fmt: skip
        if joined.leader == self._member_id:
            count = len(joined.members)
            for number, member in enumerate(joined.members):
                share = range(number * self.partition_count // count, (number + 1) * self.partition_count // count)
                parts = [OwnedPartitions(topic=self.topic, partitions=list(share))]
                given = encode_protocol(ConsumerProtocolAssignment(assigned_partitions=parts), 1)
                request.assignments.append(SyncGroupRequestAssignment(member_id=member.member_id, assignment=given))
        return request

    def take(self, answer: Any) -> None:
        """How the rebalance goes on, or that there is one."""
        if isinstance(answer, JoinGroupResponse):
            self._member_id = answer.member_id
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                self._check(answer.error_code)
                self._joined = answer
            return
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.is_stable, self._joined = False, None
            return
        self._check(answer.error_code)
        if not self.is_stable:
            assert self._joined is not None
            self.epoch, self.is_stable = self._joined.generation_id, True
            parts = decode_assignment(answer.assignment).assigned_partitions if answer.assignment else []
            self.owned_count = sum(len(part.partitions) for part in parts)
