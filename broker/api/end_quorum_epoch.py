"""EndQuorumEpoch (key 54): the leader of the metadata quorum gives up (KIP-595).

Behaviour: The voters stand for election in the order in which it names them. Another cluster's request gets INCONSISTENT_CLUSTER_ID.
"""

from __future__ import annotations

from stratalog.broker.api.quorum_requests import ask_quorum
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

__all__ = ["API"]

API = Api(
    key=54,
    versions=(0, 1),
    request=EndQuorumEpochRequest,
    response=EndQuorumEpochResponse,
    handle=ask_quorum,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
