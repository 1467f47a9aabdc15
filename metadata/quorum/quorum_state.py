"""The memory of a voter of the metadata quorum, and the rules of the log while there is one voter.

The file ``quorum-state`` is one line of JSON in Kafka's form (``QuorumStateData``); version 0 goes with
``kraft.version`` 0, where the voters are static and listed, version 1 with KIP-853. It is written and synced before
the state it describes is acted on. One voter elects itself: each start raises the epoch, begins it with a
LeaderChangeMessage, and may call records committed only once a record of its own epoch is on disk (Raft, 5.4.2).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from stratalog.wire.batch import build_control_batch
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.records import control
from stratalog.wire.records.control import ControlType, LeaderChangeMessage, Voter
from stratalog.wire.topic import ZERO_UUID, Uuid, uuid_parse, uuid_text

__all__ = [
    "FILE_NAME",
    "QuorumState",
    "become_leader",
    "leader_change_batch",
    "parse_quorum_state",
    "single_voter_high_watermark",
]

FILE_NAME: Final = "quorum-state"
NO_VOTER: Final = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The leader, epoch and vote of one voter. A voter has either a leader or a vote in an epoch, or neither."""

    leader_epoch: int = 0
    leader_id: int = NO_VOTER
    voted_id: int = NO_VOTER
    voted_directory_id: Uuid = ZERO_UUID
    voters: tuple[int, ...] = ()
    """The static voters, of a file of version 0."""
    data_version: int = 0

    def to_bytes(self) -> bytes:
        """The content of the file."""
        content: dict[str, Any]
        if self.data_version == 0:
            content = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
            }
        else:
            content = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "votedDirectoryId": uuid_text(self.voted_directory_id),
            }
        return json.dumps({**content, "data_version": self.data_version}, separators=(",", ":")).encode()


def parse_quorum_state(content: bytes) -> QuorumState:
    """The inverse of :meth:`QuorumState.to_bytes`. Raises `Corrupt` for anything that is not such a file."""
    try:
        fields = json.loads(content)
        version = int(fields["data_version"])
        if version not in {0, 1}:
            raise Corrupt(f"{FILE_NAME} has data_version {version}, known are 0 and 1")
        return QuorumState(
            leader_epoch=int(fields["leaderEpoch"]),
            leader_id=int(fields["leaderId"]),
            voted_id=int(fields["votedId"]),
            voted_directory_id=uuid_parse(fields["votedDirectoryId"]) if version else ZERO_UUID,
            voters=() if version else tuple(int(voter["voterId"]) for voter in fields.get("currentVoters") or ()),
            data_version=version,
        )
    except (Invalid, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(
            f"{FILE_NAME} is not a quorum state ({error!r}); restore it, the epoch must not go back"
        ) from error


def become_leader(state: QuorumState, node_id: int) -> QuorumState:
    """The state of the one voter in the epoch that its start begins. Raises `Corrupt` if other voters are listed."""
    if state.voters not in {(), (node_id,)}:
        raise Corrupt(
            f"{FILE_NAME} lists the voters {list(state.voters)}, this node is {node_id}: is it another node's directory?"
        )
    return replace(
        state,
        leader_epoch=state.leader_epoch + 1,
        leader_id=node_id,
        voted_id=NO_VOTER,
        voted_directory_id=ZERO_UUID,
        voters=(node_id,) if state.data_version == 0 else (),
    )


def leader_change_batch(node_id: int, *, epoch: int, offset: int, timestamp_ms: int) -> bytearray:
    """The control batch with which the one voter begins an epoch (KIP-595)."""
    voter = Voter(voter_id=node_id)
    message = LeaderChangeMessage(leader_id=node_id, voters=[voter], granting_voters=[voter])
    value = control.encode_record(message)
    return build_control_batch(
        ControlType.LEADER_CHANGE, value, offset=offset, timestamp_ms=timestamp_ms, leader_epoch=epoch
    )


def single_voter_high_watermark(*, flushed_offset: int, epoch_start_offset: int, high_watermark: int) -> int:
    """Where committed records end (exclusive) with one voter.

    ``flushed_offset`` is the end of what is on disk, ``epoch_start_offset`` where this epoch's LeaderChangeMessage
    stands, ``high_watermark`` the value so far: it never goes back, and moves only once the message is on disk.
    """
    if flushed_offset <= epoch_start_offset:
        return high_watermark
    return max(high_watermark, flushed_offset)
