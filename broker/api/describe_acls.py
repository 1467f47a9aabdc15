"""DescribeAcls (key 29): SECURITY_DISABLED, as every Kafka broker without ``authorizer.class.name`` answers."""

from __future__ import annotations

from typing import Final

from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from stratalog.wire.schema import Message

__all__ = ["API", "NO_AUTHORIZER"]

NO_AUTHORIZER: Final = "No Authorizer is configured."


def handle(_context: RequestContext, _request: DescribeAclsRequest) -> Message:
    """There are no rules to describe."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, resources=[])


API = Api(
    key=29,
    versions=(1, 3),
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.CLUSTER,
)
