"""DeleteAcls (key 31): remove the rules of access that filters find.

Behaviour: each filter is answered with the rules of now that it found; they hold no longer when the answer leaves.
SECURITY_DISABLED for each where nothing is guarded.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from stratalog.broker.api.acl_search import CHANGES_AT_ONCE, PAUSE_RULES
from stratalog.broker.api.describe_acls import check_guarded
from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.answer_rows import ANSWER_BYTES_MAX, AnswerRows
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.access.acl_join import find_each
from stratalog.metadata.access.acl_rules import AclFilter, AclRule
from stratalog.metadata.access.acls import AclsImage
from stratalog.metadata.controller.acls import check_filter, remove_acls
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["API"]

FOUND_MAX: Final = ANSWER_BYTES_MAX // 20
"""Each rule found takes 20 bytes of the answer or more."""


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


def _wanted(each: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        each.resource_type_filter,
        each.resource_name_filter,
        each.pattern_type_filter,
        each.principal_filter,
        each.host_filter,
        each.operation,
        each.permission_type,
    )


def _refusal(wanted: AclFilter) -> KafkaError | None:
    try:
        check_filter(wanted)
    except KafkaError as error:
        return error
    return None


def _check_count(found: int) -> None:
    """Raises INVALID_REQUEST for more rules than an answer takes, before they take memory."""
    if found > FOUND_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"The filters find more than {FOUND_MAX} rules together; ask for fewer at once."
        )


async def _delete(context: Context, request: DeleteAclsRequest) -> Message:
    # The rows are made first: an answer that is too large is refused before a rule has gone.
    results, rule_ids = await context.dispatcher.slices.run(_find(context, context.broker.image.acls, request))
    for start in range(0, len(rule_ids), CHANGES_AT_ONCE):
        some = rule_ids[start : start + CHANGES_AT_ONCE]
        await context.broker.control.execute(
            partial(remove_acls, rule_ids=some), source=context.connection, size=len(some)
        )
    return DeleteAclsResponse(filter_results=results.close())


def _find(context: Context, acls: AclsImage, request: DeleteAclsRequest) -> Steps[tuple[AnswerRows, list[Uuid]]]:
    """The rows of the answer, and the ids of the rules that any filter finds."""
    results = context.rows("filter_results")
    gone: dict[Uuid, None] = {}
    wanted = [_wanted(each) for each in request.filters]
    refused = {each: error for each in dict.fromkeys(wanted) if (error := _refusal(each)) is not None}
    found = yield from find_each(acls, (each for each in wanted if each not in refused), _check_count)
    for each in wanted:
        error = refused.get(each)
        if error is not None:
            failure = DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=[])
            yield from results.add(failure)
            continue
        result = DeleteAclsFilterResult(matching_acls=[])
        for number, (rule_id, rule) in enumerate(found[each]):
            gone[rule_id] = None
            result.matching_acls.append(_gone(rule))
            if number % PAUSE_RULES == 0:
                yield None
        yield from results.add(result)
    return results, list(gone)


def handle(context: Context, request: DeleteAclsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
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
    forwarded=True,
)
