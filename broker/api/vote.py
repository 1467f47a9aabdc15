"""Vote (key 52): a candidate asks for the vote of this replica (KIP-595).

Behaviour: The vote is on disk before it is answered. Version 2 asks whether there would be one (KIP-996). Another cluster's request gets INCONSISTENT_CLUSTER_ID.
"""

from __future__ import annotations

from stratalog.broker.api.quorum_requests import ask_quorum
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.messages.vote import VoteRequest, VoteResponse

__all__ = ["API"]

API = Api(
    key=52,
    versions=(0, 2),
    request=VoteRequest,
    response=VoteResponse,
    handle=ask_quorum,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
