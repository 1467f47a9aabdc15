"""Answers of other replicas: from Kafka's messages to the machine's values.

An error of the whole request names neither leader nor epoch: it becomes an answer in the epoch of the request, so that
the machine does with it what it does with any refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from stratalog.broker.quorum.batches import parse_batches
from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.messages import NO_LEADER, UNKNOWN_OFFSET, OffsetAndEpoch
from stratalog.metadata.raft.voter_set import Endpoint, Endpoints
from stratalog.wire.errors import ErrorCode, Invalid
from stratalog.wire.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from stratalog.wire.schema import Buffer, Message, Records

__all__ = ["answer_from_wire"]

_KRAFT_VERSION: Final = "kraft.version"

_Row = TypeVar("_Row")


def answer_from_wire(request: raft.Request, response: Message, listener: str) -> raft.Answer:
    """The answer to ``request`` in the message of its API, of any version.

    ``listener`` is the name that the leader's address in it belongs to: that of the listener asked. Raises `Invalid` for a message
    that answers something else or cannot be meant, and `Corrupt` for records that are damaged: both are no answer, and
    the request has failed.
    """
    match request, response:
        case raft.VoteRequest(), vote.VoteResponse():
            return _vote(request, response, listener)
        case raft.BeginQuorumEpochRequest(), begin_quorum_epoch.BeginQuorumEpochResponse():
            return _epoch(request, response, listener)
        case raft.EndQuorumEpochRequest(), end_quorum_epoch.EndQuorumEpochResponse():
            return _epoch(request, response, listener)
        case raft.FetchRequest(), fetch.FetchResponse():
            return _fetch(request, response, listener)
        case raft.FetchSnapshotRequest(), fetch_snapshot.FetchSnapshotResponse():
            return _fetch_snapshot(request, response, listener)
        case raft.AddVoterRequest(), add_raft_voter.AddRaftVoterResponse():
            return raft.VoterChangeAnswer(_code(response.error_code), response.error_message or "")
        case raft.RemoveVoterRequest(), remove_raft_voter.RemoveRaftVoterResponse():
            return raft.VoterChangeAnswer(_code(response.error_code), response.error_message or "")
        case raft.UpdateVoterRequest(), update_raft_voter.UpdateRaftVoterResponse():
            return _update_voter(request, response, listener)
        case raft.ApiVersionsRequest(), api_versions.ApiVersionsResponse():
            return _versions(response)
    raise Invalid(f"{type(response).__name__} is no answer to a {type(request).__name__} of the quorum")


def _code(number: int) -> ErrorCode:
    """The error with this number; one that a newer release has is unknown here."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _only(rows: Sequence[_Row], response: Message) -> _Row:
    if len(rows) != 1:
        raise Invalid(f"a {type(response).__name__} of the quorum names {len(rows)} logs: one was asked for")
    return rows[0]


def _check_named(topic: object, partition: int, wanted: object = METADATA_PARTITION.topic) -> None:
    if topic != wanted or partition != METADATA_PARTITION.partition:
        raise Invalid(f"an answer is about partition {partition} of {topic!r}: {METADATA_PARTITION} was asked for")


def _leader(
    asked_in: int, leader_id: int, epoch: int, nodes: Iterable[Any], listener: str
) -> tuple[int, int, Endpoints]:
    """Epoch, leader and its address; an answer without an epoch is one in the epoch of its request."""
    if epoch < 0:
        return asked_in, NO_LEADER, ()
    if leader_id < 0:
        return epoch, NO_LEADER, ()
    found = next((node for node in nodes if node.node_id == leader_id), None)
    return epoch, leader_id, () if found is None else (Endpoint(listener, found.host, found.port),)


def _vote(request: raft.VoteRequest, response: vote.VoteResponse, listener: str) -> raft.VoteAnswer:
    if response.error_code:
        return raft.VoteAnswer(_code(response.error_code), request.epoch)
    topic = _only(response.topics, response)
    said = _only(topic.partitions, response)
    _check_named(topic.topic_name, said.partition_index)
    leader = _leader(request.epoch, said.leader_id, said.leader_epoch, response.node_endpoints, listener)
    return raft.VoteAnswer(_code(said.error_code), *leader, granted=said.vote_granted)


