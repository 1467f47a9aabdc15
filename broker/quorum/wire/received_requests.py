"""Requests of other replicas of the metadata log, and of administrators: from Kafka's messages to the machine's values.

A message names one topic with one partition, or it is refused as a whole: the quorum keeps one log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, Endpoints, ReplicaKey, Voter
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from stratalog.wire.schema import Message

__all__ = ["request_from_wire"]

_Row = TypeVar("_Row")


def request_from_wire(
    message: Message, version: int, *, node_id: int, cluster_id: str, listener: str | None = None
) -> raft.Request:
    """The request in a message of one version that came to the node ``node_id`` of the cluster ``cluster_id``.

    ``listener`` is the name by which replicas reach each other, the first of ``controller.listener.names``. A voter to be
    added or updated that does not listen there has no endpoints in the request, for which a leader refuses it.

    Raises `KafkaError` for the answer as a whole, checked in Kafka's order: INCONSISTENT_CLUSTER_ID for another
    cluster; INVALID_REQUEST for anything but one topic and one partition, that of the metadata log; for a Fetch or a
    voter with numbers that cannot be. Raises `TypeError` for a message that is no request of the quorum.
    """
    parse = _PARSERS.get(type(message))
    if parse is None:
        raise TypeError(f"{type(message).__name__} is no request of the metadata quorum")
    named: str | None = getattr(message, "cluster_id", None)
    if named is not None and named != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"The given id {named!r} doesn't match the cluster id {cluster_id!r}"
        )
    request = parse(message, version, node_id)
    if listener is not None and isinstance(request, raft.AddVoterRequest | raft.UpdateVoterRequest):
        request = replace(request, voter=_reached_by(listener, request.voter))
    return request


def _reached_by(listener: str, voter: Voter) -> Voter:
    at_all = any(one.listener == listener.upper() for one in voter.endpoints)
    return voter if at_all else replace(voter, endpoints=())


def _only(rows: Sequence[_Row], what: str) -> _Row:
    if len(rows) != 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the request names {len(rows)} {what}: the metadata quorum has one of them"
        )
    return rows[0]


def _check_named(topic: object, partition: int, wanted: object = METADATA_PARTITION.topic) -> None:
    if topic != wanted or partition != METADATA_PARTITION.partition:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the quorum keeps the log {METADATA_PARTITION} and no other")


def _addressed(voter_id: int, directory_id: bytes, node_id: int) -> ReplicaKey:
    """The replica that is asked; this one if the request does not say, as in version 0 of Vote and BeginQuorumEpoch."""
    return ReplicaKey(node_id) if voter_id < 0 else ReplicaKey(voter_id, directory_id)


def _endpoints(rows: Iterable[Any]) -> Endpoints:
    return tuple(Endpoint(row.name.upper(), row.host, row.port) for row in rows)


def _node(node_id: int, what: str) -> int:
    if node_id < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names {node_id} as its {what}")
    return node_id


def _vote_request(message: vote.VoteRequest, _version: int, node_id: int) -> raft.VoteRequest:
    topic = _only(message.topics, "topics")
    asked = _only(topic.partitions, "partitions")
    _check_named(topic.topic_name, asked.partition_index)
    return raft.VoteRequest(
        epoch=asked.replica_epoch,
        candidate=ReplicaKey(_node(asked.replica_id, "candidate"), asked.replica_directory_id),
        voter=_addressed(message.voter_id, asked.voter_directory_id, node_id),
        last_epoch=asked.last_offset_epoch,
        end_offset=asked.last_offset,
        pre_vote=asked.pre_vote,
        cluster_id=message.cluster_id,
    )


def _begin_epoch_request(
    message: begin_quorum_epoch.BeginQuorumEpochRequest, _version: int, node_id: int
) -> raft.BeginQuorumEpochRequest:
    topic = _only(message.topics, "topics")
    asked = _only(topic.partitions, "partitions")
    _check_named(topic.topic_name, asked.partition_index)
    return raft.BeginQuorumEpochRequest(
        epoch=asked.leader_epoch,
        leader_id=_node(asked.leader_id, "leader"),
        voter=_addressed(message.voter_id, asked.voter_directory_id, node_id),
        endpoints=_endpoints(message.leader_endpoints),
        cluster_id=message.cluster_id,
    )


def _end_epoch_request(
    message: end_quorum_epoch.EndQuorumEpochRequest, version: int, _node_id: int
) -> raft.EndQuorumEpochRequest:
    topic = _only(message.topics, "topics")
    asked = _only(topic.partitions, "partitions")
    _check_named(topic.topic_name, asked.partition_index)
    successors = (
        tuple(map(ReplicaKey, asked.preferred_successors))
        if version == 0
        else tuple(ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in asked.preferred_candidates)
    )
    return raft.EndQuorumEpochRequest(
        asked.leader_epoch, _node(asked.leader_id, "leader"), successors, message.cluster_id
    )


def _fetch_request(message: fetch.FetchRequest, _version: int, _node_id: int) -> raft.FetchRequest:
    """A version without topic ids names no topic that the quorum knows."""
    topic = _only(message.topics, "topics")
    asked = _only(topic.partitions, "partitions")
    _check_named(topic.topic_id, asked.partition, METADATA_TOPIC_ID)
    if min(message.max_wait_ms, asked.fetch_offset, asked.last_fetched_epoch) < 0 or (
        asked.last_fetched_epoch > asked.current_leader_epoch
    ):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"a fetch at offset {asked.fetch_offset} behind epoch {asked.last_fetched_epoch} in epoch "
            f"{asked.current_leader_epoch}, to wait {message.max_wait_ms} ms",
        )
    replica_id = message.replica_id if message.replica_state is None else message.replica_state.replica_id
    return raft.FetchRequest(
        epoch=asked.current_leader_epoch,
        replica=ReplicaKey(replica_id, asked.replica_directory_id),
        offset=asked.fetch_offset,
        last_epoch=asked.last_fetched_epoch,
        # A replica that cannot tell is not woken by a new high watermark: the default is above any.
        high_watermark=asked.high_watermark,
        max_wait_ms=message.max_wait_ms,
        cluster_id=message.cluster_id,
    )


def _fetch_snapshot_request(
    message: fetch_snapshot.FetchSnapshotRequest, _version: int, _node_id: int
) -> raft.FetchSnapshotRequest:
    topic = _only(message.topics, "topics")
    asked = _only(topic.partitions, "partitions")
    if (topic.name, asked.partition) != METADATA_PARTITION:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the quorum keeps the log {METADATA_PARTITION}")
    return raft.FetchSnapshotRequest(
        epoch=asked.current_leader_epoch,
        replica=ReplicaKey(message.replica_id, asked.replica_directory_id),
        snapshot=raft.OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
        position=asked.position,
        cluster_id=message.cluster_id,
    )


def _voter_key(voter_id: int, directory_id: bytes) -> ReplicaKey:
    if voter_id < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request does not include a valid voter: its id is {voter_id}")
    return ReplicaKey(voter_id, directory_id)


def _add_voter_request(message: add_raft_voter.AddRaftVoterRequest, _version: int, _node_id: int) -> raft.Request:
    voter = Voter(_voter_key(message.voter_id, message.voter_directory_id), _endpoints(message.listeners))
    return raft.AddVoterRequest(voter, message.ack_when_committed, message.cluster_id)


def _remove_voter_request(
    message: remove_raft_voter.RemoveRaftVoterRequest, _version: int, _node_id: int
) -> raft.Request:
    return raft.RemoveVoterRequest(_voter_key(message.voter_id, message.voter_directory_id), message.cluster_id)


def _update_voter_request(
    message: update_raft_voter.UpdateRaftVoterRequest, _version: int, _node_id: int
) -> raft.Request:
    levels = message.kraft_version_feature
    voter = Voter(
        _voter_key(message.voter_id, message.voter_directory_id),
        _endpoints(message.listeners),
        (levels.min_supported_version, levels.max_supported_version),
    )
    if not 0 <= voter.kraft_versions[0] <= voter.kraft_versions[1]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{voter.kraft_versions} is no range of kraft.version")
    return raft.UpdateVoterRequest(message.current_leader_epoch, voter, message.cluster_id)


_PARSERS: Final[dict[type[Message], Callable[[Any, int, int], raft.Request]]] = {
    vote.VoteRequest: _vote_request,
    begin_quorum_epoch.BeginQuorumEpochRequest: _begin_epoch_request,
    end_quorum_epoch.EndQuorumEpochRequest: _end_epoch_request,
    fetch.FetchRequest: _fetch_request,
    fetch_snapshot.FetchSnapshotRequest: _fetch_snapshot_request,
    add_raft_voter.AddRaftVoterRequest: _add_voter_request,
    remove_raft_voter.RemoveRaftVoterRequest: _remove_voter_request,
    update_raft_voter.UpdateRaftVoterRequest: _update_voter_request,
}
