"""The quorum's own records."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.broker.quorum.control_records import (
    control_record,
    decode_control_record,
    quorum_records,
    stored_record,
    voter_set,
)
from stratalog.metadata.raft.messages import LeaderChange
from stratalog.metadata.raft.voter_set import ReplicaKey
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import control
from stratalog.wire.records.control import ControlType, encode_key, encode_record


def test_a_record_comes_out_as_it_went_in(drawn):
    """Through the bytes of the log."""

    @settings(deadline=None)
    @given(drawn.control_records)
    def check(record):
        kind, stored = stored_record(record)
        assert decode_control_record(encode_key(kind), encode_record(stored)) == record

    check()


def test_directories_in_a_leader_change_are_read_and_not_written():
    """Version 1 has them; Kafka 4.3 writes version 0, and so do we."""
    key = ReplicaKey(3, b"d" * 16)
    newer = control.LeaderChangeMessage(
        leader_id=3, voters=[control.Voter(voter_id=3, voter_directory_id=key.directory_id)], granting_voters=[]
    )
    record = decode_control_record(encode_key(ControlType.LEADER_CHANGE), encode_record(newer, 1))
    assert record == LeaderChange(3, (key,), ())
    kind, stored = stored_record(record)
    assert decode_control_record(encode_key(kind), encode_record(stored)) == LeaderChange(3, (ReplicaKey(3),), ())


def test_voters_of_a_snapshot_come_out_as_they_went_in(drawn):
    """With level 0 they are static, and no snapshot names them."""

    @settings(deadline=None)
    @given(drawn.voter_sets)
    def check(voters):
        stored = quorum_records(voters, 1)
        assert stored.kraft_version == 1
        assert voter_set(stored.voters) == voters
        assert quorum_records(voters, 0).voters == ()

    check()


@settings(deadline=None)
@given(st.data())
def test_voters_are_in_the_order_of_their_ids(drawn, data):
    """In whatever order they stand in the record: Kafka's is that of a hash table."""
    voters = data.draw(drawn.voter_sets)
    stored = data.draw(st.permutations(quorum_records(voters, 1).voters))
    assert voter_set(stored) == voters


def test_a_voter_that_is_named_twice_is_corrupt():
    """Two disks of one node would be two votes."""
    stored = [
        control.QuorumVoter(
            voter_id=3,
            voter_directory_id=bytes([disk]) * 16,
            endpoints=[],
            kraft_version_feature=control.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
        for disk in (1, 2)
    ]
    with pytest.raises(Corrupt, match="name node 3 twice"):
        control_record(control.VotersRecord(voters=stored))


def test_marks_of_transactions_are_no_records_of_the_quorum():
    """They belong to other logs."""
    with pytest.raises(Corrupt, match="EndTxnMarker has no place"):
        control_record(control.EndTxnMarker(coordinator_epoch=1))
