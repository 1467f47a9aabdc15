"""The metadata quorum through the client: its voters and observers, and changes of its voters (KIP-595, KIP-853).

Requests go to a broker, which passes them on to the active controller, or to the active controller itself, which any
controller names (KIP-919). Every refusal is a `KafkaError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import Struct

from stratalog.client.client import RETRY_PAUSE_SECONDS, BrokerAway, Client
from stratalog.client.commands import NO_CONTROLLER, NoController, command, no_controller
from stratalog.client.link import check, code_words
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest
from stratalog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    ReplicaState,
    RequestedPartition,
    RequestedTopic,
)
from stratalog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["Endpoint", "Quorum", "QuorumAdmin", "QuorumReplica"]

T = TypeVar("T")

METADATA_TOPIC: Final = "__cluster_metadata"
_CONTROLLER_ENDPOINTS: Final = 2
_ENDPOINT_TYPES_SINCE: Final = 1
_ELSEWHERE: Final = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE}
)
"""A node that answers with one of these has done nothing; another one is the active controller, or will be."""


class Endpoint(NamedTuple):
    """A listener of a node, as others reach it."""

    listener: str
    host: str
    port: int


class QuorumReplica(Struct, frozen=True):
    """A voter or observer of the metadata log as the leader knows it; times are ms since 1970, -1 where not known."""

    node_id: int
    directory_id: Uuid | None
    """None where the leader does not tell it: before version 2, or in a quorum of static voters."""
    log_end_offset: int
    fetched_at_ms: int
    caught_up_at_ms: int


class Quorum(Struct, frozen=True):
    """The metadata quorum as its leader describes it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[Endpoint, ...]]
    """The controller listeners of the nodes that have told theirs."""

    @property
    def leader(self) -> QuorumReplica | None:
        """The row of the leader; None while it leads without being a voter, on its way out."""
        return next((one for one in (*self.voters, *self.observers) if one.node_id == self.leader_id), None)

    def lag(self, replica: QuorumReplica) -> int | None:
        """The offsets that the leader has and ``replica`` does not; None where one of the two is not known."""
        leader = self.leader
        if leader is None or replica.log_end_offset < 0:
            return None
        return max(leader.log_end_offset - replica.log_end_offset, 0)

    def silence_ms(self, replica: QuorumReplica) -> int | None:
        """The time since the last fetch of ``replica`` by the leader's clock; None where that is not known."""
        leader = self.leader
        if replica.node_id == self.leader_id:
            return 0
        if leader is None or leader.fetched_at_ms < 0 or replica.fetched_at_ms < 0:
            return None
        return max(leader.fetched_at_ms - replica.fetched_at_ms, 0)

    def is_unheard(self, replica: QuorumReplica) -> bool:
        """Whether ``replica`` has not fetched from this leader at all; False where the leader tells no times."""
        leader = self.leader
        return leader is not None and leader.fetched_at_ms >= 0 > replica.fetched_at_ms


