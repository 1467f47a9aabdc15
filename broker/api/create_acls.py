"""CreateAcls (key 30): add rules of access.

Behaviour: each rule succeeds or fails for itself; they hold when the answer leaves. SECURITY_DISABLED for each where
nothing is guarded.
"""

from __future__ import annotations

from functools import partial

from stratalog.broker.api.acl_search import CHANGES_AT_ONCE
from stratalog.broker.api.describe_acls import check_guarded
from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.access.acl_rules import AclRule
from stratalog.metadata.controller.acls import create_acls
from stratalog.metadata.image.decision import Failure
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _create(context: Context, request: CreateAclsRequest) -> Steps[Message]:
    broker = context.broker
    acls = [
        AclRule(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    outcomes: list[Failure | None] = []
    for start in range(0, len(acls), CHANGES_AT_ONCE):
        some = acls[start : start + CHANGES_AT_ONCE]
        added = await broker.control.execute(
            partial(create_acls, rules=some, new_id=broker.new_topic_id), source=context.connection, size=len(some)
        )
        outcomes += added
    return _answer(context, outcomes)


def _answer(context: Context, outcomes: list[Failure | None]) -> Steps[Message]:
    results = context.rows("results")
    for failure in outcomes:
        yield from results.add(
            AclCreationResult()
            if failure is None
            else AclCreationResult(error_code=failure.code, error_message=failure.message)
        )
    return CreateAclsResponse(results=results.close())


def handle(context: Context, request: CreateAclsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    check_guarded(context)
    return context.run(_create(context, request))


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
    forwarded=True,
)
