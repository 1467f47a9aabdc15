"""Moves of replicas: begun, retargeted, stopped, and ended by an in-sync set."""

import pytest

from stratalog.metadata.controller.alter_partition import Member, Proposal, alter_partitions
from stratalog.metadata.controller.elections import elect_uncleanly
from stratalog.metadata.controller.reassign_partitions import Move, reassign_partitions
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

T0 = TopicPartition("t", 0)


@pytest.fixture
def one(world):
    """The brokers 1 to 4, and a partition on broker 1 alone."""
    one = world()
    one.start(1, 2, 3, 4)
    one.topic("t", (1,))
    return one


def move(one, *replicas, partition=T0, **options):
    """Ask for a move; what is wrong with it."""
    asked = [Move(partition, replicas)]
    return one.do(reassign_partitions(one.view, asked, **options))[0]


def stop(one):
    """Ask for the end of a move."""
    return one.do(reassign_partitions(one.view, [Move(T0, None)]))[0]


def grow(one, *members):
    """The leader asks for an in-sync set, and gets it."""
    state = one.state()
    brokers = one.image.brokers.brokers
    proposal = Proposal(
        PartitionKey(one.image.topics.by_name["t"].topic_id, 0),
        state.leader_epoch,
        state.partition_epoch,
        tuple(Member(member, brokers[member].epoch) for member in members),
    )
    (answer,) = one.do(alter_partitions(one.view, state.leader, brokers[state.leader].epoch, [proposal]))
    return answer.code


def moving(one):
    """Replicas, and those of them that come and go."""
    state = one.state()
    return state.replicas, state.adding_replicas, state.removing_replicas


def test_a_move_runs_until_the_new_replica_is_in_sync(one):
    """The old one leads meanwhile; one record ends the move, and the new one leads."""
    assert move(one, 2) is None
    assert moving(one) == ((2, 1), (2,), (1,))
    assert one.sets() == (1, (1,), ())
    assert grow(one, 1, 2) is ErrorCode.NEW_LEADER_ELECTED
    assert moving(one) == ((2,), (), ())
    assert one.sets() == (2, (2,), ())
    assert one.state().directories == (one.image.brokers.brokers[2].directories[0],)


def test_a_move_that_is_stopped_leaves_what_was_before(one):
    """Also if the new replica is in sync among others."""
    move(one, 2)
    before = one.state().leader_epoch
    assert stop(one) is None
    assert moving(one) == ((1,), (), ())
    assert one.sets() == (1, (1,), ())
    assert one.state().leader_epoch == before + 1
    assert stop(one).code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_another_target_in_the_midst_of_a_move_replaces_the_first(one):
    """The first target's replica goes, at once if it was never in sync; back to the old one ends at once."""
    move(one, 2)
    assert move(one, 3) is None
    assert moving(one) == ((3, 1), (3,), (1,))
    move(one, 3, 4)
    grow(one, 1, 3)
    assert move(one, 2) is None
    assert moving(one) == ((2, 1, 3), (2,), (1, 3))
    assert move(one, 1) is None
    assert moving(one) == ((1,), (), ())


def test_where_a_partition_lies_already_it_stays_without_a_record(one):
    """As in Kafka."""
    epoch = one.state().partition_epoch
    assert move(one, 1) is None
    assert one.state().partition_epoch == epoch


@pytest.mark.parametrize(
    ("replicas", "partition", "options", "code", "sentence"),
    [
        ((), ("u", 0), {}, "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find a topic named u."),
        ((), ("t", 3), {}, "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find partition t:3."),
        (
            (),
            ("t", 0),
            {},
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            (2, 9),
            ("t", 0),
            {"factor_may_change": False},
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            (2, 2),
            ("t", 0),
            {"factor_may_change": False},
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes the broker 2 more than once.",
        ),
        (
            (2, 3),
            ("t", 0),
            {"factor_may_change": False},
            "INVALID_REPLICATION_FACTOR",
            "The replication factor is changed from 1 to 2",
        ),
    ],
)
def test_refusals_come_in_kafkas_order(one, replicas, partition, options, code, sentence):
    """Each case has later faults, too, where it can."""
    failure = move(one, *replicas, partition=TopicPartition(*partition), **options)
    assert (failure.code.name, failure.message) == (code, sentence)
    assert moving(one) == ((1,), (), ())


