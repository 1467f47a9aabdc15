"""Answers to requests of other replicas."""

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from stratalog.broker.quorum.batches import data_batch, parse_batches
from stratalog.broker.quorum.wire.received_answers import answer_from_wire
from stratalog.broker.quorum.wire.sent_answers import answer_to_wire
from stratalog.broker.quorum.wire.sent_requests import oldest_version, request_to_wire
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.update_raft_voter import CurrentLeader

LISTENER = "CONTROLLER"
ME = ReplicaKey(2, b"me" * 8)
OTHER = ReplicaKey(1, b"he" * 8)
AT = (Endpoint(LISTENER, "node1", 9093),)
NONE = ErrorCode.NONE

VOTE = raft.VoteRequest(3, OTHER, ME, 2, 7)
BEGIN = raft.BeginQuorumEpochRequest(3, 1, ME, AT)
END = raft.EndQuorumEpochRequest(3, 1, (ME,))
FETCH = raft.FetchRequest(3, OTHER, 7, 2, 5, 500)
SNAPSHOT = raft.FetchSnapshotRequest(3, OTHER, raft.OffsetAndEpoch(9, 2), 100)
ADD = raft.AddVoterRequest(Voter(OTHER, AT))
REMOVE = raft.RemoveVoterRequest(OTHER)
UPDATE = raft.UpdateVoterRequest(3, Voter(OTHER, AT))


def there_and_back(request, answer, carried, version=None):
    """An answer after the way to the asker, who then knows the listener only that it has asked."""
    asked = request_to_wire(request)
    version = type(asked).versions[1] if version is None else version
    return answer_from_wire(request, carried(answer_to_wire(asked, version, answer, LISTENER), version), LISTENER)


@pytest.mark.parametrize(
    ("request_", "answers", "with_address"),
    [
        (VOTE, "vote_answers", 1),
        (BEGIN, "epoch_answers", 1),
        (END, "epoch_answers", 1),
        (FETCH, "fetch_answers", 17),
        (SNAPSHOT, "snapshot_answers", 1),
    ],
    ids=["vote", "begin", "end", "fetch", "snapshot"],
)
def test_an_answer_comes_out_as_it_went_in(request_, answers, with_address, drawn, carried):
    """In every version; the leader's address from the version on in which Kafka sends it."""

    @settings(deadline=None)
    @given(getattr(drawn, answers))
    def check(answer):
        asked = request_to_wire(request_)
        for version in range(oldest_version(request_), type(asked).versions[1] + 1):
            wanted = answer if version >= with_address else replace(answer, endpoints=())
            assert there_and_back(request_, answer, carried, version) == wanted

    check()


def test_an_update_of_a_voter_is_answered_with_the_leader(drawn, carried):
    """And with its address."""

    @settings(deadline=None)
    @given(drawn.errors, drawn.leaders)
    def check(error, leader):
        epoch, leader_id, endpoints = leader
        answer = raft.VoterChangeAnswer(error, epoch=epoch, leader_id=leader_id, endpoints=endpoints)
        assert there_and_back(UPDATE, answer, carried) == answer

    check()


@pytest.mark.parametrize("request_", [ADD, REMOVE], ids=["add", "remove"])
def test_an_administrator_gets_the_error_and_its_reason(request_, carried):
    """The leader is not named: an administrator asks its own node."""
    answer = raft.VoterChangeAnswer(ErrorCode.DUPLICATE_VOTER, "node 1 is a voter", 3, 1, AT)
    assert there_and_back(request_, answer, carried) == raft.VoterChangeAnswer(
        ErrorCode.DUPLICATE_VOTER, "node 1 is a voter"
    )
    assert answer_to_wire(request_to_wire(request_), 0, raft.VoterChangeAnswer(NONE), LISTENER).error_message is None


