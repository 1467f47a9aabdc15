"""Votes and the way to leadership."""

import pytest
from msgspec.structs import replace

from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.messages import FetchAnswer, FetchRequest, VoteAnswer, VoteRequest
from stratalog.metadata.raft.states import Candidate, Follower, Leader, Prospective, Unattached
from stratalog.wire.errors import ErrorCode


def vote(quorum, epoch, *, candidate=2, voter=None, last_epoch=0, end_offset=0, pre_vote=False, cluster_id="cluster"):
    """A candidate's request to voter 1."""
    key = quorum.key(1) if voter is None else voter
    return VoteRequest(epoch, quorum.key(candidate), key, last_epoch, end_offset, pre_vote, cluster_id)


def test_a_voter_without_a_leader_asks_for_pre_votes_and_keeps_its_epoch(node):
    """An election raises the epoch only if it can be won (KIP-996)."""
    one = node()
    one.wait()
    assert isinstance(one.raft.role, Prospective)
    assert {peer: request.pre_vote for peer, request in one.sent(VoteRequest).items()} == {2: True, 3: True}
    assert one.raft.role.epoch == 0


def test_a_majority_of_pre_votes_makes_a_candidate_whose_vote_is_stored_before_it_asks(node, quorum):
    """The epoch and the vote for itself are on disk before any other voter is asked."""
    one = node()
    one.wait()
    one.answer(2, one.sent(VoteRequest)[2], VoteAnswer(ErrorCode.NONE, 0, granted=True))
    assert isinstance(one.raft.role, Candidate)
    kinds = [type(action) for action in one.actions]
    assert kinds.index(act.StoreQuorumState) < kinds.index(act.Send)
    assert one.one(act.StoreQuorumState).state == QuorumState(1, -1, 1, quorum.key(1).directory_id, data_version=1)


def test_a_majority_of_votes_makes_a_leader(node):
    """It begins its epoch with a record."""
    one = node().win()
    assert isinstance(one.raft.role, Leader)
    assert one.one(act.Append).batches[0].control[0].leader_id == 1


def test_lost_pre_votes_lead_back_to_the_old_leader(follower):
    """A follower whose fetches fail asks the others; they hear the leader, so it goes on following."""
    one = follower()
    one.wait(2000)
    assert isinstance(one.raft.role, Prospective)
    for peer, request in one.sent(VoteRequest).items():
        one.answer(peer, request, VoteAnswer(ErrorCode.NONE, 1, leader_id=2, granted=False))
    assert isinstance(one.raft.role, Follower)
    assert (one.raft.role.epoch, one.raft.role.leader_id) == (1, 2)


def test_a_lost_election_is_waited_out(node):
    """The candidate asks for pre-votes again in its epoch when the time is over."""
    one = node()
    one.wait()
    one.answer(2, one.sent(VoteRequest)[2], VoteAnswer(ErrorCode.NONE, 0, granted=True))
    for peer, request in one.sent(VoteRequest).items():
        one.answer(peer, request, VoteAnswer(ErrorCode.NONE, 1, granted=False))
    assert isinstance(one.raft.role, Candidate)
    one.wait(1000)
    assert (type(one.raft.role), one.raft.role.epoch) == (Prospective, 1)


def test_a_voter_that_knows_no_pre_votes_is_none_to_wait_for(node):
    """UNSUPPORTED_VERSION makes a candidate at once, as in Kafka."""
    one = node()
    one.wait()
    one.answer(2, one.sent(VoteRequest)[2], VoteAnswer(ErrorCode.UNSUPPORTED_VERSION, 0))
    assert isinstance(one.raft.role, Candidate)


def test_a_failed_request_for_a_vote_is_sent_again_after_the_backoff(node):
    """Retry.backoff.ms lies between."""
    one = node()
    one.wait()
    one.fail(2, one.sent(VoteRequest)[2])
    assert one.sent(VoteRequest) == {}
    one.wait()
    assert set(one.sent(VoteRequest)) == {2}


def test_a_vote_is_stored_before_it_is_given_and_given_again_to_the_same_candidate(node, quorum):
    """A repeated request gets the same vote, another candidate gets none."""
    one = node()
    one.get(vote(quorum, 1))
    kinds = [type(action) for action in one.actions]
    assert kinds.index(act.StoreQuorumState) < kinds.index(act.Reply)
    assert one.all(act.StoreQuorumState)[-1].state.voted_id == 2
    assert one.one(act.Reply).answer.granted
    assert one.reply(vote(quorum, 1)).granted
    assert not one.reply(vote(quorum, 1, candidate=3)).granted


def test_a_vote_moves_the_voters_own_election_back(node, quorum):
    """The candidate gets the time to win."""
    one = node()
    one.now_ms = 900
    one.get(vote(quorum, 1))
    assert one.raft.deadline_ms == 1900


