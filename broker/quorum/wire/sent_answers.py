"""Answers to requests of other replicas: from the machine's values to Kafka's messages.

An error of the metadata log stands beside its partition, with the leader and its epoch; where the version has room,
with the leader's address under the name of the listener that the request came by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, Endpoints
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
from stratalog.wire.parts import Part
from stratalog.wire.schema import Message

__all__ = ["answer_to_wire"]

_NODE_ENDPOINTS_IN_FETCH: Final = 17
"""Kafka's raft sends them from here on, though the field is there since 16."""

_NodeRow = TypeVar("_NodeRow")


def answer_to_wire(request: Message, version: int, answer: raft.Answer, listener: str) -> Message:
    """The message that answers ``request``, a message of ``version`` that came by ``listener``.

    Records and bytes of a snapshot end where the request wants it; of batches there is always a whole one. Raises
    `TypeError` for an answer that does not fit the request.
    """
    match request, answer:
        case vote.VoteRequest(), raft.VoteAnswer():
            return _vote(answer, listener)
        case begin_quorum_epoch.BeginQuorumEpochRequest(), raft.EpochAnswer():
            return _begin_epoch(answer, listener)
        case end_quorum_epoch.EndQuorumEpochRequest(), raft.EpochAnswer():
            return _end_epoch(answer, listener)
        case fetch.FetchRequest(), raft.FetchAnswer():
            return _fetch(request, version, answer, listener)
        case fetch_snapshot.FetchSnapshotRequest(), raft.FetchSnapshotAnswer():
            return _fetch_snapshot(request, answer, listener)
        case add_raft_voter.AddRaftVoterRequest(), raft.VoterChangeAnswer():
            return add_raft_voter.AddRaftVoterResponse(error_code=answer.error, error_message=answer.message or None)
        case remove_raft_voter.RemoveRaftVoterRequest(), raft.VoterChangeAnswer():
            return remove_raft_voter.RemoveRaftVoterResponse(
                error_code=answer.error, error_message=answer.message or None
            )
        case update_raft_voter.UpdateRaftVoterRequest(), raft.VoterChangeAnswer():
            return _update_voter(answer, listener)
    raise TypeError(f"{type(answer).__name__} is no answer to {type(request).__name__}")


def _address(endpoints: Endpoints, listener: str) -> Endpoint | None:
    """Where the leader listens under this name."""
    return next((one for one in endpoints if one.listener.upper() == listener.upper()), None)


def _nodes(row: Callable[..., _NodeRow], answer: Any, listener: str) -> list[_NodeRow]:
    """The leader's address; none if the leader is not known, or does not listen under this name."""
    at = _address(answer.endpoints, listener)
    if at is None or answer.leader_id < 0:
        return []
    return [row(node_id=answer.leader_id, host=at.host, port=at.port)]


def _vote(answer: raft.VoteAnswer, listener: str) -> vote.VoteResponse:
    partition = vote.VotePartitionResult(
        partition_index=METADATA_PARTITION.partition,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    return vote.VoteResponse(
        topics=[vote.VoteTopicResult(topic_name=METADATA_PARTITION.topic, partitions=[partition])],
        node_endpoints=_nodes(vote.NodeEndpoint, answer, listener),
    )


def _begin_epoch(answer: raft.EpochAnswer, listener: str) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    partition = begin_quorum_epoch.BeginQuorumEpochPartitionResult(
        partition_index=METADATA_PARTITION.partition,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochTopicResult(topic_name=METADATA_PARTITION.topic, partitions=[partition])
    return begin_quorum_epoch.BeginQuorumEpochResponse(
        topics=[topic], node_endpoints=_nodes(begin_quorum_epoch.NodeEndpoint, answer, listener)
    )


def _end_epoch(answer: raft.EpochAnswer, listener: str) -> end_quorum_epoch.EndQuorumEpochResponse:
    partition = end_quorum_epoch.EndQuorumEpochPartitionResult(
        partition_index=METADATA_PARTITION.partition,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
    )
    topic = end_quorum_epoch.EndQuorumEpochTopicResult(topic_name=METADATA_PARTITION.topic, partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochResponse(
        topics=[topic], node_endpoints=_nodes(end_quorum_epoch.NodeEndpoint, answer, listener)
    )


def _fetch(request: fetch.FetchRequest, version: int, answer: raft.FetchAnswer, listener: str) -> fetch.FetchResponse:
    parting, snapshot = answer.diverging, answer.snapshot
    partition = fetch.PartitionData(
        partition_index=METADATA_PARTITION.partition,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        diverging_epoch=(
            None if parting is None else fetch.EpochEndOffset(epoch=parting.epoch, end_offset=parting.offset)
        ),
        current_leader=fetch.LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.epoch),
        snapshot_id=(None if snapshot is None else fetch.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch)),
        records=_with_room(answer.batches, request.max_bytes),
    )
    nodes = _nodes(fetch.NodeEndpoint, answer, listener) if version >= _NODE_ENDPOINTS_IN_FETCH else []
    return fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        node_endpoints=nodes,
    )


def _with_room(batches: Sequence[raft.Batch], max_bytes: int) -> list[Part]:
    """The bytes of the first batch, and of those after it that have room."""
    chosen: list[Part] = []
    size = 0
    for batch in batches:
        size += len(batch.data)
        if chosen and size > max_bytes:
            break
        chosen.append(batch.data)
    return chosen


def _fetch_snapshot(
    request: fetch_snapshot.FetchSnapshotRequest, answer: raft.FetchSnapshotAnswer, listener: str
) -> fetch_snapshot.FetchSnapshotResponse:
    """With an error the records are empty: Kafka leaves them out, cannot encode its own answer, and sends -1."""
    partition = fetch_snapshot.FetchSnapshotPartitionResult(
        index=METADATA_PARTITION.partition,
        error_code=answer.error,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=answer.snapshot.offset, epoch=answer.snapshot.epoch),
        current_leader=fetch_snapshot.CurrentLeader(leader_id=answer.leader_id, leader_epoch=answer.epoch),
        size=answer.size,
        position=answer.position,
        unaligned_records=answer.data[: max(1, request.max_bytes)],
    )
    topic = fetch_snapshot.FetchSnapshotTopicResult(name=METADATA_PARTITION.topic, partitions=[partition])
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[topic], node_endpoints=_nodes(fetch_snapshot.NodeEndpoint, answer, listener)
    )


def _update_voter(answer: raft.VoterChangeAnswer, listener: str) -> update_raft_voter.UpdateRaftVoterResponse:
    leader = update_raft_voter.CurrentLeader(leader_id=answer.leader_id, leader_epoch=answer.epoch)
    at = _address(answer.endpoints, listener)
    if at is not None:
        leader.host, leader.port = at.host, at.port
    return update_raft_voter.UpdateRaftVoterResponse(error_code=answer.error, current_leader=leader)
