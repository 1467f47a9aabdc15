"""DescribeAcls (key 29): the rules of access that a filter finds, resource by resource.

Behaviour: SECURITY_DISABLED where nothing is guarded, as every Kafka broker without ``authorizer.class.name`` answers.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, ResourceType
from stratalog.metadata.acls import AclFilter
from stratalog.metadata.controller_acls import describe_acls
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API", "check_guarded"]

_NO_AUTHORIZER: Final = "No Authorizer is configured."


def check_guarded(context: RequestContext) -> None:
    """Raise `KafkaError` SECURITY_DISABLED if rules would be obeyed by nobody."""
    if not context.dispatcher.guarded:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)


def handle(context: RequestContext, request: DescribeAclsRequest) -> Message:
    """Answered from the image."""
    check_guarded(context)
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    found = describe_acls(context.broker.image, wanted)
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(
                        principal=rule.principal,
                        host=rule.host,
                        operation=rule.operation,
                        permission_type=rule.permission,
                    )
                    for rule in rules
                ],
            )
            for (kind, name, pattern), rules in found.items()
        ]
    )


API = Api(
    key=29,
    versions=(1, 3),
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.CLUSTER,
)
