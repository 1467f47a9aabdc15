"""The quorum's own records, between the values of `stratalog.metadata.raft` and those of the log.

In the log they stand in control batches, in a snapshot in its first one. Sources: KIP-595, KIP-853, Kafka's
``MemoryRecordsBuilder``, ``VoterSet``.
"""

from __future__ import annotations

from itertools import pairwise

from stratalog.metadata.quorum.checkpoint import KRAFT_VERSION_MAX, QuorumRecords
from stratalog.metadata.raft.messages import ControlRecord, KRaftVersion, LeaderChange, Voters
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import control
from stratalog.wire.records.control import ControlType
from stratalog.wire.schema import DecodeError, Message

__all__ = ["control_record", "decode_control_record", "quorum_records", "stored_record", "voter_set"]


def stored_record(record: ControlRecord) -> tuple[ControlType, Message]:
    """A record as Kafka 4.3 stores it: each in version 0, which names the voters of a LeaderChange by id alone."""
    match record:
        case LeaderChange():
            return ControlType.LEADER_CHANGE, control.LeaderChangeMessage(
                leader_id=record.leader_id,
                voters=[control.Voter(voter_id=key.id) for key in record.voters],
                granting_voters=[control.Voter(voter_id=key.id) for key in record.granting],
            )
        case KRaftVersion():
            return ControlType.KRAFT_VERSION, control.KRaftVersionRecord(kraft_version=record.level)
        case Voters():
            return ControlType.KRAFT_VOTERS, control.VotersRecord(voters=list(map(_stored_voter, record.voters)))


def control_record(stored: Message) -> ControlRecord:
    """The value of a stored record, of any version.

    Raises `Corrupt` for a record that belongs elsewhere, a level of ``kraft.version`` that is not known, and a voter
    that is named twice.
    """
    match stored:
        case control.LeaderChangeMessage():
            return LeaderChange(stored.leader_id, _keys(stored.voters), _keys(stored.granting_voters))
        case control.KRaftVersionRecord():
            level = stored.kraft_version
            if not 0 <= level <= KRAFT_VERSION_MAX:
                raise Corrupt(f"kraft.version is {level}, known are 0 to {KRAFT_VERSION_MAX}: a newer release wrote it")
            return KRaftVersion(level)
        case control.VotersRecord():
            return Voters(voter_set(stored.voters))
    raise Corrupt(f"a {type(stored).__name__} has no place in the log of the metadata")


def decode_control_record(key: bytes, value: bytes) -> ControlRecord:
    """The control record with this key and value. Raises `Corrupt` for one that cannot be read or used."""
    try:
        return control_record(control.decode_record(control.decode_key(key), value))
    except DecodeError as error:
        raise Corrupt(str(error)) from error


def quorum_records(voters: VoterSet, kraft_version: int) -> QuorumRecords:
    """The facts for the head of a snapshot; with ``kraft_version`` 0 it names no voters."""
    return QuorumRecords(kraft_version, tuple(map(_stored_voter, voters)) if kraft_version else ())


def voter_set(voters: list[control.QuorumVoter] | tuple[control.QuorumVoter, ...]) -> VoterSet:
    """Stored voters in the order of their ids. Raises `Corrupt` for an id that comes twice."""
    known = sorted(map(_voter, voters), key=lambda voter: voter.key)
    for before, after in pairwise(known):
        if before.key.id == after.key.id:
            raise Corrupt(f"the voters of the metadata quorum name node {after.key.id} twice")
    return VoterSet(tuple(known))


def _keys(voters: list[control.Voter]) -> tuple[ReplicaKey, ...]:
    return tuple(ReplicaKey(voter.voter_id, voter.voter_directory_id) for voter in voters)


def _voter(stored: control.QuorumVoter) -> Voter:
    levels = stored.kraft_version_feature
    return Voter(
        ReplicaKey(stored.voter_id, stored.voter_directory_id),
        tuple(Endpoint(one.name, one.host, one.port) for one in stored.endpoints),
        (levels.min_supported_version, levels.max_supported_version),
    )


def _stored_voter(voter: Voter) -> control.QuorumVoter:
    lowest, highest = voter.kraft_versions
    return control.QuorumVoter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[control.Endpoint(name=one.listener, host=one.host, port=one.port) for one in voter.endpoints],
        kraft_version_feature=control.KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest),
    )
