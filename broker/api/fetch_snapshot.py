"""FetchSnapshot (key 59): a replica of the metadata log copies a snapshot piece by piece (KIP-630).

Behaviour: Only the leader answers. An answer has the bytes that the request has room for, from its position on. Another cluster's request gets INCONSISTENT_CLUSTER_ID.
"""

from __future__ import annotations

from stratalog.broker.api.quorum_requests import ask_quorum
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

__all__ = ["API"]

API = Api(
    key=59,
    versions=(0, 1),
    request=FetchSnapshotRequest,
    response=FetchSnapshotResponse,
    handle=ask_quorum,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
