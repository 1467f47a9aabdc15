"""BeginQuorumEpoch (key 53): the leader of the metadata quorum makes itself known to a voter (KIP-595).

Behaviour: The voter follows it, and fetches from the address in the request. Another cluster's request gets INCONSISTENT_CLUSTER_ID.
"""

from __future__ import annotations

from stratalog.broker.api.quorum_requests import ask_quorum
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

__all__ = ["API"]

API = Api(
    key=53,
    versions=(0, 1),
    request=BeginQuorumEpochRequest,
    response=BeginQuorumEpochResponse,
    handle=ask_quorum,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