def test_the_factor_that_may_not_change_is_that_of_the_move_under_way(one):
    """Not the number of replicas meanwhile."""
    move(one, 2)
    assert move(one, 3, factor_may_change=False) is None
    assert move(one, 3, 4, factor_may_change=False).code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_stop_that_would_lose_acknowledged_records_is_refused(world):
    """Only new replicas have the records; an empty set needs an unclean election."""
    one = world(minimum=2)
    one.start(1, 2, 3, 4)
    one.topic("t", (1, 2))
    move(one, 3, 4)
    assert grow(one, 1, 3) is ErrorCode.NONE
    failure = stop(one)
    assert failure.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert failure.message.endswith("too few of its former replicas are in sync for min.insync.replicas: 1.")
    one.beat(1, wants_fence=True)
    assert one.sets() == (3, (3,), ())
    assert stop(one).message.endswith("because it would require an unclean leader election.")
    assert moving(one)[1:] == ((3, 4), (1, 2))


def test_a_stop_that_needs_an_unclean_election_is_made_where_the_topic_allows_it(world):
    """As in Kafka: the old replica leads, and recovers."""
    one = world(unclean=True)
    one.start(1, 2, 3, 4)
    one.topic("t", (1, 2))
    move(one, 3, 4)
    grow(one, 1, 3)
    one.beat(1, wants_fence=True)
    assert stop(one) is None
    assert moving(one) == ((1, 2), (), ())
    assert one.sets() == (2, (2,), ())
    assert one.state().leader_recovery == 1


@pytest.mark.parametrize("elr", [False, True])
def test_a_move_of_a_partition_whose_holders_are_down_elects_no_leader(world, elr):
    """Neither the record that begins it, nor one behind it: the new replica is empty, and the holder of the records comes back."""
    one = world(unclean=True, elr=elr)
    one.start(1, 2, 3)
    one.topic("t", (3,))
    for _ in range(2):
        one.tick(9001, 1, 2)
    assert one.sets()[0] == NO_LEADER
    assert move(one, 2, 3) is None
    assert one.sets()[0] == NO_LEADER
    assert move(one, 1) is None
    one.do(elect_uncleanly(one.view))
    assert (one.sets()[0], moving(one)) == (NO_LEADER, ((1, 3), (1,), (3,)))
    one.beat(3)
    assert (one.sets()[0], one.state().leader_recovery) == (3, 0)


def test_the_record_that_begins_a_move_elects_none_uncleanly(world):
    """Not even a former replica that lives, as in Kafka: a move asks for no election."""
    one = world()
    one.start(1, 2, 3)
    one.topic("t", (1, 2))
    grow(one, 1)
    for _ in range(2):
        one.tick(9001, 2, 3)
    one.unclean = True
    assert move(one, 3) is None
    assert one.sets()[0] == NO_LEADER
    one.do(elect_uncleanly(one.view))
    assert one.sets()[0] == 2


def test_a_partition_that_is_named_twice_is_decided_on_what_the_first_has_made(one):
    """Move, and stop."""
    decision = reassign_partitions(one.view, [Move(T0, (2,)), Move(T0, None), Move(T0, None)])
    assert [each and each.code.name for each in decision.result] == [None, None, "NO_REASSIGNMENT_IN_PROGRESS"]
    one.do(decision)
    assert moving(one) == ((1,), (), ())


def test_more_moves_than_a_batch_holds_are_refused(one):
    """The request is atomic."""
    with pytest.raises(KafkaError) as caught:
        reassign_partitions(one.view, [Move(T0, (1,))] * 10_001)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