def _epoch(
    request: raft.BeginQuorumEpochRequest | raft.EndQuorumEpochRequest,
    response: begin_quorum_epoch.BeginQuorumEpochResponse | end_quorum_epoch.EndQuorumEpochResponse,
    listener: str,
) -> raft.EpochAnswer:
    if response.error_code:
        return raft.EpochAnswer(_code(response.error_code), request.epoch)
    topics: list[Any] = list(response.topics)
    topic = _only(topics, response)
    said = _only(topic.partitions, response)
    _check_named(topic.topic_name, said.partition_index)
    leader = _leader(request.epoch, said.leader_id, said.leader_epoch, response.node_endpoints, listener)
    return raft.EpochAnswer(_code(said.error_code), *leader)


def _fetch(request: raft.FetchRequest, response: fetch.FetchResponse, listener: str) -> raft.FetchAnswer:
    if response.error_code:
        return raft.FetchAnswer(_code(response.error_code), request.epoch)
    topic = _only(response.responses, response)
    said = _only(topic.partitions, response)
    _check_named(topic.topic_id, said.partition_index, METADATA_TOPIC_ID)
    now = said.current_leader or fetch.LeaderIdAndEpoch()
    leader = _leader(request.epoch, now.leader_id, now.leader_epoch, response.node_endpoints, listener)
    parting, snapshot = said.diverging_epoch, said.snapshot_id
    return raft.FetchAnswer(
        _code(said.error_code),
        *leader,
        high_watermark=max(said.high_watermark, UNKNOWN_OFFSET),
        diverging=None if parting is None else _place(parting.end_offset, parting.epoch),
        snapshot=None if snapshot is None else _place(snapshot.end_offset, snapshot.epoch),
        batches=parse_batches(_received(said.records), "an answer to a fetch of the metadata log"),
    )


def _received(records: Records | None) -> Buffer:
    """The bytes of records that came in, which are one piece."""
    assert records is None or isinstance(records, bytes | bytearray | memoryview)
    return records or b""


def _place(offset: int, epoch: int) -> OffsetAndEpoch | None:
    """A place in the log; None if neither part is given. Raises `Invalid` for half of one."""
    if offset < 0 and epoch < 0:
        return None
    if offset < 0 or epoch < 0:
        raise Invalid(f"an answer to a fetch of the metadata log names offset {offset} in epoch {epoch}")
    return OffsetAndEpoch(offset, epoch)


def _fetch_snapshot(
    request: raft.FetchSnapshotRequest, response: fetch_snapshot.FetchSnapshotResponse, listener: str
) -> raft.FetchSnapshotAnswer:
    """Kafka 4.3 cannot encode an error beside the partition, and sends UNKNOWN_SERVER_ERROR for the whole instead."""
    if response.error_code:
        return raft.FetchSnapshotAnswer(_code(response.error_code), request.epoch, snapshot=request.snapshot)
    topic = _only(response.topics, response)
    said = _only(topic.partitions, response)
    _check_named(topic.name, said.index)
    now = said.current_leader or fetch_snapshot.CurrentLeader(leader_id=NO_LEADER, leader_epoch=-1)
    leader = _leader(request.epoch, now.leader_id, now.leader_epoch, response.node_endpoints, listener)
    data = bytes(_received(said.unaligned_records))
    if not said.error_code and not (0 <= said.position < said.position + len(data) <= said.size):
        raise Invalid(
            f"an answer to FetchSnapshot has {len(data)} bytes at position {said.position} of {said.size}: a leader sends "
            "at least one, and none behind the end"
        )
    return raft.FetchSnapshotAnswer(
        _code(said.error_code),
        *leader,
        snapshot=OffsetAndEpoch(said.snapshot_id.end_offset, said.snapshot_id.epoch),
        size=said.size,
        position=said.position,
        data=data,
    )


def _update_voter(
    request: raft.UpdateVoterRequest, response: update_raft_voter.UpdateRaftVoterResponse, listener: str
) -> raft.VoterChangeAnswer:
    now = response.current_leader
    if now is None or now.leader_epoch < 0:
        return raft.VoterChangeAnswer(_code(response.error_code), epoch=request.epoch)
    known = now.leader_id >= 0
    at = (Endpoint(listener, now.host, now.port),) if known and now.host else ()
    return raft.VoterChangeAnswer(
        _code(response.error_code),
        epoch=now.leader_epoch,
        leader_id=now.leader_id if known else NO_LEADER,
        endpoints=at,
    )


def _versions(response: api_versions.ApiVersionsResponse) -> raft.ApiVersionsAnswer:
    found = next((one for one in response.supported_features if one.name == _KRAFT_VERSION), None)
    return raft.ApiVersionsAnswer(
        _code(response.error_code), None if found is None else (found.min_version, found.max_version)
    )
