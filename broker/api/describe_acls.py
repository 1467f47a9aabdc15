"""DescribeAcls (key 29): the rules of access that a filter finds, resource by resource.

Behaviour: SECURITY_DISABLED where nothing is guarded, as every Kafka broker without ``authorizer.class.name`` answers.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.api.acl_search import PAUSE_RULES, find_acls
from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.access.acl_rules import AclFilter, AclRule
from stratalog.metadata.access.acls import AclsImage
from stratalog.metadata.controller.acls import check_filter
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


def check_guarded(context: Context) -> None:
    """Raise `KafkaError` SECURITY_DISABLED if no authorizer would obey the rules."""
    if not context.dispatcher.guarded:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)


def handle(context: Context, request: DescribeAclsRequest) -> Pending:
    """Answered from the image of now, in slices."""
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
    check_filter(wanted)
    return context.sliced(_describe(context, context.broker.image.acls, wanted))


def _describe(context: Context, acls: AclsImage, wanted: AclFilter) -> Steps[Message]:
    found = yield from find_acls(acls, wanted)
    by_resource: dict[tuple[int, str, int], list[AclRule]] = {}
    for number, (_, rule) in enumerate(found):
        by_resource.setdefault((rule.resource_type, rule.resource_name, rule.pattern_type), []).append(rule)
        if number % PAUSE_RULES == 0:
            yield None
    resources = context.rows("resources")
    for (kind, name, pattern), rules in by_resource.items():
        described = DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=[])
        for number, rule in enumerate(rules):
            described.acls.append(
                AclDescription(
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission,
                )
            )
            if number % PAUSE_RULES == 0:
                yield None
        yield from resources.add(described)
    return DescribeAclsResponse(resources=resources.close())


API = Api(
    key=29,
    versions=(1, 3),
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.CLUSTER,
)
