"""The memory of a voter."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.metadata.quorum.quorum_state import (
    QuorumState,
    become_leader,
    leader_change_batch,
    parse_quorum_state,
    single_voter_high_watermark,
)
from stratalog.wire.batch import check_batch, iter_records
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.control import ControlType, LeaderChangeMessage, decode_key, decode_record


def test_the_file_is_kafkas_json_of_version_0():
    """Names and order of the fields are those of a file Kafka writes with static voters."""
    content = QuorumState(leader_epoch=3, leader_id=1, voters=(1,)).to_bytes()
    assert content == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )


def test_the_file_is_kafkas_json_of_version_1():
    """With KIP-853 the voters stand in the log and the vote names a directory."""
    content = QuorumState(leader_epoch=3, voted_id=2, voted_directory_id=b"\1" * 16, data_version=1).to_bytes()
    assert json.loads(content) == {
        "leaderId": -1,
        "leaderEpoch": 3,
        "votedId": 2,
        "votedDirectoryId": "AQEBAQEBAQEBAQEBAQEBAQ",
        "data_version": 1,
    }


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(-1, 9), st.integers(-1, 9), st.lists(st.integers(0, 9)), st.booleans())
def test_a_state_survives_its_file(epoch, leader, voted, voters, newer):
    """Both versions."""
    state = QuorumState(
        leader_epoch=epoch,
        leader_id=leader,
        voted_id=voted,
        voted_directory_id=b"d" * 16 if newer else bytes(16),
        voters=() if newer else tuple(voters),
        data_version=int(newer),
    )
    assert parse_quorum_state(state.to_bytes()) == state


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b'{"data_version":2}',
        b'{"data_version":0,"leaderId":1}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x","data_version":1}',
    ],
)
def test_a_file_that_is_not_a_quorum_state_is_corrupt(content):
    """The epoch must not be guessed: it could go back."""
    with pytest.raises(Corrupt, match="quorum-state"):
        parse_quorum_state(content)


def test_each_start_of_the_one_voter_begins_a_higher_epoch():
    """It elects itself; the vote is over."""
    first = become_leader(QuorumState(), 1)
    second = become_leader(parse_quorum_state(first.to_bytes()), 1)
    assert (first.leader_epoch, second.leader_epoch) == (1, 2)
    assert (second.leader_id, second.voted_id, second.voters) == (1, -1, (1,))


def test_another_nodes_directory_is_noticed():
    """A state that lists other voters is not this node's."""
    with pytest.raises(Corrupt, match="another node's directory"):
        become_leader(QuorumState(voters=(2,)), 1)


def test_an_epoch_begins_with_a_leader_change_message():
    """A control batch in its epoch naming leader and voters."""
    batch = leader_change_batch(3, epoch=7, offset=42, timestamp_ms=99)
    header = check_batch(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.is_control) == (42, 7, True)
    record = next(iter_records(batch))
    assert decode_key(record.key or b"") == ControlType.LEADER_CHANGE
    message = decode_record(ControlType.LEADER_CHANGE, record.value or b"")
    assert isinstance(message, LeaderChangeMessage)
    assert (message.leader_id, [voter.voter_id for voter in message.voters]) == (3, [3])


@pytest.mark.parametrize(
    ("flushed", "start", "before", "after"),
    [(10, 10, 4, 4), (5, 10, 5, 5), (11, 10, 4, 11), (15, 10, 11, 15), (11, 10, 12, 12)],
)
def test_records_are_committed_once_one_of_this_epoch_is_on_disk(flushed, start, before, after):
    """The high watermark waits for the LeaderChangeMessage and never goes back."""
    assert single_voter_high_watermark(flushed_offset=flushed, epoch_start_offset=start, high_watermark=before) == after
