"""AddRaftVoter and RemoveRaftVoter (keys 80 and 81) on brokers of a cluster: forwarded to the leader of the metadata quorum.

A node that is a cluster by itself does not serve them: there is no other one that could become a voter.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from stratalog.broker.api import add_raft_voter, remove_raft_voter
from stratalog.broker.requests.dispatch import Api
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = ["QUORUM_CHANGE_APIS"]


def handle(_context: object, _request: Message) -> Message:
    """Raises `KafkaError`: without a way to the leader there is nothing that a broker could do."""
    raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker has no way to the leader of the metadata quorum.")


QUORUM_CHANGE_APIS: Final[tuple[Api[Any], ...]] = tuple(
    replace(api, handle=handle) for api in (add_raft_voter.API, remove_raft_voter.API)
)
"""Rows to be added to those of a broker that has peers."""
