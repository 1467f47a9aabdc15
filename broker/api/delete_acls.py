"""DeleteAcls (key 31): remove the rules of access that filters find.

Behaviour: each filter is answered with what it found; the rules hold no longer when the answer leaves.
SECURITY_DISABLED for each where nothing is guarded.
"""

from __future__ import annotations

from stratalog.broker.api.describe_acls import check_guarded
from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.acls import AclFilter, AclRule
from stratalog.metadata.controller_acls import delete_acls
from stratalog.metadata.decision import Failure
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _gone(acl: AclRule) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _result(outcome: tuple[AclRule, ...] | Failure) -> DeleteAclsFilterResult:
    if isinstance(outcome, Failure):
        return DeleteAclsFilterResult(error_code=outcome.code, error_message=outcome.message, matching_acls=[])
    return DeleteAclsFilterResult(matching_acls=[_gone(acl) for acl in outcome])


async def _delete(context: RequestContext, request: DeleteAclsRequest) -> Message:
    filters = [
        AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        for each in request.filters
    ]
    outcomes = await context.broker.control.execute(lambda image: delete_acls(image, filters))
    return DeleteAclsResponse(filter_results=[_result(outcome) for outcome in outcomes])


def handle(context: RequestContext, request: DeleteAclsRequest) -> Pending:
    """Carried out beside the connection."""
    check_guarded(context)
    return context.run(_delete(context, request))


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
