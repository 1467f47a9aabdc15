"""Changes of the voters."""

import pytest
from msgspec.structs import replace

from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.messages import (
    AddVoterRequest,
    ApiVersionsAnswer,
    ApiVersionsRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    Voters,
)
from stratalog.metadata.raft.states import Leader, Resigned
from stratalog.wire.errors import ErrorCode, Invalid
from stratalog.wire.topic import ZERO_UUID, uuid_text

VERSIONS = ApiVersionsAnswer(ErrorCode.NONE, (0, 1))


def adding(node, quorum, *, versions=VERSIONS, caught_up=True, **more):
    """A leader of three that is asked to add node 4, and has heard what it can run."""
    one = node().lead()
    if caught_up:
        one.fetch(quorum.key(4))
    one.get(AddVoterRequest(quorum.voter(4), **more), token="admin")
    one.answer(4, one.sent(ApiVersionsRequest)[4], versions)
    return one


def error_of(one):
    return one.one(act.Reply).answer.error


def test_a_voter_is_added_when_it_can_run_the_version_and_has_caught_up(node, quorum):
    """The new set counts from its append on, and the answer comes with its commit."""
    one = adding(node, quorum)
    (record,) = one.one(act.Append).batches[0].control
    assert isinstance(record, Voters)
    assert one.raft.log.voters.ids == {1, 2, 3, 4}
    one.flush()
    one.fetch(quorum.key(2))
    assert one.all(act.Reply) == []
    one.fetch(quorum.key(4))
    assert one.one(act.Reply) == act.Reply("admin", one.raft._core.change_answer(ErrorCode.NONE))


def test_a_voter_that_joins_by_itself_is_answered_at_the_append(node, quorum):
    """AckWhenCommitted is false: it has to become a voter before it can help to commit."""
    one = adding(node, quorum, ack_when_committed=False)
    assert error_of(one) is ErrorCode.NONE
    one.flush()
    one.fetch(quorum.key(2))
    one.fetch(quorum.key(4))
    assert one.all(act.Committed)
    assert one.all(act.Reply) == []


