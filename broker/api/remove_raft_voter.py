"""RemoveRaftVoter (key 81): a node is a voter of the metadata quorum no more (KIP-853).

Behaviour: The answer comes when the change is committed. The voter is named by id and directory. Another cluster's request gets INCONSISTENT_CLUSTER_ID.
"""

from __future__ import annotations

from stratalog.broker.api.quorum_requests import ask_quorum
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

__all__ = ["API"]

API = Api(
    key=81,
    versions=(0, 0),
    request=RemoveRaftVoterRequest,
    response=RemoveRaftVoterResponse,
    handle=ask_quorum,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    forwarded=True,
    by_quorum=True,
)
