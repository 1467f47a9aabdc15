"""CreateAcls (key 30): SECURITY_DISABLED for each rule, as a Kafka broker without ``authorizer.class.name`` answers."""

from __future__ import annotations

from stratalog.broker.api.describe_acls import NO_AUTHORIZER
from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: RequestContext, request: CreateAclsRequest) -> Message:
    """Nothing is kept that nobody would obey."""
    return _failure(request, context.api_version, KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))


def _failure(request: CreateAclsRequest, _version: int, error: KafkaError) -> Message:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=error.code, error_message=error.message) for _ in request.creations]
    )


API = Api(
    key=30,
    versions=(1, 3),
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    failure=_failure,
)