def test_a_pre_vote_leaves_no_trace(node, quorum):
    """Neither on the disk nor in the role, so that every candidate may get one."""
    one = node()
    before = one.raft.role
    for candidate in (2, 3):
        assert one.reply(vote(quorum, 0, candidate=candidate, pre_vote=True)).granted
    assert one.raft.role == before


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "granted"), [(1, 3, False), (2, 1, False), (2, 2, True), (3, 1, True)]
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_a_vote_goes_only_to_a_log_that_has_everything(node, quorum, last_epoch, end_offset, granted, pre_vote):
    """By the last epoch first, then by the end."""
    one = node(log=quorum.log(1, 2))
    request = vote(quorum, 4, last_epoch=last_epoch, end_offset=end_offset, pre_vote=pre_vote)
    assert one.reply(request).granted is granted


def test_a_vote_is_not_repeated_for_a_log_that_has_become_shorter(node, quorum):
    """A candidate that lost power may lack what its vote had rested on."""
    one = node(log=quorum.log(1, 1))
    assert one.reply(vote(quorum, 2, last_epoch=1, end_offset=2)).granted
    assert not one.reply(vote(quorum, 2, last_epoch=1, end_offset=1)).granted


def test_a_follower_grants_pre_votes_until_it_has_fetched(follower, quorum):
    """Then the leader is alive, and a voter that has lost it must not end its epoch."""
    one = follower()
    request = vote(quorum, 1, candidate=3, pre_vote=True)
    assert one.reply(request).granted
    one.wait(20)
    fetch = one.sent(FetchRequest) or {2: FetchRequest(1, quorum.key(1), 0, 0, 0, 500, "cluster")}
    one.answer(2, fetch[2], FetchAnswer(ErrorCode.NONE, 1, 2, high_watermark=0))
    assert not one.reply(request).granted


def test_an_observer_whose_leader_is_silent_grants_pre_votes(node, quorum):
    """The others may count it as a voter by a record that it lacks: without its vote they elect no leader, for good."""
    four = node(4)
    (request,) = four.sent(FetchRequest).values()
    four.answer(act.BOOTSTRAP, request, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 1, 2, quorum.endpoints(2)))
    four.answer(2, four.sent(FetchRequest)[2], FetchAnswer(ErrorCode.NONE, 1, 2, high_watermark=0))
    asked = vote(quorum, 1, candidate=3, voter=quorum.key(4), pre_vote=True)
    assert not four.reply(asked).granted
    four.wait(1900)
    assert not four.reply(asked).granted
    four.wait(100)
    assert four.reply(asked).granted


def test_neither_a_leader_nor_a_follower_votes_in_its_epoch(node, follower, quorum):
    """The epoch has its leader; a leader grants no pre-votes either."""
    leader, one = node().win(), follower()
    assert not leader.reply(vote(quorum, 1, last_epoch=0, end_offset=9)).granted
    assert not leader.reply(vote(quorum, 1, last_epoch=1, end_offset=9, pre_vote=True)).granted
    assert not one.reply(vote(quorum, 1, candidate=3)).granted


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epoch": 9, "cluster_id": "other", "last_epoch": -1}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 0, "last_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5, "last_epoch": 5, "end_offset": 1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5, "end_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1, "voter": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 5, "voter": 2}, ErrorCode.INVALID_VOTER_KEY),
        ({"epoch": 5, "cluster_id": None}, ErrorCode.NONE),
    ],
)
def test_requests_for_votes_are_checked_in_kafkas_order(node, quorum, changes, error):
    """The first check that fails names the error."""
    changes = dict(changes)
    if "voter" in changes:
        changes["voter"] = quorum.key(changes["voter"])
    one = node(stored=QuorumState(leader_epoch=2, data_version=1))
    assert one.reply(vote(quorum, **changes)).error is error


def test_a_vote_asked_of_another_disk_is_refused_and_its_epoch_is_believed(node, quorum):
    """A voter whose disk was replaced may have voted on the old one; the epoch comes before the key, as in Kafka."""
    one = node(disk=1)
    answer = one.reply(vote(quorum, 3))
    assert (answer.error, answer.granted, answer.epoch) == (ErrorCode.INVALID_VOTER_KEY, False, 3)


def test_a_higher_epoch_ends_leadership_also_in_a_pre_vote(node, quorum):
    """The active controller hears of it, and the epoch is stored."""
    one = node().lead()
    one.get(vote(quorum, 7, pre_vote=True, last_epoch=0))
    assert isinstance(one.raft.role, Unattached)
    assert one.one(act.LostLeadership).epoch == 1
    assert one.one(act.StoreQuorumState).state.leader_epoch == 7


def test_an_observer_never_stands(node, quorum):
    """It waits for a leader as long as it takes."""
    four = node(4)
    four.wait(100_000)
    assert isinstance(four.raft.role, Unattached)
    assert four.sent(FetchRequest) or four.raft.deadline_ms is None


def test_a_voter_whose_own_removal_is_not_committed_stands_and_needs_the_others_alone(node, quorum):
    """Its log may be the only one that the others cannot do without; its own vote does not count."""
    log = quorum.log(1, 1)
    one = node(log=replace(log, voter_sets=(*log.voter_sets, (1, quorum.voters(2)))))
    one.wait()
    assert isinstance(one.raft.role, Prospective)
    assert set(one.sent(VoteRequest)) == {2}
    one.win()
    assert isinstance(one.raft.role, Leader)
