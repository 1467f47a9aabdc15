"""In-sync sets that leaders ask for."""

import pytest

from stratalog.metadata.controller.alter_partition import Member, Proposal, alter_partitions
from stratalog.metadata.controller.partition_change import PartitionTarget, partition_change
from stratalog.metadata.controller.reassignment import reassigned
from stratalog.metadata.image.directory_ids import LOST
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topics_image import LeaderRecovery
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import PartitionChangeRecord


@pytest.fixture
def cluster_of_four(world):
    """Brokers 1 to 4; a partition on 1, 2 and 3, led by 1 with leader epoch 5 and partition epoch 7, all but 3 in sync."""
    one = world(minimum=2)
    one.start(1, 2, 3, 4)
    topic_id = one.topic("t", (1, 2, 3))
    one.write([PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1) for _ in range(5)])
    change = {"topic_id": topic_id, "partition_id": 0}
    one.write([PartitionChangeRecord(isr=[1, 2, 3], **change), PartitionChangeRecord(isr=[1, 2], **change)])
    assert (one.state().leader_epoch, one.state().partition_epoch) == (5, 7)
    return one


def key_of(one, number=0):
    return PartitionKey(one.image.topics.by_name["t"].topic_id, number)


def epoch_of(one, broker_id):
    return one.image.brokers.brokers[broker_id].epoch


def proposal(one, *members, leader_epoch=5, partition_epoch=7, recovery=0, key=None):
    """A proposal in which each member has its present broker epoch, unless it comes with another."""
    named = tuple(each if isinstance(each, Member) else Member(each, epoch_of(one, each)) for each in members)
    return Proposal(key or key_of(one), leader_epoch, partition_epoch, named, recovery)


def ask(one, *proposals, broker_id=1):
    decision = alter_partitions(one.view, broker_id, epoch_of(one, broker_id), proposals)
    one.write(decision.records)
    return [answer.code for answer in decision.result]


def test_a_set_is_granted_and_raises_the_partition_epoch_alone(cluster_of_four):
    """The answer tells the state that holds."""
    one = cluster_of_four
    decision = alter_partitions(one.view, 1, epoch_of(one, 1), [proposal(one, 1, 2, 3)])
    one.write(decision.records)
    answer = decision.result[0]
    assert answer.state == one.state()
    assert (answer.code, answer.state.in_sync_replicas) == (ErrorCode.NONE, (1, 2, 3))
    assert (answer.state.leader_epoch, answer.state.partition_epoch) == (5, 8)


def raising(one, above, *, leader_epoch=5, broker_id=1):
    """The code of a wish for a leader epoch, and what the partition has then: leader epoch, partition epoch, set."""
    wish = Proposal(key_of(one), leader_epoch, 0, (), leader_epoch_above=above)
    (code,) = ask(one, wish, broker_id=broker_id)
    state = one.state()
    return code, state.leader_epoch, state.partition_epoch, state.in_sync_replicas


def test_a_leader_has_its_epoch_raised_above_one_that_an_archive_knows(cluster_of_four):
    """Only the leader that the metadata name, only once, and nothing else changes."""
    one = cluster_of_four
    assert raising(one, 40, broker_id=2) == (ErrorCode.INVALID_REQUEST, 5, 7, (1, 2))
    assert raising(one, 40, leader_epoch=6) == (ErrorCode.NOT_CONTROLLER, 5, 7, (1, 2))
    assert raising(one, 2**31 - 1) == (ErrorCode.INVALID_REQUEST, 5, 7, (1, 2))
    assert raising(one, 40) == (ErrorCode.NONE, 41, 8, (1, 2))
    assert raising(one, 40) == (ErrorCode.NONE, 41, 8, (1, 2))
    assert one.state().leader == 1


def test_a_set_that_is_asked_for_beside_a_higher_epoch_is_of_the_epoch_before(cluster_of_four):
    """Both come in one request: the second is decided on what the first has made."""
    one = cluster_of_four
    wish = Proposal(key_of(one), 5, 7, (), leader_epoch_above=40)
    assert ask(one, wish, proposal(one, 1, 2, 3)) == [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH]


def test_a_set_that_holds_already_is_a_success_without_a_record(cluster_of_four):
    """A leader that asks again after a lost answer would ask with the epoch before, and be refused."""
    one = cluster_of_four
    assert ask(one, proposal(one, 1, 2)) == [ErrorCode.NONE]
    assert one.state().partition_epoch == 7


def test_the_present_set_without_any_epoch_raises_the_partition_epoch(cluster_of_four):
    """No copy of an earlier request is granted after that: the leader may stop counting whom it had asked for."""
    one = cluster_of_four
    earlier = proposal(one, 1, 2, 3)
    assert ask(one, proposal(one, Member(1), Member(2))) == [ErrorCode.NONE]
    assert (one.state().partition_epoch, one.state().in_sync_replicas) == (8, (1, 2))
    assert ask(one, earlier) == [ErrorCode.INVALID_UPDATE_VERSION]


