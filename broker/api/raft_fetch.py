"""Fetch (key 1) on a listener of controllers: a replica copies the metadata log (KIP-595).

Behaviour: only the leader answers, others name it. The offset of the request says what the replica has on disk. Versions up
to 12 name topics, and the quorum knows its log by its id alone: they get INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from stratalog.broker.api.quorum_requests import ask_quorum
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.fetch import FetchRequest, FetchResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def _failure(_request: FetchRequest, _version: int, error: KafkaError) -> Message:
    """Versions up to 6 have no room for the code of the whole: their answer is empty."""
    return FetchResponse(error_code=error.code, responses=[])


API = Api(
    key=1,
    versions=(4, 18),
    request=FetchRequest,
    response=FetchResponse,
    handle=ask_quorum,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
    failure=_failure,
)
