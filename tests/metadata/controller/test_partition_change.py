"""The change of one partition: its leader, the sets, the epochs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.controller.partition_change import (
    Election,
    PartitionRules,
    PartitionTarget,
    partition_change,
)
from stratalog.metadata.controller.reassignment import Assignment, reassigned
from stratalog.metadata.image.directory_ids import UNASSIGNED
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery, PartitionImage

_ID = b"t" * 16


def rules_of(*, dead=(), stopping=(), unclean=False, preferred=False, asked=False, minimum=1, elr=False, level=30):
    """The rules where all brokers but ``dead`` live, and all of those but ``stopping`` may lead."""
    election = Election.PREFERRED if preferred else Election.UNCLEAN if unclean else Election.ONLINE
    election = Election.ANY if asked else election
    return PartitionRules(
        is_acceptable=lambda broker, _: broker not in {*dead, *stopping},
        lives=lambda broker, _: broker not in dead,
        default_directory=lambda broker: bytes([broker]) * 16,
        level=level,
        min_in_sync_replicas=minimum,
        election=election,
        has_eligible=elr,
    )


def after(image, rules, **target):
    """The partition after its change to ``target``."""
    record = partition_change(_ID, 0, image, PartitionTarget(**target), rules)
    return image if record is None else image.changed(record)


def state_of(image):
    return image.leader, image.in_sync_replicas, image.eligible_leader_replicas


@pytest.mark.parametrize(
    ("in_sync", "dead", "unclean", "leader"),
    [
        ((3, 2), {1}, False, 2),
        ((3,), {1}, False, 3),
        ((2,), {1, 2}, False, NO_LEADER),
        ((2,), {1, 2}, True, 3),
        ((1, 2, 3), set(), False, 1),
        ((3, 2, 1), {1, 2, 3}, True, NO_LEADER),
    ],
)
def test_the_leader_is_the_first_replica_alive_and_in_sync(in_sync, dead, unclean, leader):
    """Replicas [1,2,3]: in sync {3,2} gives 2, {3} gives 3; with none alive there, none, or an unclean one."""
    image = PartitionImage((1, 2, 3), in_sync)
    found = after(image, rules_of(dead=dead, unclean=unclean))
    assert found.leader == leader
    is_unclean = unclean and leader == 3
    assert found.leader_recovery is (LeaderRecovery.RECOVERING if is_unclean else LeaderRecovery.RECOVERED)


def test_a_leader_that_is_fine_stays_and_nothing_is_written():
    """No record without a change, also if another replica stands before the leader."""
    image = PartitionImage((2, 1), (1, 2), leader=1)
    assert partition_change(_ID, 0, image, PartitionTarget(), rules_of()) is None


def test_a_preferred_election_moves_the_leadership_only_to_a_replica_in_sync():
    """The first replica leads if it is in sync; otherwise the present leader stays."""
    assert after(PartitionImage((2, 1), (1, 2), leader=1), rules_of(preferred=True)).leader == 2
    assert after(PartitionImage((2, 1), (1,), leader=1), rules_of(preferred=True)).leader == 1
    assert after(PartitionImage((3, 2, 1), (1, 2), leader=1), rules_of(preferred=True)).leader == 1


def test_raising_the_epoch_names_the_same_leader_again():
    """A record with a leader raises the leader epoch, also when the leader stays."""
    image = PartitionImage((1, 2), (1, 2), leader=1, leader_epoch=4, partition_epoch=7)
    found = after(image, rules_of(), raises_leader_epoch=True)
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (1, 5, 8)
    assert found.in_sync_replicas == (1, 2)


@pytest.mark.parametrize(("level", "leader_epoch"), [(30, 4), (12, 4), (11, 5)])
def test_a_smaller_set_raises_the_partition_epoch_and_below_level_12_the_leader_epoch(level, leader_epoch):
    """Since 3.6 followers need no new leader epoch to notice (KAFKA-15021)."""
    image = PartitionImage((1, 2), (1, 2), leader=1, leader_epoch=4, partition_epoch=7)
    found = after(image, rules_of(level=level), in_sync_replicas=(1,))
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (1, leader_epoch, 8)


def test_a_larger_set_raises_the_partition_epoch_alone():
    """A joiner changes nothing for those that follow already, at any level."""
    image = PartitionImage((1, 2), (1,), leader=1, leader_epoch=4, partition_epoch=7)
    found = after(image, rules_of(level=7), in_sync_replicas=(1, 2))
    assert (found.leader_epoch, found.partition_epoch, found.in_sync_replicas) == (4, 8, (1, 2))


def test_without_eligible_replicas_the_last_member_stays_in_the_set():
    """The last member dies: the partition has no leader, but the membership is remembered."""
    image = PartitionImage((1, 2), (1,), leader=1)
    assert state_of(after(image, rules_of(dead={1}), in_sync_replicas=())) == (NO_LEADER, (1,), ())


def test_a_last_member_that_may_have_lost_data_leaves_the_set_of_several_replicas():
    """It may lack what was acknowledged; where it is the only replica there is no other to ask, and it stays."""
    rules = rules_of(dead={1})
    assert state_of(after(PartitionImage((1, 2), (1,), leader=1), rules, lost=frozenset({1}))) == (NO_LEADER, (), ())
    assert state_of(after(PartitionImage((1,), (1,), leader=1), rules, lost=frozenset({1}))) == (NO_LEADER, (1,), ())


def test_an_unclean_leader_is_alone_in_sync_and_recovers_over_further_elections():
    """The mark stays until a leader reports the end of its recovery."""
    found = after(PartitionImage((1, 2), (1,), leader=1), rules_of(dead={1}, unclean=True), in_sync_replicas=())
    assert state_of(found) == (2, (2,), ())
    assert found.leader_recovery is LeaderRecovery.RECOVERING
    found = after(found, rules_of(dead={2}), in_sync_replicas=())
    found = after(found, rules_of())
    assert (found.leader, found.leader_recovery) == (2, LeaderRecovery.RECOVERING)
    found = after(found, rules_of(), leader_recovery=LeaderRecovery.RECOVERED)
    assert found.leader_recovery is LeaderRecovery.RECOVERED


@pytest.mark.parametrize("elr", [False, True])
def test_no_unclean_leader_is_elected_while_a_member_lives(elr):
    """The last member stops, but runs: readers may still see its records, and it may come back with all of them."""
    image = PartitionImage((1, 2), (1,), leader=1)
    found = after(image, rules_of(stopping={1}, unclean=True, elr=elr), in_sync_replicas=())
    assert found.leader == NO_LEADER
    assert after(found, rules_of(dead={1}, unclean=True, elr=elr)).leader == 2


# -- eligible leader replicas -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("elr", [False, True])
def test_a_replica_that_is_being_added_is_elected_on_request_alone_and_last(elr):
    """It was never in sync: who lags has more, and who was there before and is down may come back."""
    image = PartitionImage((3, 4, 1, 2), (1,), adding_replicas=(3, 4), removing_replicas=(1, 2))
    assert after(image, rules_of(dead={1}, unclean=True, elr=elr)).leader == 2
    assert after(image, rules_of(dead={1, 2}, unclean=True, elr=elr)).leader == NO_LEADER
    assert after(image, rules_of(dead={1}, asked=True, elr=elr)).leader == 2
    found = after(image, rules_of(dead={1, 2}, asked=True, elr=elr))
    assert (*state_of(found), found.leader_recovery) == (3, (3,), (), LeaderRecovery.RECOVERING)


def test_members_that_leave_below_the_minimum_become_eligible():
    """Minimum 2: {1,2,3} to {1,2} makes none eligible, to {1} makes 2 eligible, to {} both, without a leader."""
    image = PartitionImage((1, 2, 3), (1, 2, 3), leader=1)
    rules = rules_of(minimum=2, elr=True)
    image = after(image, rules, in_sync_replicas=(1, 2))
    assert state_of(image) == (1, (1, 2), ())
    image = after(image, rules, in_sync_replicas=(1,))
    assert state_of(image) == (1, (1,), (2,))
    image = after(image, rules_of(minimum=2, elr=True, dead={1, 2}), in_sync_replicas=())
    assert state_of(image) == (NO_LEADER, (), (1, 2))
    assert image.last_known_eligible == (1,)


def test_an_eligible_replica_leads_alone_and_the_others_stay_eligible():
    """The set is the new leader; its predecessor has everything, too. The last known leader is forgotten."""
    image = PartitionImage((1, 2, 3), (), eligible_leader_replicas=(1, 2), last_known_eligible=(1,))
    found = after(image, rules_of(minimum=2, elr=True, dead={1}))
    assert (*state_of(found), found.last_known_eligible) == (2, (2,), (1,), ())
    assert found.leader_recovery is LeaderRecovery.RECOVERED


def test_an_eligible_replica_leads_if_the_members_left_cannot():
    """Member 1 lives on no disk that is there; 2 has everything acknowledged. Kafka would wait for 1."""
    image = PartitionImage((1, 2, 3), (1,), leader=1, eligible_leader_replicas=(2,))
    assert state_of(after(image, rules_of(minimum=2, elr=True, dead={1}))) == (2, (2,), (1,))


def test_enough_members_in_sync_end_the_eligibility():
    """Records that are acknowledged from then on may be missing on replicas that are not in sync."""
    image = PartitionImage((1, 2, 3), (1,), leader=1, eligible_leader_replicas=(2, 3))
    found = after(image, rules_of(minimum=2, elr=True), in_sync_replicas=(1, 3))
    assert state_of(found) == (1, (1, 3), ())


def test_the_minimum_is_at_most_the_number_of_replicas():
    """Two replicas under a minimum of 3: both in sync are enough."""
    image = PartitionImage((1, 2), (1,), leader=1, eligible_leader_replicas=(2,))
    assert state_of(after(image, rules_of(minimum=3, elr=True), in_sync_replicas=(1, 2))) == (1, (1, 2), ())


def test_a_replica_that_may_have_lost_data_is_neither_in_sync_nor_eligible():
    """As the last member it leaves an empty set behind, and is remembered as the last leader only.

    The only replica stays: no other has more, and it leads again without a recovery. In Kafka it is the last known leader.
    """
    rules = rules_of(minimum=2, elr=True, dead={1})
    found = after(PartitionImage((1, 2), (1,), leader=1, eligible_leader_replicas=(2,)), rules, lost=frozenset({1}))
    assert state_of(found) == (2, (2,), ())
    found = after(PartitionImage((1, 2), (1,), leader=1), rules, lost=frozenset({1}))
    assert (*state_of(found), found.last_known_eligible) == (NO_LEADER, (), (), (1,))
    found = after(PartitionImage((1,), (1,), leader=1), rules, lost=frozenset({1}))
    assert state_of(found) == (NO_LEADER, (), (1,))
    assert state_of(after(found, rules, lost=frozenset({1}))) == (NO_LEADER, (), (1,))
    found = after(found, rules_of(minimum=2, elr=True))
    assert (*state_of(found), found.leader_recovery) == (1, (1,), (), LeaderRecovery.RECOVERED)


def test_the_last_known_leader_leads_again_and_recovers_if_none_has_everything():
    """Without an unclean election: both sets are empty, and it is the one that had most. An eligible one comes first."""
    image = PartitionImage((1, 2), (), last_known_eligible=(2,))
    found = after(image, rules_of(minimum=2, elr=True))
    assert (*state_of(found), found.last_known_eligible) == (2, (2,), (), ())
    assert found.leader_recovery is LeaderRecovery.RECOVERING
    waiting = PartitionImage((1, 2), (), last_known_eligible=(2,), eligible_leader_replicas=(1,))
    assert after(waiting, rules_of(minimum=2, elr=True, dead={1})).leader == NO_LEADER
    assert after(image, rules_of(minimum=2, elr=True, dead={2})).leader == NO_LEADER


def test_eligible_replicas_are_forgotten_where_the_cluster_keeps_none():
    """A level that was taken back leaves nothing that a later one would believe."""
    image = PartitionImage((1, 2), (1,), leader=1, eligible_leader_replicas=(2,), last_known_eligible=(2,))
    found = after(image, rules_of())
    assert (found.eligible_leader_replicas, found.last_known_eligible) == ((), ())


def test_an_empty_set_outlives_the_level_with_those_that_may_still_lead():
    """The level was taken back while no replica was up: nothing was acknowledged since, and 2 has everything.

    Behind a leader of that later time it would not: 1 may have gone on alone under a lower minimum before it lost its disk.
    """
    image = PartitionImage((1, 2, 3), (), eligible_leader_replicas=(1, 2), last_known_eligible=(1,))
    assert state_of(after(image, rules_of(minimum=2, dead={1, 2}))) == (NO_LEADER, (), (1, 2))
    assert state_of(after(image, rules_of(minimum=2, dead={1}))) == (2, (2,), ())
    assert state_of(after(image, rules_of(minimum=2, dead={1, 2}), lost=frozenset({1}))) == (NO_LEADER, (), (2,))
    stale = PartitionImage((1, 2, 3), (1,), leader=1, eligible_leader_replicas=(2,))
    assert state_of(after(stale, rules_of(dead={1}), lost=frozenset({1}))) == (NO_LEADER, (), ())


# -- assignments and directories --------------------------------------------------------------------------------------


def test_a_reassignment_ends_with_the_joiner_and_a_replica_that_goes_raises_the_leader_epoch():
    """{1,2} to {1,3}: the record that has 3 in sync drops 2 everywhere."""
    image = PartitionImage((1, 2), (1, 2), leader=1, directories=(b"1" * 16, b"2" * 16))
    image = after(image, rules_of(minimum=2), assignment=reassigned((1, 2), (1, 3)))
    assert (image.replicas, image.adding_replicas, image.removing_replicas) == ((1, 3, 2), (3,), (2,))
    assert (image.leader_epoch, image.directories) == (0, (b"1" * 16, b"\x03" * 16, b"2" * 16))
    image = after(image, rules_of(minimum=2), in_sync_replicas=(1, 2, 3))
    assert (image.replicas, image.adding_replicas, image.removing_replicas) == ((1, 3), (), ())
    assert (image.in_sync_replicas, image.leader, image.leader_epoch) == ((1, 3), 1, 1)
    assert image.directories == (b"1" * 16, b"\x03" * 16)


def test_a_replica_that_goes_leaves_the_eligible_ones_in_the_same_record():
    """A replica that is assigned nothing may delete its copy."""
    image = PartitionImage((1, 2, 3), (1,), leader=1, eligible_leader_replicas=(2, 3))
    found = after(image, rules_of(minimum=2, elr=True), assignment=Assignment((1, 2)))
    assert (found.replicas, found.eligible_leader_replicas) == ((1, 2), (2,))
    gone = PartitionImage((1, 2), (), last_known_eligible=(3,))
    found = after(gone, rules_of(minimum=2, elr=True))
    assert (found.leader, found.last_known_eligible) == (NO_LEADER, ())  # assigned anew it would be an empty one


def test_a_directory_is_written_from_level_17_on():
    """Below it the record has no place for it."""
    image = PartitionImage((1, 2), (1, 2), leader=1, directories=(UNASSIGNED, UNASSIGNED))
    assert after(image, rules_of(), directories={2: b"d" * 16}).directories == (UNASSIGNED, b"d" * 16)
    assert after(image, rules_of(level=16), directories={2: b"d" * 16}) is image


# -- whatever happens -------------------------------------------------------------------------------------------------

_BROKERS = (1, 2, 3, 4)


@st.composite
def _partitions(draw, *, elr, minimum):
    """Partitions as they can be: replicas are eligible only below the minimum, another minimum forgets them (`min_in_sync`)."""
    replicas = tuple(draw(st.permutations(_BROKERS))[: draw(st.integers(1, 4))])
    in_sync = tuple(one for one in replicas if draw(st.booleans()))
    is_below = elr and len(in_sync) < min(minimum, len(replicas))
    eligible = tuple(one for one in replicas if one not in in_sync and draw(st.booleans())) if is_below else ()
    if not elr and not in_sync:
        in_sync = replicas[:1]
    leader = draw(st.sampled_from([NO_LEADER, *in_sync]))
    known = (draw(st.sampled_from(_BROKERS)),) if elr and leader == NO_LEADER and draw(st.booleans()) else ()
    return PartitionImage(replicas, in_sync, leader, 3, 5, eligible_leader_replicas=eligible, last_known_eligible=known)


@given(st.data(), st.booleans(), st.booleans())
def test_the_sets_and_epochs_hold_together_whatever_happens(data, elr, unclean):
    """A leader is assigned, acceptable and in sync; sets are apart and assigned; epochs follow the fields."""
    minimum = data.draw(st.integers(1, 3))
    image = data.draw(_partitions(elr=elr, minimum=minimum))
    brokers = st.frozensets(st.sampled_from(_BROKERS))
    dead, lost = data.draw(brokers), data.draw(brokers)
    wanted = tuple(one for one in image.replicas if data.draw(st.booleans()))
    target = PartitionTarget(in_sync_replicas=data.draw(st.sampled_from([None, wanted])), lost=lost)
    rules = rules_of(dead=dead | lost, unclean=unclean, minimum=minimum, elr=elr)
    record = partition_change(_ID, 0, image, target, rules)
    if record is None:
        return
    found = image.changed(record)
    members, eligible = set(found.in_sync_replicas), set(found.eligible_leader_replicas)
    assert members.isdisjoint(eligible)
    assert members | eligible <= set(found.replicas)
    assert not lost & (members | eligible) or len(found.replicas) == 1
    assert found.partition_epoch == 6
    assert (found.leader_epoch == 4) == (record.leader != -2)
    if found.leader != NO_LEADER:
        assert found.leader in members
        assert found.leader not in dead | lost
        was_member = found.leader in {*image.in_sync_replicas, *image.eligible_leader_replicas, *wanted}
        assert was_member or found.leader_recovery is LeaderRecovery.RECOVERING
    elif not lost and target.in_sync_replicas is None:
        before = {*image.in_sync_replicas, *image.eligible_leader_replicas}
        assert before <= dead
        assert members | eligible >= before or not elr or len(image.in_sync_replicas) >= minimum
