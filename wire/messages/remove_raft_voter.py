"""RemoveRaftVoter (key 81): a node is a voter of the metadata quorum no longer (KIP-853).

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Uuid, field

__all__ = [
    "RemoveRaftVoterRequest",
    "RemoveRaftVoterResponse",
]


class RemoveRaftVoterRequest(Message, api_key=81, versions=(0, 0), flexible=0):
    """The voter, by id and directory."""

    cluster_id: str | None
    voter_id: Int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Message, api_key=81, versions=(0, 0), flexible=0):
    """The outcome."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None
