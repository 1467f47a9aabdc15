"""Requests to other replicas of the metadata log: from the machine's values to Kafka's messages.

A message has the fields of all versions. The link drops those that the version of the other side lacks, so it must not
go below `oldest_version`.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.metadata.raft import messages as raft
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
from stratalog.wire.schema import Message

__all__ = ["FETCH_BYTES", "oldest_version", "request_to_wire"]

FETCH_BYTES: Final = 1 << 20
"""The bytes that a Fetch or a FetchSnapshot asks for by default, as in Kafka."""

_TIMEOUT_MS: Final = 2000
_FIRST_WITH_TOPIC_IDS: Final = 13


def oldest_version(request: raft.Request) -> int:
    """The first version that says all that matters of ``request``.

    In an older one a pre-vote would be a vote (KIP-996), and an addition that need not wait would wait (KIP-1186).
    Kafka fails such requests with UNSUPPORTED_VERSION before it sends them.
    """
    if isinstance(request, raft.FetchRequest):
        return _FIRST_WITH_TOPIC_IDS
    if isinstance(request, raft.VoteRequest) and request.pre_vote:
        return 2
    return 1 if isinstance(request, raft.AddVoterRequest) and not request.ack_when_committed else 0


def request_to_wire(
    request: raft.Request,
    *,
    cluster_id: str | None = None,
    max_bytes: int = FETCH_BYTES,
    timeout_ms: int = _TIMEOUT_MS,
    software: str = "stratalog",
) -> Message:
    """The message of a request, for every version from `oldest_version` on.

    ``cluster_id`` is for a request that names no cluster. ``max_bytes`` bounds the answer to a Fetch or a
    FetchSnapshot. ``timeout_ms`` is for AddRaftVoter. ``software`` is the name that ApiVersions gives to this node.
    """
    if isinstance(request, raft.ApiVersionsRequest):
        return api_versions.ApiVersionsRequest(client_software_name=software, client_software_version="1")
    if request.cluster_id is None:
        request = replace(request, cluster_id=cluster_id)
    if isinstance(request, raft.AddVoterRequest | raft.RemoveVoterRequest | raft.UpdateVoterRequest):
        return _change(request, timeout_ms)
    match request:
        case raft.VoteRequest():
            return _vote(request)
        case raft.BeginQuorumEpochRequest():
            return _begin_epoch(request)
        case raft.EndQuorumEpochRequest():
            return _end_epoch(request)
        case raft.FetchRequest():
            return _fetch(request, max_bytes)
        case raft.FetchSnapshotRequest():
            return _fetch_snapshot(request, max_bytes)


def _change(request: raft.VoterChange, timeout_ms: int) -> Message:
    match request:
        case raft.AddVoterRequest():
            return _add_voter(request, timeout_ms)
        case raft.UpdateVoterRequest():
            return _update_voter(request)
        case raft.RemoveVoterRequest():
            return remove_raft_voter.RemoveRaftVoterRequest(
                cluster_id=request.cluster_id,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
            )


def _vote(request: raft.VoteRequest) -> vote.VoteRequest:
    partition = vote.VotePartition(
        partition_index=METADATA_PARTITION.partition,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    return vote.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id,
        topics=[vote.VoteTopic(topic_name=METADATA_PARTITION.topic, partitions=[partition])],
    )


def _begin_epoch(request: raft.BeginQuorumEpochRequest) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.BeginQuorumEpochPartition(
        partition_index=METADATA_PARTITION.partition,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochTopic(topic_name=METADATA_PARTITION.topic, partitions=[partition])
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id,
        topics=[topic],
        leader_endpoints=[
            begin_quorum_epoch.LeaderEndpoint(name=one.listener, host=one.host, port=one.port)
            for one in request.endpoints
        ],
    )


def _end_epoch(request: raft.EndQuorumEpochRequest) -> end_quorum_epoch.EndQuorumEpochRequest:
    """As in Kafka, the leader's addresses are left out: it leads no more."""
    partition = end_quorum_epoch.EndQuorumEpochPartition(
        partition_index=METADATA_PARTITION.partition,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.id for key in request.successors],
        preferred_candidates=[
            end_quorum_epoch.PreferredCandidate(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.successors
        ],
    )
    topic = end_quorum_epoch.EndQuorumEpochTopic(topic_name=METADATA_PARTITION.topic, partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochRequest(cluster_id=request.cluster_id, topics=[topic])


def _fetch(request: raft.FetchRequest, max_bytes: int) -> fetch.FetchRequest:
    """The id of the replica stands twice: versions up to 14 have it at another place."""
    partition = fetch.FetchPartition(
        partition=METADATA_PARTITION.partition,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        partition_max_bytes=0,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _fetch_snapshot(request: raft.FetchSnapshotRequest, max_bytes: int) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.FetchSnapshotPartition(
        partition=METADATA_PARTITION.partition,
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=request.snapshot.offset, epoch=request.snapshot.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    topic = fetch_snapshot.FetchSnapshotTopic(name=METADATA_PARTITION.topic, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id, replica_id=request.replica.id, max_bytes=max_bytes, topics=[topic]
    )


def _add_voter(request: raft.AddVoterRequest, timeout_ms: int) -> add_raft_voter.AddRaftVoterRequest:
    voter = request.voter
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[add_raft_voter.Listener(name=one.listener, host=one.host, port=one.port) for one in voter.endpoints],
        ack_when_committed=request.ack_when_committed,
    )


def _update_voter(request: raft.UpdateVoterRequest) -> update_raft_voter.UpdateRaftVoterRequest:
    voter = request.voter
    lowest, highest = voter.kraft_versions
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[
            update_raft_voter.Listener(name=one.listener, host=one.host, port=one.port) for one in voter.endpoints
        ],
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=lowest, max_supported_version=highest
        ),
    )
