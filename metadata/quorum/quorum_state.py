"""The memory of a voter of the metadata quorum, and the rules of the log while there is one voter.

The file ``quorum-state`` is one line of JSON in Kafka's form (``QuorumStateData``); version 0 goes with
``kraft.version`` 0, where the voters are static and listed, version 1 with KIP-853. It is written and synced before
the state it describes is acted on. One voter elects itself: each start raises the epoch, begins it with a
LeaderChangeMessage, and may call records committed only once a record of its own epoch is on disk (Raft, 5.4.2).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.wire.batch import build_control_batch
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.records import control
from stratalog.wire.records.control import ControlType, LeaderChangeMessage, Voter
from stratalog.wire.topic import ZERO_UUID, Uuid, uuid_parse, uuid_text

__all__ = [
    "FILE_NAME",
    "QuorumState",
    "QuorumStateLost",
    "become_leader",
    "leader_change_batch",
    "parse_quorum_state",
    "single_voter_high_watermark",
]

FILE_NAME: Final = "quorum-state"
NO_VOTER: Final = -1
_EPOCH_MAX: Final = (1 << 31) - 1


class QuorumStateLost(Corrupt):
    """A ``quorum-state`` that cannot be read: the voter no longer knows the votes and epochs it has given its word on.

    The caller treats its voter as one whose disk was wiped, never as one that has not voted yet: with other voters it
    must neither vote nor stand under this directory id again (two leaders of one epoch could be the end of it). The
    only voter of a quorum may go on above the epochs of its own log, because no other node has its votes.
    """


class QuorumState(Struct, frozen=True):
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

    def in_version(self, data_version: int, voters: Sequence[int]) -> QuorumState:
        """The same state for a file of another version, which goes with ``kraft.version``.

        Version 0 lists ``voters`` and has no place for the directory that was voted for; version 1 has one and leaves
        the voters to the log.
        """
        if data_version == 0:
            return replace(self, data_version=0, voters=tuple(voters), voted_directory_id=ZERO_UUID)
        return replace(self, data_version=data_version, voters=())


def parse_quorum_state(content: bytes, path: str = FILE_NAME) -> QuorumState:
    """The inverse of :meth:`QuorumState.to_bytes`; ``path`` is for the message only.

    Raises `QuorumStateLost` for anything that is not such a file; a file that is not there is for the caller to judge.
    """
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _lost(path, f"{content[:40]!r} is no JSON ({error})") from error
    if not isinstance(fields, dict):
        raise _lost(path, f"a JSON object is expected, and a {type(fields).__name__} was found")
    version = _number(fields, "data_version", path, minimum=-(1 << 31))
    if version not in {0, 1}:
        raise _lost(path, f"data_version is {version}, known are 0 and 1")
    voted_id = _number(fields, "votedId", path, minimum=NO_VOTER)
    return QuorumState(
        leader_epoch=_number(fields, "leaderEpoch", path, minimum=0),
        leader_id=_number(fields, "leaderId", path, minimum=NO_VOTER),
        voted_id=voted_id,
        voted_directory_id=_directory_id(fields, voted_id, path) if version else ZERO_UUID,
        voters=() if version else _voters(fields, path),
        data_version=version,
    )


def _lost(path: str, found: str) -> QuorumStateLost:
    return QuorumStateLost(
        f"{path} is not a quorum state: {found}. The votes of this node are lost with it, so it must not vote again "
        "under its directory id. Only a node that is the whole quorum may go on: there, delete the file, and the epoch goes on "
        "above those of its log"
    )


def _number(fields: Mapping[str, Any], name: str, path: str, *, minimum: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= _EPOCH_MAX:
        found = "missing" if name not in fields else repr(value)
        raise _lost(path, f"{name} is {found}, a number of at least {minimum} is expected")
    return value


def _directory_id(fields: Mapping[str, Any], voted_id: int, path: str) -> Uuid:
    text = fields.get("votedDirectoryId")
    try:
        directory_id = uuid_parse(text if isinstance(text, str) else repr(text))
    except Invalid as error:
        raise _lost(path, f"votedDirectoryId: {error}") from error
    if directory_id != ZERO_UUID and voted_id == NO_VOTER:
        raise _lost(path, f"votedDirectoryId is {text}, and no voter is named that has this directory")
    return directory_id


def _voters(fields: Mapping[str, Any], path: str) -> tuple[int, ...]:
    rows = fields.get("currentVoters")
    if rows is None:
        return ()
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _lost(path, f"currentVoters is {rows!r}, a list of objects is expected")
    voters = tuple(_number(row, "voterId", path, minimum=0) for row in rows)
    if len(set(voters)) != len(voters):
        raise _lost(path, f"currentVoters names a voter twice: {list(voters)}")
    return voters


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
