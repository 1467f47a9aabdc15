"""AlterUserScramCredentials (key 51): set and delete SCRAM credentials.

Behaviour: as in Kafka they are kept in the metadata log whether or not a listener asks for them; none does here, so
they authenticate no client. The answer leaves when they are on disk.
"""

from __future__ import annotations

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.scram import ScramDeletion, ScramUpsertion, alter_credentials
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _alter(context: Context, deletions: list[ScramDeletion], upsertions: list[ScramUpsertion]) -> Message:
    outcomes = await context.broker.control.execute(
        lambda image: alter_credentials(image, deletions, upsertions),
        source=context.connection,
        size=len(deletions) + len(upsertions),
    )
    results = []
    for user, failure in outcomes:
        result = AlterUserScramCredentialsResult(user=user)
        if failure is not None:
            result.error_code, result.error_message = failure.code, failure.message
        results.append(result)
    return AlterUserScramCredentialsResponse(results=results)


def handle(context: Context, request: AlterUserScramCredentialsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync. It has copies of the bytes."""
    deletions = [ScramDeletion(each.name, each.mechanism) for each in request.deletions]
    upsertions = [
        ScramUpsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        for each in request.upsertions
    ]
    return context.run(_alter(context, deletions, upsertions))


def _failure(request: AlterUserScramCredentialsRequest, _version: int, error: KafkaError) -> Message:
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
            for user in dict.fromkeys(names)
        ]
    )


API = Api(
    key=51,
    versions=(0, 0),
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    failure=_failure,
    forwarded=True,
)
