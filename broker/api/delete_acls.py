"""DeleteAcls (key 31): remove the rules of access that filters find.

Behaviour: each filter is answered with the rules of now that it found; they hold no longer when the answer leaves.
SECURITY_DISABLED for each where nothing is guarded.
"""

from __future__ import annotations

from functools import partial

from stratalog.broker.api.acl_search import CHANGES_AT_ONCE, find_acls
from stratalog.broker.api.describe_acls import check_guarded
from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.acl_rules import AclFilter, AclRule
from stratalog.metadata.controller_acls import check_filter, remove_acls
from stratalog.metadata.decision import Failure, failure_of
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

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
    control, acls = context.broker.control, context.broker.image.acls
    outcomes: list[tuple[AclRule, ...] | Failure] = []
    gone: dict[Uuid, None] = {}
    for one in filters:
        try:
            check_filter(one)
        except KafkaError as error:
            outcomes.append(failure_of(error))
            continue
        found = await find_acls(acls, one)
        gone.update(dict.fromkeys(rule_id for rule_id, _ in found))
        outcomes.append(tuple(rule for _, rule in found))
    rule_ids = list(gone)
    for start in range(0, len(rule_ids), CHANGES_AT_ONCE):
        some = rule_ids[start : start + CHANGES_AT_ONCE]
        await control.execute(partial(remove_acls, rule_ids=some))
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
