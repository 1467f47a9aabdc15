"""The memory of a voter."""

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.quorum.quorum_state import (
    QuorumState,
    QuorumStateLost,
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


@given(
    st.integers(0, 1 << 30),
    st.integers(-1, 9),
    st.integers(-1, 9),
    st.lists(st.integers(0, 9), unique=True),
    st.booleans(),
)
def test_a_state_survives_its_file(epoch, leader, voted, voters, newer):
    """Both versions."""
    state = QuorumState(
        leader_epoch=epoch,
        leader_id=leader,
        voted_id=voted,
        voted_directory_id=b"d" * 16 if newer and voted >= 0 else bytes(16),
        voters=() if newer else tuple(voters),
        data_version=int(newer),
    )
    assert parse_quorum_state(state.to_bytes()) == state


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "is no JSON"),
        (b"\xff", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "a list was found"),
        (b"null", "a NoneType was found"),
        (b"{}", "data_version is missing"),
        (b'{"data_version":2}', "data_version is 2, known are 0 and 1"),
        (b'{"data_version":0,"leaderId":1}', "votedId is missing"),
        (b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x","data_version":1}', "votedDirectoryId"),
        (b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"data_version":1}', "votedDirectoryId"),
        (
            b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AQEBAQEBAQEBAQEBAQEBAQ","data_version":1}',
            "no voter is named",
        ),
        (b'{"leaderId":1,"leaderEpoch":-1,"votedId":1,"data_version":0}', "leaderEpoch is -1"),
        (b'{"leaderId":true,"leaderEpoch":1,"votedId":1,"data_version":0}', "leaderId is True"),
        (b'{"leaderId":1,"leaderEpoch":"7","votedId":1,"data_version":0}', "leaderEpoch is '7'"),
        (b'{"leaderId":1,"leaderEpoch":99999999999,"votedId":1,"data_version":0}', "leaderEpoch is 99999999999"),
        (b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"currentVoters":{},"data_version":0}', "currentVoters"),
        (b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"currentVoters":[1],"data_version":0}', "currentVoters"),
        (b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"currentVoters":[{}],"data_version":0}', "voterId is missing"),
        (
            b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"currentVoters":[{"voterId":1},{"voterId":1}],"data_version":0}',
            "names a voter twice",
        ),
    ],
)
def test_an_unreadable_file_is_a_wipe_and_says_what_to_do(content, found):
    """The message has the path, the fault and the way out: the vote and the epoch must not be guessed."""
    with pytest.raises(QuorumStateLost, match=re.escape(found)) as lost:
        parse_quorum_state(content, "/data/__cluster_metadata-0/quorum-state")
    assert str(lost.value).startswith("/data/__cluster_metadata-0/quorum-state is not a quorum state")
    assert "must not vote again" in str(lost.value)
    assert isinstance(lost.value, Corrupt)


@given(
    st.binary(max_size=60) | st.dictionaries(st.text(max_size=5), st.integers()).map(lambda d: json.dumps(d).encode())
)
def test_no_content_is_taken_for_a_state_without_a_vote(content):
    """Anything that is not such a file raises the same error, whichever way it is broken."""
    with pytest.raises(QuorumStateLost):
        parse_quorum_state(content)


@given(st.data())
def test_a_damaged_file_is_refused_or_says_something_that_a_state_can_say(data):
    """It has no checksum: a byte that is flipped may be a digit of another epoch. No other error ever comes."""
    state = QuorumState(leader_epoch=12, leader_id=2, voted_id=3, voted_directory_id=bytes(range(16)), data_version=1)
    content = bytearray(state.to_bytes() if data.draw(st.booleans()) else state.in_version(0, (1, 2, 3)).to_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        with pytest.raises(QuorumStateLost):
            parse_quorum_state(bytes(content[:at]))
        return
    content[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(QuorumStateLost):
        found = parse_quorum_state(bytes(content))
        assert parse_quorum_state(found.to_bytes()) == found


def test_a_state_changes_its_version_with_kraft_version():
    """Version 0 forgets the directory that was voted for and lists the voters; version 1 does neither."""
    state = QuorumState(leader_epoch=3, voted_id=2, voted_directory_id=b"d" * 16, data_version=1)
    older = state.in_version(0, (1, 2))
    assert (older.data_version, older.voted_id, older.voted_directory_id, older.voters) == (0, 2, bytes(16), (1, 2))
    newer = older.in_version(1, ())
    assert (newer.data_version, newer.voted_id, newer.voters) == (1, 2, ())
    for each in (state, older, newer):
        assert parse_quorum_state(each.to_bytes()) == each


def test_a_file_of_version_0_may_leave_its_voters_out():
    """Kafka's field may be null."""
    content = b'{"leaderId":-1,"leaderEpoch":0,"votedId":-1,"currentVoters":null,"data_version":0}'
    assert parse_quorum_state(content) == QuorumState()


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
