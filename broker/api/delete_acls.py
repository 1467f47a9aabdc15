"""DeleteAcls (key 31): SECURITY_DISABLED for each filter, as a Kafka broker without ``authorizer.class.name`` answers."""

from __future__ import annotations

from stratalog.broker.api.describe_acls import NO_AUTHORIZER
from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: RequestContext, request: DeleteAclsRequest) -> Message:
    """There are no rules to delete."""
    return _failure(request, context.api_version, KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))


def _failure(request: DeleteAclsRequest, _version: int, error: KafkaError) -> Message:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=[])
            for _ in request.filters
        ]
    )


API = Api(
    key=31,
    versions=(1, 3),
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    failure=_failure,
)
