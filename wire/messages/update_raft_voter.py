"""UpdateRaftVoter (key 82): a voter tells the leader of its listeners and its feature range (KIP-853).

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, Uint16, Uuid, field

__all__ = [
    "CurrentLeader",
    "KRaftVersionFeature",
    "Listener",
    "UpdateRaftVoterRequest",
    "UpdateRaftVoterResponse",
]


class Listener(Struct):
    """One listener of the voter."""

    name: str
    host: str
    port: Uint16


class KRaftVersionFeature(Struct):
    """The levels of ``kraft.version`` that the voter can run."""

    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()


class UpdateRaftVoterRequest(Message, api_key=82, versions=(0, 0), flexible=0):
    """The voter as it is now; ``current_leader_epoch`` is -1 where it is not known."""

    cluster_id: str | None
    current_leader_epoch: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature


class CurrentLeader(Struct):
    """The leader, its epoch and its address; an id of -1 is not known. The port has 32 bits here."""

    leader_id: Int32 = field(-1)
    leader_epoch: Int32 = field(-1)
    host: str = field()
    port: Int32 = field()


class UpdateRaftVoterResponse(Message, api_key=82, versions=(0, 0), flexible=0):
    """The outcome, and with errors who leads."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    current_leader: CurrentLeader | None = field(tag=0)
