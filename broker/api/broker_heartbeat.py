"""BrokerHeartbeat (key 63): a registered broker shows that it lives, and asks to serve or to stop (KIP-631).

Behaviour: the contact counts when the request comes, the answer leaves when its records are committed. Another broker
epoch than the registered one is STALE_BROKER_EPOCH. One that has no turn within half of broker.heartbeat.interval.ms
is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from stratalog.broker.api.controller_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import Heartbeat
from stratalog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _answer(context: Context, request: BrokerHeartbeatRequest) -> Message:
    cordoned = request.cordoned_log_dirs
    beat = Heartbeat(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        metadata_offset=request.current_metadata_offset,
        wants_fence=request.want_fence,
        wants_shutdown=request.want_shut_down,
        offline_directories=tuple(request.offline_log_dirs),
        cordoned_directories=None if cordoned is None else tuple(cordoned),
    )
    answer = await context.broker.sessions.heartbeat(beat, source=context.connection)
    return BrokerHeartbeatResponse(
        is_caught_up=answer.is_caught_up, is_fenced=answer.is_fenced, should_shut_down=answer.should_shut_down
    )


def handle(context: Context, request: BrokerHeartbeatRequest) -> Pending:
    """Notes the contact; then runs as a task, which waits for the metadata log."""
    context.broker.sessions.contacted(request.broker_id, request.broker_epoch, context.connection)
    return context.run(_answer(context, request))


API = Api(
    key=63,
    versions=(0, 2),
    request=BrokerHeartbeatRequest,
    response=BrokerHeartbeatResponse,
    handle=handle,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
