"""Fetch (key 1): read record batches, at once or when enough has come.

Partitions are filled in the order of the request, or of the session that it goes on with (KIP-227,
`stratalog.broker.fetches.fetch_sessions`); the first one with data gives at least one batch however small the limits. An
answer that lacks ``min_bytes`` waits for appends, or for chunks of the archive, up to ``max_wait_ms``; it is never
given up as long as something can be returned.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.fetches.fetch_attempt import TOPIC_IDS_SINCE
from stratalog.broker.fetches.fetch_sessions import SessionFetch
from stratalog.broker.fetches.replica_read import ReplicaReader
from stratalog.broker.fetches.sessionless_fetch import FullFetch
from stratalog.broker.requests.authorizer import CLUSTER_NAME
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.fetch_sessions.fetch_session import EPOCH_FINAL, EPOCH_INITIAL
from stratalog.metadata.settings.catalogue.replication import RACK_AWARE_SELECTOR
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: FetchRequest) -> Message | Pending:
    """Answer now if there is enough, else wait."""
    replica = _replica(context, request)
    sessions = context.broker.fetch_sessions
    if request.session_epoch in (EPOCH_FINAL, EPOCH_INITIAL):
        if request.session_id:
            sessions.close(request.session_id)
        return FullFetch(context, request, sessions, replica).start()
    try:
        session = sessions.resume(context, request)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    if session is None:
        return FullFetch(context, request, sessions, replica).start()
    return SessionFetch(context, request, session, replica).start()


def _replica(context: Context, request: FetchRequest) -> ReplicaReader | None:
    """The reader of a request that another broker sends as a follower.

    Raises `KafkaError` CLUSTER_AUTHORIZATION_FAILED where clients might send it: such a fetch sees what is not committed, and
    commits what it claims to have (CVE-2018-1288).
    """
    broker_id, epoch = _follower(request)
    if broker_id < 0:
        return None
    roles, listener = context.broker.config.roles, context.connection.listener.name
    if not roles.has_peers or listener != roles.inter_broker_listener:
        why = f"followers fetch at listener {roles.inter_broker_listener} of a cluster, and not at {listener}"
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)
    if not context.allows(CLUSTER_NAME, Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "a follower's fetch needs ClusterAction on the cluster"
        )
    replication = context.broker.replication
    assert replication is not None  # a broker that has peers copies from them
    return ReplicaReader(
        broker_id,
        epoch,
        context.row.version,
        throttle=replication.leader_throttle,
        monotonic=context.dispatcher.monotonic,
        marks_are_news=context.broker.config.text("replica.selector.class") == RACK_AWARE_SELECTOR,
        awaited=context.broker.fetch_sessions.followers,
    )


def _follower(request: FetchRequest) -> tuple[int, int]:
    """The broker that asks as a follower, below 0 for consumers, and its registration, -1 if it tells none."""
    state = request.replica_state
    return (request.replica_id, -1) if state is None else (state.replica_id, state.replica_epoch)


def _failure(request: FetchRequest, version: int, error: KafkaError) -> Message:
    """As in Kafka by partition, too, while topics are named: version 7 brought the code of the whole."""
    topics = request.topics if version < TOPIC_IDS_SINCE else []
    return FetchResponse(
        error_code=error.code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(
                        partition_index=wanted.partition, error_code=error.code, high_watermark=-1, records=b""
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


API = Api(
    key=1,
    versions=(4, 18),
    request=FetchRequest,
    response=FetchResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.TOPIC,
    failure=_failure,
    of_nodes=lambda request, _version: _follower(request)[0] >= 0,
)
