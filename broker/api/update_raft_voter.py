"""UpdateRaftVoter (key 82): a voter of the metadata quorum listens elsewhere, or can run other versions (KIP-853).

Behaviour: The answer names the leader: the voter may have asked another node. Another cluster's request gets INCONSISTENT_CLUSTER_ID.
"""

from __future__ import annotations

from stratalog.broker.api.quorum_requests import ask_quorum
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

__all__ = ["API"]

API = Api(
    key=82,
    versions=(0, 0),
    request=UpdateRaftVoterRequest,
    response=UpdateRaftVoterResponse,
    handle=ask_quorum,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
