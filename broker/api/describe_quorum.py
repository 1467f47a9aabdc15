"""DescribeQuorum (key 55): the voters and observers of the metadata log, and how far each of them is.

Behaviour: the leader answers; another controller says NOT_LEADER_OR_FOLLOWER beside the partition. Any other partition gets
UNKNOWN_TOPIC_OR_PARTITION. A voter is reached where the newest voters say; the only voter of a cluster of one node needs no
listener of its own, and is reached where its broker is.
"""

from __future__ import annotations

from collections.abc import Iterable

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.quorum.leadership import QuorumStatus, ReplicaStatus
from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.raft.voter_set import Endpoint, Endpoints
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _refusal(partition: int, error: KafkaError) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=error.code,
        error_message=error.message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


_UNKNOWN = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _rows(replicas: Iterable[ReplicaStatus]) -> list[ReplicaState]:
    return [
        ReplicaState(
            replica_id=one.key.id,
            replica_directory_id=one.key.directory_id,
            log_end_offset=one.log_end_offset,
            last_fetch_timestamp=one.last_fetch_ms,
            last_caught_up_timestamp=one.last_caught_up_ms,
        )
        for one in replicas
    ]


def _described(status: QuorumStatus) -> PartitionData:
    return PartitionData(
        partition_index=METADATA_PARTITION.partition,
        leader_id=status.leader.leader_id,
        leader_epoch=status.leader.epoch,
        high_watermark=status.high_watermark,
        current_voters=_rows(status.voters),
        observers=_rows(status.observers),
    )


def _addresses(voter: ReplicaStatus, image: ClusterImage) -> Endpoints:
    broker = image.brokers.brokers.get(voter.key.id)
    if voter.endpoints or broker is None:
        return voter.endpoints
    return tuple(Endpoint(name, at.host, at.port) for name, at in broker.listeners.items())


def _nodes(status: QuorumStatus, image: ClusterImage) -> list[Node]:
    return [
        Node(
            node_id=voter.key.id,
            listeners=[Listener(name=one.listener, host=one.host, port=one.port) for one in _addresses(voter, image)],
        )
        for voter in status.voters
    ]


def _answer(request: DescribeQuorumRequest, status: QuorumStatus | KafkaError, image: ClusterImage) -> Message:
    """Without voters in the answer there are no addresses in it, either. A partition that is named again is answered once."""
    asked = False
    told: set[tuple[str, int]] = set()
    topics = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            name = topic.topic_name, each.partition_index
            if name in told:
                continue
            told.add(name)
            if name != METADATA_PARTITION:
                partitions.append(_refusal(each.partition_index, _UNKNOWN))
            elif isinstance(status, KafkaError):
                partitions.append(_refusal(each.partition_index, status))
            else:
                partitions.append(_described(status))
                asked = True
        topics.append(TopicData(topic_name=topic.topic_name, partitions=partitions))
    nodes = _nodes(status, image) if asked and isinstance(status, QuorumStatus) else []
    return DescribeQuorumResponse(topics=topics, nodes=nodes)


def handle(context: Context, request: DescribeQuorumRequest) -> Message:
    """Answered at once."""
    try:
        status: QuorumStatus | KafkaError = context.broker.quorum.describe()
    except KafkaError as error:
        status = error
    return _answer(request, status, context.broker.image)


API = Api(
    key=55,
    versions=(0, 2),
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.CLUSTER,
    forwarded=True,
    by_quorum=True,
)
