"""From static voters to voters that change."""

import pytest
from msgspec.structs import replace

from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import UpgradeProposed
from stratalog.metadata.raft.messages import (
    BeginQuorumEpochRequest,
    KRaftVersion,
    RemoveVoterRequest,
    UpdateVoterRequest,
    Voters,
)
from stratalog.metadata.raft.states import Leader
from stratalog.metadata.raft.voter_set import ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import ZERO_UUID


@pytest.fixture
def static(quorum, node):
    """Starts voter 1 of three that the settings name by their ids, by default as the active leader."""

    def start(*, leads=True):
        voters = VoterSet(tuple(Voter(ReplicaKey(each), quorum.endpoints(each)) for each in (1, 2, 3)))
        one = node(log=replace(quorum.log(voters=voters), kraft_versions=()))
        return one.lead() if leads else one

    return start


def told(one, voter):
    """The leader's answer to what a voter says of itself."""
    answer = one.reply(UpdateVoterRequest(one.raft.role.epoch, voter))
    return answer.error, answer.message


def upgrade(one, level=1, **more):
    """Ask for a level, and return the machine's answer."""
    one.step(UpgradeProposed("u", one.raft.role.epoch, level, **more))
    return next(each for each in one.actions if isinstance(each, act.Accepted | act.Refused))


def test_an_upgrade_writes_level_and_voters_as_one_batch(static, quorum):
    """The record has directories, endpoints and ranges as the voters have told them, and the leader's own."""
    one = static()
    moved = replace(quorum.voter(2), endpoints=quorum.endpoints(9))
    assert told(one, moved)[0] is ErrorCode.NONE
    assert told(one, quorum.voter(3))[0] is ErrorCode.NONE
    accepted, end = upgrade(one), one.raft.log.end_offset
    (batch,) = one.one(act.Append).batches
    voters = VoterSet((quorum.voter(1), moved, quorum.voter(3)))
    assert batch.control == (KRaftVersion(1), Voters(voters))
    assert accepted == act.Accepted("u", end - 2, end)
    assert (one.raft.log.kraft_version, one.raft.log.voters) == (1, voters)
    assert one.raft._core.stored.data_version == 1


def test_an_upgrade_is_committed_by_the_disks_that_it_names(static, quorum):
    """A fetch from another disk of a voter does not count any more."""
    one = static()
    for node_id in (2, 3):
        told(one, quorum.voter(node_id))
    end = upgrade(one).end_offset
    one.flush()
    one.fetch(quorum.key(2, 1))
    assert one.raft.high_watermark < end
    one.fetch(quorum.key(2))
    assert one.raft.high_watermark == end


def test_voters_change_only_after_the_upgrade_is_committed(static, quorum):
    """Its voters are a change, too."""
    one = static()
    for node_id in (2, 3):
        told(one, quorum.voter(node_id))
    upgrade(one)
    one.flush()
    assert one.reply(RemoveVoterRequest(quorum.key(3))).error is ErrorCode.REQUEST_TIMED_OUT
    one.fetch(quorum.key(2))
    one.get(RemoveVoterRequest(quorum.key(3)))
    assert one.raft.log.voters.ids == {1, 2}


def test_an_upgrade_needs_word_of_every_voter(static, quorum):
    """Only they know their directories; the sentence names those that are missing."""
    one = static()
    told(one, quorum.voter(2))
    refused = upgrade(one)
    assert (refused.error, one.all(act.Append)) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert "[3]" in refused.message
    assert "2000 ms" in refused.message


def test_an_upgrade_needs_a_level_that_every_voter_can_run(static, quorum):
    """A voter that could not read the record would be lost."""
    one = static()
    told(one, quorum.voter(2))
    told(one, replace(quorum.voter(3), kraft_versions=(0, 0)))
    refused = upgrade(one)
    assert refused.error is ErrorCode.INVALID_UPDATE_VERSION
    assert "voters [3] cannot run it" in refused.message


