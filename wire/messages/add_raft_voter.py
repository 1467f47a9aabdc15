"""AddRaftVoter (key 80): a node becomes a voter of the metadata quorum (KIP-853).

- 0: the whole of it. 1: the answer may come before the change is committed (KIP-1186).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Message, Struct, Uint16, Uuid, field

__all__ = [
    "AddRaftVoterRequest",
    "AddRaftVoterResponse",
    "Listener",
]


class Listener(Struct):
    """One listener of the new voter."""

    name: str
    host: str
    port: Uint16


class AddRaftVoterRequest(Message, api_key=80, versions=(0, 1), flexible=0):
    """The new voter. With ``ack_when_committed`` false the answer comes as soon as the leader has written the change."""

    cluster_id: str | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    ack_when_committed: Bool = field(True, since=1)


class AddRaftVoterResponse(Message, api_key=80, versions=(0, 1), flexible=0):
    """The outcome."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None
