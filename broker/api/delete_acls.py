"""DeleteAcls (key 31): remove the rules of access that filters find.

Behaviour: each filter is answered with the rules of now that it found; they hold no longer when the answer leaves.
SECURITY_DISABLED for each where nothing is guarded.
"""

from __future__ import annotations

from functools import partial

from stratalog.broker.answer_rows import AnswerRows
from stratalog.broker.api.acl_search import CHANGES_AT_ONCE, PAUSE_RULES, find_acls
from stratalog.broker.api.describe_acls import check_guarded
from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.slices import Steps
from stratalog.metadata.acl_rules import AclFilter, AclRule
from stratalog.metadata.acls import AclsImage
from stratalog.metadata.controller_acls import check_filter, remove_acls
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


async def _delete(context: RequestContext, request: DeleteAclsRequest) -> Message:
    # The rows are made first: an answer that is too large is refused before a rule has gone.
    results, rule_ids = await context.dispatcher.slices.run(_find(context, context.broker.image.acls, request))
    for start in range(0, len(rule_ids), CHANGES_AT_ONCE):
        some = rule_ids[start : start + CHANGES_AT_ONCE]
        await context.broker.control.execute(partial(remove_acls, rule_ids=some))
    return DeleteAclsResponse(filter_results=results.close())


def _find(context: RequestContext, acls: AclsImage, request: DeleteAclsRequest) -> Steps[tuple[AnswerRows, list[Uuid]]]:
    """The rows of the answer, and the ids of the rules that any filter finds."""
    results = context.rows("filter_results")
    gone: dict[Uuid, None] = {}
    for each in request.filters:
        wanted = AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        try:
            check_filter(wanted)
        except KafkaError as error:
            failure = DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=[])
            yield from results.add(failure)
            continue
        result = DeleteAclsFilterResult(matching_acls=[])
        for number, (rule_id, rule) in enumerate((yield from find_acls(acls, wanted))):
            gone[rule_id] = None
            result.matching_acls.append(_gone(rule))
            if number % PAUSE_RULES == 0:
                yield None
        yield from results.add(result)
    return results, list(gone)


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