class QuorumAdmin:
    """Asks about the quorum and changes it, through brokers or, ``at_controllers``, at the active controller."""

    def __init__(self, client: Client, *, at_controllers: bool = False) -> None:
        self._client = client
        self._at_controllers = at_controllers
        self._controller: int | None = None

    def describe(self) -> Quorum:
        """The quorum. Raises `KafkaError`; NOT_CONTROLLER if no leader was elected within the client's time limit."""
        try:
            return self._until_answered(self._describe)
        except KafkaError as error:
            if error.code is ErrorCode.REQUEST_TIMED_OUT:  # of the broker, which has found no controller to ask
                raise no_controller(error) from error
            raise

    def add_voter(self, voter_id: int, directory_id: Uuid, endpoints: Sequence[Endpoint]) -> None:
        """Make a controller that fetches the metadata log a voter; returns when that is committed.

        ``endpoints`` are its controller listeners. Raises `KafkaError`, DUPLICATE_VOTER among others.
        """
        request = AddRaftVoterRequest(
            cluster_id=self.cluster_id(),
            timeout_ms=round(1000 * self._client.timeout_seconds),
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[Listener(name=one.listener, host=one.host, port=one.port) for one in endpoints],
        )
        self._change(request)

    def remove_voter(self, voter_id: int, directory_id: Uuid) -> None:
        """Make a voter an observer; returns when that is committed. Raises `KafkaError`, VOTER_NOT_FOUND among others."""
        self._change(
            RemoveRaftVoterRequest(cluster_id=self.cluster_id(), voter_id=voter_id, voter_directory_id=directory_id)
        )

    def cluster_id(self) -> str:
        """The id of the cluster. Raises `KafkaError`."""
        answer = self._client.call(self._cluster_request())
        check(answer.error_code, answer.error_message)
        return str(answer.cluster_id)

    def _change(self, request: Message) -> None:
        def ask() -> None:
            answer = self._call(request)
            check(answer.error_code, answer.error_message)

        self._until_answered(ask)

    def _describe(self) -> Quorum:
        asked = RequestedTopic(topic_name=METADATA_TOPIC, partitions=[RequestedPartition(partition_index=0)])
        answer = self._call(DescribeQuorumRequest(topics=[asked]))
        check(answer.error_code, answer.error_message)
        (topic,) = answer.topics
        (found,) = topic.partitions
        check(found.error_code, found.error_message or f"{METADATA_TOPIC}: {code_words(found.error_code)}")
        endpoints = {
            node.node_id: tuple(Endpoint(one.name, one.host, one.port) for one in node.listeners)
            for node in answer.nodes
        }
        return _quorum(found, endpoints)

    def _call(self, request: Message) -> Any:
        if not self._at_controllers:
            return command(self._client, request)
        if self._controller is None:
            self._controller = self._active_controller()
        try:
            self._client.link(self._controller)
        except BrokerAway as error:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"the active controller {self._controller} is away: {error}"
            ) from error
        return self._client.call(request, self._controller)

    def _cluster_request(self) -> DescribeClusterRequest:
        if not self._at_controllers:
            return DescribeClusterRequest(include_cluster_authorized_operations=False)
        if self._client.version_of(DescribeClusterRequest) < _ENDPOINT_TYPES_SINCE:
            link = self._client.link()
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{link} tells no controllers; ask a broker instead")
        return DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=_CONTROLLER_ENDPOINTS)

    def _active_controller(self) -> int:
        """The node that leads the quorum; its address is then known to the client. Raises `KafkaError` NOT_CONTROLLER."""
        answer = self._client.call(self._cluster_request())
        check(answer.error_code, answer.error_message)
        self._client.brokers.update({node.broker_id: (node.host, node.port) for node in answer.brokers})
        leader = int(answer.controller_id)
        if leader not in self._client.brokers:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"{NO_CONTROLLER} (the voters have elected no leader)")
        return leader

    def _until_answered(self, ask: Callable[[], T]) -> T:
        """The result of ``ask``, repeated within the client's time limit while another node is the active controller."""
        deadline = self._client.monotonic() + self._client.timeout_seconds
        while True:
            try:
                return ask()
            except NoController:
                raise  # a time-out may have been a success
            except KafkaError as error:
                if error.code not in _ELSEWHERE:
                    raise
                if self._client.monotonic() >= deadline:
                    if error.code is ErrorCode.NOT_CONTROLLER:
                        raise
                    raise no_controller(error) from error
            self._controller = None
            time.sleep(RETRY_PAUSE_SECONDS)


def _quorum(found: PartitionData, endpoints: Mapping[int, tuple[Endpoint, ...]]) -> Quorum:
    return Quorum(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=tuple(map(_replica, found.current_voters)),
        observers=tuple(map(_replica, found.observers)),
        endpoints=endpoints,
    )


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        node_id=state.replica_id,
        directory_id=None if state.replica_directory_id == ZERO_UUID else state.replica_directory_id,
        log_end_offset=state.log_end_offset,
        fetched_at_ms=state.last_fetch_timestamp,
        caught_up_at_ms=state.last_caught_up_timestamp,
    )