def test_the_address_is_that_of_the_asked_listener():
    """In any case of its name; a leader that does not listen there has none in the answer."""
    both = (Endpoint("ADMIN", "inside", 1), Endpoint("Controller", "node1", 9093))
    for request in (VOTE, BEGIN, END, FETCH, SNAPSHOT):
        kinds = {VOTE: raft.VoteAnswer, FETCH: raft.FetchAnswer, SNAPSHOT: raft.FetchSnapshotAnswer}
        answer = kinds.get(request, raft.EpochAnswer)(NONE, 3, 1, both)
        asked = request_to_wire(request)
        (node,) = answer_to_wire(asked, type(asked).versions[1], answer, LISTENER).node_endpoints
        assert (node.node_id, node.host, node.port) == (1, "node1", 9093)
        assert answer_to_wire(asked, type(asked).versions[1], answer, "OTHER").node_endpoints == []
        leaderless = replace(answer, leader_id=raft.NO_LEADER)
        assert answer_to_wire(asked, type(asked).versions[1], leaderless, LISTENER).node_endpoints == []
    at = raft.VoterChangeAnswer(NONE, "", 3, 1, both)
    assert answer_to_wire(request_to_wire(UPDATE), 0, at, LISTENER).current_leader.host == "node1"
    assert answer_to_wire(request_to_wire(UPDATE), 0, at, "OTHER").current_leader == CurrentLeader(
        leader_id=1, leader_epoch=3
    )


def batches_of(*sizes):
    data = bytearray()
    for offset, size in enumerate(sizes):
        data += data_batch([b"v" * size], base_offset=offset, epoch=3, timestamp_ms=0)
    return parse_batches(data)


def test_records_come_out_as_they_went_in(carried):
    """Batches of one answer are pieces of one field."""
    batches = batches_of(10, 2000, 30)
    answer = raft.FetchAnswer(NONE, 3, 1, AT, 2, batches=batches)
    assert there_and_back(FETCH, answer, carried).batches == batches


@pytest.mark.parametrize(("room", "count"), [(0, 1), (200, 1), (300, 2), (301, 2), (10_000, 3)])
def test_records_end_where_the_request_wants_it(room, count, carried):
    """But a whole batch there is always, or the asker would never come further."""
    batches = batches_of(80, 80, 80)
    size = len(batches[0].data)
    assert 2 * size <= 300 < 3 * size
    assert size > 100
    asked = request_to_wire(FETCH, max_bytes=room)
    answer = raft.FetchAnswer(NONE, 3, 1, batches=batches)
    arrived = carried(answer_to_wire(asked, 18, answer, LISTENER), 18)
    assert answer_from_wire(FETCH, arrived, LISTENER).batches == batches[:count]


def test_bytes_of_a_snapshot_end_where_the_request_wants_it(carried):
    """The place of the next ones follows from their number; at least one there is always."""
    answer = raft.FetchSnapshotAnswer(NONE, 3, 1, (), SNAPSHOT.snapshot, 1000, 100, b"0123456789")
    for room, data in [(4, b"0123"), (0, b"0"), (-5, b"0"), (100, b"0123456789")]:
        asked = request_to_wire(SNAPSHOT, max_bytes=room)
        arrived = carried(answer_to_wire(asked, 1, answer, LISTENER), 1)
        assert answer_from_wire(SNAPSHOT, arrived, LISTENER) == replace(answer, data=data)


def test_a_refused_snapshot_has_empty_records_and_names_the_leader(carried):
    """Kafka leaves the records out there, and its answer cannot be encoded."""
    answer = raft.FetchSnapshotAnswer(ErrorCode.SNAPSHOT_NOT_FOUND, 3, 1, AT, SNAPSHOT.snapshot, position=100)
    for version in (0, 1):
        message = carried(answer_to_wire(request_to_wire(SNAPSHOT), version, answer, LISTENER), version)
        said = message.topics[0].partitions[0]
        assert (message.error_code, said.error_code) == (0, ErrorCode.SNAPSHOT_NOT_FOUND)
        assert (said.current_leader.leader_id, said.current_leader.leader_epoch) == (1, 3)
        assert bytes(said.unaligned_records) == b""


def test_an_answer_that_does_not_fit_its_request_is_a_fault():
    """The caller has mixed them up."""
    for request in (request_to_wire(VOTE), HeartbeatRequest(group_id="g", generation_id=1, member_id="m")):
        with pytest.raises(TypeError, match="EpochAnswer is no answer to"):
            answer_to_wire(request, 0, raft.EpochAnswer(NONE, 3), LISTENER)
