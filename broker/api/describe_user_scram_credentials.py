"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials, never the credentials.

Behaviour: without names, all users; a user without any is RESOURCE_NOT_FOUND.
"""

from __future__ import annotations

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.controller.scram import describe_credentials
from stratalog.metadata.image.decision import Failure
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: DescribeUserScramCredentialsRequest) -> Pending:
    """Answered from the image, user by user: there may be very many."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DescribeUserScramCredentialsRequest) -> Steps[Message]:
    results = context.rows("results")
    for user, found in describe_credentials(context.broker.image, [each.name for each in request.users or ()]):
        result = DescribeUserScramCredentialsResult(user=user, credential_infos=[])
        if isinstance(found, Failure):
            result.error_code, result.error_message = found.code, found.message
        else:
            result.credential_infos = [
                CredentialInfo(mechanism=mechanism, iterations=each.iterations) for mechanism, each in found.items()
            ]
        yield from results.add(result)
    return DescribeUserScramCredentialsResponse(results=results.close())


def _failure(_request: DescribeUserScramCredentialsRequest, _version: int, error: KafkaError) -> Message:
    """The error of the whole request, and once more in a result of no user, as Kafka gives it."""
    result = DescribeUserScramCredentialsResult(
        user="", error_code=error.code, error_message=error.message, credential_infos=[]
    )
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message, results=[result])


API = Api(
    key=50,
    versions=(0, 0),
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.CLUSTER,
    failure=_failure,
)