def test_a_voter_that_says_something_new_is_believed(static, quorum):
    """Its software was upgraded, or its disk replaced."""
    one = static()
    told(one, replace(quorum.voter(2), kraft_versions=(0, 0)))
    told(one, quorum.voter(2, 1))
    assert one.raft.role.told == (quorum.voter(2, 1),)


def test_the_words_of_voters_end_with_its_epoch(static, quorum):
    """The next leader asks anew: a disk may have been replaced in between."""
    one = static()
    told(one, quorum.voter(2))
    one.get(BeginQuorumEpochRequest(5, 2, ReplicaKey(1), quorum.endpoints(2)))
    assert not isinstance(one.raft.role, Leader)
    assert told(one, quorum.voter(2))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("level", "words"), [(0, "cannot be lowered from 1 to 0"), (2, "is not known")])
def test_levels_that_cannot_be_reached_are_refused(node, level, words):
    """There is no way back, and nothing above 1."""
    refused = upgrade(node().lead(), level)
    assert refused.error is ErrorCode.INVALID_UPDATE_VERSION
    assert words in refused.message


def test_the_level_that_is_there_appends_nothing(static, quorum, node):
    """The answer says from where on it holds."""
    assert upgrade(node().lead(), 1) == act.Accepted("u", 2, 2)
    one = static()
    assert upgrade(one, 0) == act.Accepted("u", 0, 0)
    for node_id in (2, 3):
        told(one, quorum.voter(node_id))
    start = upgrade(one).base_offset
    assert upgrade(one) == act.Accepted("u", start + 1, start + 1)
    assert one.all(act.Append) == []


def test_an_upgrade_that_is_only_asked_for_appends_nothing(static, quorum):
    """It says whether it could be."""
    one = static()
    assert isinstance(upgrade(one, validate_only=True), act.Refused)
    for node_id in (2, 3):
        told(one, quorum.voter(node_id))
    assert isinstance(upgrade(one, validate_only=True), act.Accepted)
    assert (one.all(act.Append), one.raft.log.kraft_version) == ([], 0)


def test_only_the_active_leader_of_the_epoch_upgrades(static, quorum):
    """Before its epoch has committed a record an older upgrade may be open."""
    one = static(leads=False)
    assert upgrade(one).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.win()
    one.flush()
    assert isinstance(one.raft.role, Leader)
    assert upgrade(one).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.fetch(quorum.key(2))
    one.step(UpgradeProposed("u", one.raft.role.epoch - 1, 1))
    assert one.one(act.Refused).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_upgrade_that_is_cut_off_never_was(static, quorum):
    """The voters are those of the settings again."""
    one = static()
    for node_id in (2, 3):
        told(one, quorum.voter(node_id))
    start = upgrade(one).base_offset
    cut = one.raft.log.truncated(start)
    assert (cut.kraft_version, cut.voters.voter(2).key.directory_id) == (0, ZERO_UUID)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"key": ReplicaKey(9, bytes(15) + b"\1")}, ErrorCode.VOTER_NOT_FOUND),
        ({"key": ReplicaKey(2)}, ErrorCode.INVALID_REQUEST),
        ({"endpoints": ()}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_words_that_make_no_sense_are_refused(static, quorum, changes, error):
    """With Kafka's errors; the leader keeps nothing of them."""
    one = static()
    assert told(one, replace(quorum.voter(2), **changes))[0] is error
    assert one.raft.role.told == ()


def test_word_of_another_epoch_or_cluster_is_refused(static, quorum):
    """As a Fetch would be."""
    one = static()
    epoch = one.raft.role.epoch
    assert one.reply(UpdateVoterRequest(epoch - 1, quorum.voter(2))).error is ErrorCode.FENCED_LEADER_EPOCH
    assert one.reply(UpdateVoterRequest(epoch, quorum.voter(2), "x")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
