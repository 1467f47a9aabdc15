"""AddRaftVoter (key 80): a node becomes a voter of the metadata quorum (KIP-853).

Behaviour: The answer comes when the change is committed, from version 1 on earlier if the request says so (KIP-1186). Another cluster's request gets INCONSISTENT_CLUSTER_ID.
"""

from __future__ import annotations

from stratalog.broker.api.quorum_requests import ask_quorum
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

__all__ = ["API"]

API = Api(
    key=80,
    versions=(0, 1),
    request=AddRaftVoterRequest,
    response=AddRaftVoterResponse,
    handle=ask_quorum,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    forwarded=True,
    by_quorum=True,
)