def test_refusals_come_in_the_order_of_kafka(cluster_of_four):
    """Each proposal has all faults from one on: the first of them is answered."""
    one = cluster_of_four
    one.beat(3, wants_fence=True)
    stranger, fenced = Member(4, epoch_of(one, 4)), Member(3, epoch_of(one, 3))
    wrong = [
        (1, {"leader_epoch": 6, "partition_epoch": 8}, (2, stranger), ErrorCode.NOT_CONTROLLER),
        (1, {"leader_epoch": 4, "partition_epoch": 8}, (2, stranger), ErrorCode.NOT_CONTROLLER),
        (2, {"leader_epoch": 4, "partition_epoch": 6}, (2, stranger), ErrorCode.FENCED_LEADER_EPOCH),
        (2, {"partition_epoch": 6}, (2, stranger), ErrorCode.INVALID_REQUEST),
        (1, {"partition_epoch": 6}, (2, stranger), ErrorCode.INVALID_UPDATE_VERSION),
        (1, {"recovery": 1}, (1, stranger), ErrorCode.INVALID_REQUEST),
        (1, {}, (1, 2, 2), ErrorCode.INVALID_REQUEST),
        (1, {}, (2, fenced), ErrorCode.INVALID_REQUEST),
        (1, {"recovery": 7}, (1, fenced), ErrorCode.INVALID_REQUEST),
        (1, {"recovery": 1}, (1, fenced), ErrorCode.INVALID_REQUEST),
        (1, {"recovery": 1}, (1,), ErrorCode.INVALID_REQUEST),
        (1, {}, (1, fenced), ErrorCode.INELIGIBLE_REPLICA),
    ]
    for broker_id, fields, members, code in wrong:
        assert ask(one, proposal(one, *members, **fields), broker_id=broker_id) == [code], (fields, members)
    assert one.state().partition_epoch == 7


@pytest.mark.parametrize(
    "what", ["fenced", "stopping", "epoch before", "unknown epoch", "directory offline", "given up"]
)
def test_a_joiner_that_is_not_what_the_leader_takes_it_for_is_refused(cluster_of_four, what):
    """It may have restarted without its data since it fetched: INELIGIBLE_REPLICA (KIP-841, KIP-903)."""
    one = cluster_of_four
    members = {"epoch before": Member(3, epoch_of(one, 3) - 1), "unknown epoch": Member(3)}
    if what == "fenced":
        one.beat(3, wants_fence=True)
    if what == "stopping":
        one.topic("u", (3, 1))
        one.beat(3, wants_shutdown=True)
    if what in {"directory offline", "given up"}:
        places = [*one.state().directories[:2], LOST if what == "given up" else b"o" * 16]
        change = PartitionChangeRecord(topic_id=key_of(one).topic_id, partition_id=0, directories=places, isr=[1, 2])
        one.write([change])
    epoch = one.state().partition_epoch
    wanted = proposal(one, 1, 2, members.get(what, 3), partition_epoch=epoch)
    assert ask(one, wanted) == [ErrorCode.INELIGIBLE_REPLICA]


def test_a_member_in_sync_needs_no_known_epoch(cluster_of_four):
    """A leader that has just begun knows none; a request without epochs (below version 3) can only shrink a set."""
    one = cluster_of_four
    assert ask(one, proposal(one, Member(1))) == [ErrorCode.NONE]
    assert one.state().in_sync_replicas == (1,)


def test_a_repeated_request_undoes_no_newer_set(cluster_of_four):
    """Delayed, or twice in one request: the partition epoch is behind."""
    one = cluster_of_four
    first = proposal(one, 1)
    assert ask(one, first, proposal(one, 1, 2, 3)) == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert ask(one, proposal(one, 1, 2, partition_epoch=8)) == [ErrorCode.NONE]
    assert ask(one, first) == [ErrorCode.INVALID_UPDATE_VERSION]
    assert one.state().in_sync_replicas == (1, 2)


def test_a_recovering_leader_reports_its_end_alone(cluster_of_four):
    """RECOVERING with more members is refused, and RECOVERED may come with joiners."""
    one = cluster_of_four
    recovering = int(LeaderRecovery.RECOVERING)
    one.write([PartitionChangeRecord(topic_id=key_of(one).topic_id, partition_id=0, isr=[1], leader_recovery_state=1)])
    assert ask(one, proposal(one, 1, 2, partition_epoch=8, recovery=recovering)) == [ErrorCode.INVALID_REQUEST]
    assert ask(one, proposal(one, 1, partition_epoch=8, recovery=recovering)) == [ErrorCode.NONE]
    assert ask(one, proposal(one, 1, 2, partition_epoch=8)) == [ErrorCode.NONE]
    assert one.state().leader_recovery is LeaderRecovery.RECOVERED


def test_unknown_topics_and_partitions_have_their_codes(cluster_of_four):
    """The others of the request are answered all the same."""
    one = cluster_of_four
    no_topic, no_partition = PartitionKey(b"?" * 16, 0), key_of(one, 9)
    asked = [proposal(one, 1, key=no_topic), proposal(one, 1, key=no_partition), proposal(one, 1, 2, 3)]
    assert ask(one, *asked) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]


def test_another_incarnation_of_the_leader_is_refused_as_a_whole(cluster_of_four):
    """STALE_BROKER_EPOCH at the top."""
    one = cluster_of_four
    with pytest.raises(KafkaError) as caught:
        alter_partitions(one.view, 1, epoch_of(one, 1) - 1, [proposal(one, 1)])
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_set_that_ends_a_reassignment_may_give_the_leadership_away(cluster_of_four):
    """{1,2,3} to {4,2}: the record is written, and the former leader hears NEW_LEADER_ELECTED."""
    one = cluster_of_four
    target = PartitionTarget(assignment=reassigned((1, 2, 3), (4, 2)))
    one.write([partition_change(key_of(one).topic_id, 0, one.state(), target, one.view.rules()("t"))])
    assert ask(one, proposal(one, 1, 2, 4, partition_epoch=8)) == [ErrorCode.NEW_LEADER_ELECTED]
    state = one.state()
    assert (state.replicas, state.in_sync_replicas, state.leader, state.leader_epoch) == ((4, 2), (2, 4), 4, 6)