def test_an_only_voter_that_gets_a_second_one_stays_in_office(node, quorum):
    """It has waited for no other voter so far: the newcomer has the time of check-quorum to fetch as a voter."""
    one = node(log=quorum.log(voters=quorum.voters(1)))
    one.flush()
    one.wait(600_000)
    one.fetch(quorum.key(2))
    one.get(AddVoterRequest(quorum.voter(2), ack_when_committed=False), token="admin")
    one.answer(2, one.sent(ApiVersionsRequest)[2], VERSIONS)
    assert one.raft.log.voters.ids == {1, 2}
    assert isinstance(one.raft.role, Leader)
    assert one.raft.deadline_ms > one.now_ms
    one.wait(2999)
    assert isinstance(one.raft.role, Leader)
    one.wait(1)
    assert isinstance(one.raft.role, Resigned)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"caught_up": False}, ErrorCode.REQUEST_TIMED_OUT),
        ({"versions": ApiVersionsAnswer(ErrorCode.NONE, (0, 0))}, ErrorCode.INVALID_REQUEST),
        ({"versions": ApiVersionsAnswer(ErrorCode.NONE)}, ErrorCode.INVALID_REQUEST),
        ({"versions": ApiVersionsAnswer(ErrorCode.UNSUPPORTED_VERSION)}, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_a_newcomer_that_is_not_ready_is_refused(node, quorum, how, error):
    """The leader asks it, and looks at its fetches."""
    one = adding(node, quorum, **how)
    assert error_of(one) is error
    assert one.all(act.Append) == []
    assert one.raft.role.change is None


def test_a_newcomer_that_does_not_answer_is_refused(node, quorum):
    """By the failure of the request, or when the change takes too long."""
    one = node().lead()
    one.get(AddVoterRequest(quorum.voter(4)))
    one.fail(4, one.sent(ApiVersionsRequest)[4])
    assert error_of(one) is ErrorCode.REQUEST_TIMED_OUT
    one.get(AddVoterRequest(quorum.voter(5)))
    one.fetch(quorum.key(2))
    one.wait(2000)
    assert error_of(one) is ErrorCode.REQUEST_TIMED_OUT


def test_an_appended_change_that_takes_too_long_is_answered_and_stays(node, quorum):
    """Its record is in the log; the next change waits for its commit."""
    one = adding(node, quorum)
    one.wait(2000)
    assert error_of(one) is ErrorCode.REQUEST_TIMED_OUT
    assert one.raft.log.voters.ids == {1, 2, 3, 4}
    one.fetch(quorum.key(2))
    assert one.reply(RemoveVoterRequest(quorum.key(3))).error is ErrorCode.REQUEST_TIMED_OUT


def test_one_change_at_a_time(node, quorum):
    """Two sets that differ by two voters can have majorities without a common voter."""
    one = adding(node, quorum)
    assert one.reply(RemoveVoterRequest(quorum.key(3))).error is ErrorCode.REQUEST_TIMED_OUT


def test_no_change_before_the_epoch_has_committed_a_record(node, quorum):
    """A change of an earlier epoch may still be open."""
    one = node().win()
    assert one.reply(RemoveVoterRequest(quorum.key(3))).error is ErrorCode.REQUEST_TIMED_OUT


def test_static_voters_do_not_change(node, quorum):
    """kraft.version 0 has no record for them."""
    one = node(log=replace(quorum.log(), kraft_versions=())).lead()
    assert one.reply(RemoveVoterRequest(quorum.key(3))).error is ErrorCode.UNSUPPORTED_VERSION


def test_only_the_leader_of_this_cluster_changes_voters(node, follower, quorum):
    """The answer names it."""
    answer = follower().reply(RemoveVoterRequest(quorum.key(3)))
    assert (answer.error, answer.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    one = node().lead()
    assert one.reply(RemoveVoterRequest(quorum.key(3), "other")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert one.reply(UpdateVoterRequest(0, quorum.voter(2))).error is ErrorCode.FENCED_LEADER_EPOCH


def test_requests_that_make_no_sense_are_refused(node, quorum):
    """Each with Kafka's error."""
    one, voter = node().lead(), quorum.voter(4)
    nameless = replace(voter, key=voter.key._replace(directory_id=ZERO_UUID))
    assert one.reply(AddVoterRequest(nameless)).error is ErrorCode.INVALID_REQUEST
    assert one.reply(AddVoterRequest(replace(voter, endpoints=()))).error is ErrorCode.INVALID_REQUEST
    assert one.reply(AddVoterRequest(quorum.voter(2, 1))).error is ErrorCode.DUPLICATE_VOTER
    refused = one.reply(RemoveVoterRequest(quorum.key(2, 1)))
    assert refused.error is ErrorCode.VOTER_NOT_FOUND
    assert refused.message.endswith(f"node 2 with the directory {uuid_text(quorum.key(2, 1).directory_id)} is no voter")
    assert one.reply(UpdateVoterRequest(1, quorum.voter(2, 1))).error is ErrorCode.VOTER_NOT_FOUND
    alone = node(log=quorum.log(voters=quorum.voters(1)))
    alone.flush()
    assert alone.reply(RemoveVoterRequest(quorum.key(1))).error is ErrorCode.INVALID_REQUEST


def test_a_voter_is_removed_by_id_and_directory(node, quorum):
    """The answer comes with the commit, by the majority of those that stay."""
    one = node().lead()
    one.get(RemoveVoterRequest(quorum.key(3)), token="admin")
    assert one.raft.log.voters.ids == {1, 2}
    one.flush()
    assert one.all(act.Reply) == []
    one.fetch(quorum.key(2))
    assert error_of(one) is ErrorCode.NONE
    assert isinstance(one.raft.role, Leader)


def test_a_removal_that_the_rest_could_not_commit_is_refused(node, quorum):
    """The smaller set counts at once: a quorum that lacks its majority can neither commit the removal nor take it back."""
    one = node().lead()
    refused = one.reply(RemoveVoterRequest(quorum.key(2)))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT
    assert refused.message.startswith("of the voters [1, 3] after this change, [3] have not fetched for 3000 ms")
    assert one.raft.log.voters.ids == {1, 2, 3}
    one.fetch(quorum.key(3, disk=1))  # another disk than the voter's
    assert one.reply(RemoveVoterRequest(quorum.key(2))).error is ErrorCode.REQUEST_TIMED_OUT
    one.fetch(quorum.key(3))
    one.get(RemoveVoterRequest(quorum.key(2)))
    assert one.raft.log.voters.ids == {1, 3}


def test_an_addition_that_the_new_set_could_not_commit_is_refused(node, quorum):
    """A newcomer that has caught up and is silent since would be half of a quorum of two."""
    alone = node(log=quorum.log(voters=quorum.voters(1)))
    alone.flush()
    alone.fetch(quorum.key(2))
    alone.wait(3000)
    alone.get(AddVoterRequest(quorum.voter(2)), token="admin")
    alone.answer(2, alone.sent(ApiVersionsRequest)[2], VERSIONS)
    assert error_of(alone) is ErrorCode.REQUEST_TIMED_OUT
    assert alone.raft.log.voters.ids == {1}


def test_a_directory_that_was_replaced_is_not_added(node, quorum):
    """Its node has fetched with another one since: a request for the old one may have waited long for the leader."""
    alone = node(log=quorum.log(voters=quorum.voters(1)))
    alone.flush()
    alone.fetch(quorum.key(2))
    alone.wait(1)
    alone.fetch(quorum.key(2, disk=1))
    alone.get(AddVoterRequest(quorum.voter(2)), token="admin")
    alone.answer(2, alone.sent(ApiVersionsRequest)[2], VERSIONS)
    refused = alone.one(act.Reply).answer
    assert refused.error is ErrorCode.INVALID_REQUEST
    old, new = (uuid_text(quorum.key(2, disk=disk).directory_id) for disk in (0, 1))
    assert refused.message == (
        f"node 2 with the directory {old} is no more: it is node 2 with the directory {new} that fetches now"
    )
    alone.wait(1)
    alone.get(AddVoterRequest(quorum.voter(2, disk=1)), token="again")
    alone.answer(2, alone.sent(ApiVersionsRequest)[2], VERSIONS)
    assert alone.raft.log.voters.voter(2).key == quorum.key(2, disk=1)


def test_a_removal_needs_fetches_of_late(node, quorum):
    """As recent as those that keep the leader in office."""
    one = node().lead()
    one.fetch(quorum.key(3))
    one.wait(1600)
    one.fetch(quorum.key(2))
    one.wait(1400)
    assert one.reply(RemoveVoterRequest(quorum.key(1))).error is ErrorCode.REQUEST_TIMED_OUT
    one.get(RemoveVoterRequest(quorum.key(3)))
    assert one.raft.log.voters.ids == {1, 2}


def test_a_removed_leader_leads_until_its_removal_is_committed(node, quorum):
    """Its own disk does not count any more."""
    one = node().lead()
    one.fetch(quorum.key(3))
    one.get(RemoveVoterRequest(quorum.key(1)), token="admin")
    one.flush()
    one.fetch(quorum.key(2))
    assert isinstance(one.raft.role, Leader)
    one.fetch(quorum.key(3))
    assert isinstance(one.raft.role, Resigned)
    assert not one.raft.is_voter


def test_an_update_changes_endpoints(node, quorum):
    """The voter stays the same one."""
    one = node().lead()
    moved = replace(quorum.voter(2), endpoints=quorum.endpoints(9))
    one.get(UpdateVoterRequest(1, moved))
    assert one.raft.log.voters.voter(2) == moved


def test_an_update_is_answered_at_its_append(node, quorum):
    """The voter fetches nothing while it waits, and the commit may need its fetch."""
    one = node().lead()
    one.get(UpdateVoterRequest(1, replace(quorum.voter(2), endpoints=quorum.endpoints(9))))
    assert error_of(one) is ErrorCode.NONE
    assert one.raft.high_watermark < one.raft.log.end_offset


def test_an_update_that_says_nothing_new_appends_nothing(node, quorum):
    """The answer to the first one was lost."""
    one = node().lead()
    assert one.reply(UpdateVoterRequest(1, quorum.voter(2))).error is ErrorCode.NONE
    assert one.all(act.Append) == []


def test_an_update_by_a_voter_that_cannot_read_the_log_is_refused(node, quorum):
    """It would be counted and could follow no leader."""
    one = node().lead()
    older = replace(quorum.voter(2), kraft_versions=(0, 0))
    assert one.reply(UpdateVoterRequest(1, older)).error is ErrorCode.INVALID_REQUEST


def test_updates_keep_the_leader_in_office(node, quorum):
    """Check-quorum counts them as fetches: a voter sends one in place of a fetch."""
    one = node().lead()
    before = one.raft.role.check_quorum_deadline_ms
    one.now_ms += 1000
    one.reply(UpdateVoterRequest(1, quorum.voter(2)))
    assert one.raft.role.check_quorum_deadline_ms == before + 1000


def test_a_leader_that_loses_its_epoch_answers_the_open_change(node, quorum):
    """The outcome is unknown; the administrator asks the next leader."""
    one = adding(node, quorum)
    while isinstance(one.raft.role, Leader) and not any(
        reply.answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER for reply in one.all(act.Reply)
    ):
        one.now_ms += 3000
        one.wait(0)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in [reply.answer.error for reply in one.all(act.Reply)]


def test_api_versions_is_not_the_quorums_to_answer(node):
    """The server does."""
    with pytest.raises(Invalid, match="ApiVersions"):
        node().get(ApiVersionsRequest())
