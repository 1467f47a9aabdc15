"""In-sync sets on their way to the active controller and back."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from stratalog.broker.peers.peer_errors import Peer, PeerTimeout
from stratalog.broker.replication.in_sync_asking import InSyncAsks
from stratalog.hot.replica_state import ReplicaState
from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.metadata.image.directory_ids import LOST
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_partition import (
    AlterPartitionPartitionResult,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)
from stratalog.wire.topic import TopicPartition
from tests.broker.replication.stand_ins import TOPIC_ID, turns


class Leader:
    """The leadership of t-0 in epoch 3, with follower 2 at its end."""

    def __init__(self):
        self.key, self.epoch, self.ended = PartitionKey(TOPIC_ID, 0), 3, None
        self.topic_partition = TopicPartition("t", 0)
        self.state = ReplicaState(
            1,
            replicas=(1, 2),
            in_sync=(1,),
            leader_epoch=3,
            epoch_start_offset=0,
            leader_end_offset=5,
            partition_epoch=8,
            local_broker_epoch=70,
        )
        self.state.follower_fetched(2, 5, leader_log_end_offset=5, now_ms=0, broker_epoch=71)
        self.refused = []

    def in_sync_refused(self, change, code):
        self.refused.append((change.broker_ids, code.name))
        self.state.isr_change_refused(change, code)

    def in_sync_passed_over(self, change):
        self.state.retraction_passed_over(change)


class Channel:
    """The way to the active controller."""

    def __init__(self):
        self.asked = []
        self.elsewhere = []

    def ask(self, request, *, timeout_ms):
        future = asyncio.get_running_loop().create_future()
        self.asked.append((request, future))
        return future

    def not_controller(self, epoch):
        self.elsewhere.append(epoch)


@pytest.fixture
def channel():
    """No controller has answered yet."""
    return Channel()


@pytest.fixture
async def asks(channel):
    """The asks of broker 1 under epoch 70."""
    brokers = {
        2: BrokerImage(2, 71, b"x" * 16, {}, is_fenced=False, directories=(b"d" * 16,)),
        3: BrokerImage(3, 72, b"y" * 16, {}, is_fenced=True),
    }
    places = [b"a" * 16, b"d" * 16], [b"a" * 16, b"gone".ljust(16)], [b"a" * 16, LOST]
    partitions = {n: PartitionImage((1, 2), (1,), 1, directories=tuple(each)) for n, each in enumerate(places)}
    topics = SimpleNamespace(by_id={TOPIC_ID: SimpleNamespace(partitions=partitions)})
    made = InSyncAsks(
        channel,
        node_id=1,
        broker_epoch=lambda: 70,
        leader_epoch=lambda: 4,
        image=lambda: SimpleNamespace(brokers=SimpleNamespace(brokers=brokers), topics=topics),
        monotonic=time.monotonic,
        draw=lambda: 0.0,
    )
    yield made
    made.close()


def answer(code=ErrorCode.NONE, whole=ErrorCode.NONE, partition_epoch=9):
    one = AlterPartitionPartitionResult(
        partition_index=0, error_code=code, leader_id=1, leader_epoch=3, isr=[1, 2], partition_epoch=partition_epoch
    )
    topics = [] if whole else [AlterPartitionTopicResult(topic_id=TOPIC_ID, partitions=[one])]
    return AlterPartitionResponse(error_code=whole, topics=topics)


async def test_a_request_names_epochs_of_all_kinds(asks, channel):
    """Those of the broker, the leader, the partition and each member; older versions lack the last."""
    leader = Leader()
    asks.ask(leader, leader.state.expansion(2))
    (request, _) = channel.asked[0]
    (partition,) = request.topics[0].partitions
    assert (request.broker_id, request.broker_epoch, request.topics[0].topic_id) == (1, 70, TOPIC_ID)
    assert (partition.leader_epoch, partition.partition_epoch, partition.new_isr) == (3, 8, [1, 2])
    assert [(one.broker_id, one.broker_epoch) for one in partition.new_isr_with_epochs] == [(1, 70), (2, 71)]


@pytest.mark.parametrize("whole", [ErrorCode.NOT_CONTROLLER, None])
async def test_another_copy_is_counted(asks, channel, whole):
    """After a controller that is none, and after silence: a refusal ends the change no more, the present set does."""
    leader = Leader()
    change = leader.state.expansion(2)
    asks.ask(leader, change)
    if whole is None:
        channel.asked[0][1].set_exception(PeerTimeout(Peer(9, "h", 1), "silent"))
    else:
        channel.asked[0][1].set_result(answer(whole=whole))
    while len(channel.asked) < 2:
        await turns()
    assert channel.elsewhere == ([] if whole is None else [4])
    channel.asked[1][1].set_result(answer(ErrorCode.INELIGIBLE_REPLICA))
    await turns()
    assert leader.refused == [((1, 2), "INELIGIBLE_REPLICA")]
    assert leader.state.pending is change
    asks.ask(leader, leader.state.retraction)
    (partition,) = channel.asked[2][0].topics[0].partitions
    assert [(one.broker_id, one.broker_epoch) for one in partition.new_isr_with_epochs] == [(1, -1)]


@pytest.mark.parametrize(("partition_epoch", "is_over"), [(8, True), (9, False)])
async def test_a_controller_that_raises_no_partition_epoch_ends_a_refused_change(
    asks, channel, partition_epoch, is_over
):
    """Kafka's write no record for a set that holds already. The member that was refused would hold the mark for ever."""
    leader = Leader()
    change = leader.state.expansion(2)
    asks.ask(leader, change)
    channel.asked[0][1].set_exception(PeerTimeout(Peer(9, "h", 1), "silent"))
    while len(channel.asked) < 2:
        await turns()
    channel.asked[1][1].set_result(answer(ErrorCode.INELIGIBLE_REPLICA))
    await turns()
    leader.state.leader_advanced(7)
    asks.ask(leader, leader.state.retraction)
    channel.asked[2][1].set_result(answer(partition_epoch=partition_epoch))
    await turns()
    assert (leader.state.pending is None, leader.state.high_watermark) == (is_over, 7 if is_over else 5)
    assert (leader.state.retraction is None) == is_over


async def test_an_error_that_only_a_newer_controller_has_is_asked_again(asks, channel):
    """No set of this broker would change any more if it was taken for no answer at all."""
    leader = Leader()
    asks.ask(leader, leader.state.expansion(2))
    channel.asked[0][1].set_result(answer(9999))
    while len(channel.asked) < 2:
        await turns()
    channel.asked[1][1].set_result(answer(ErrorCode.INELIGIBLE_REPLICA))
    await turns()
    assert leader.refused == [((1, 2), "INELIGIBLE_REPLICA")]


async def test_a_leader_with_nothing_to_ask_is_kept_no_longer(asks, channel):
    """It holds its log, also that of a topic that is deleted."""
    leader = Leader()
    asks.ask(leader, leader.state.expansion(2))
    assert list(asks._leaders.values()) == [leader]
    channel.asked[0][1].set_result(answer())
    await turns()
    assert (asks._leaders, asks._sent) == ({}, {})


async def test_a_change_without_a_waiting_leader_is_not_sent(asks, channel):
    """The leadership has ended, or the metadata has another set; the next wish is sent all the same."""
    leader, other = Leader(), Leader()
    asks.ask(leader, leader.state.expansion(2))
    other.ended = RuntimeError("over")
    asks.ask(other, other.state.expansion(2))
    channel.asked[0][1].set_result(answer())
    await turns()
    assert len(channel.asked) == 1
    newest = Leader()
    asks.ask(newest, newest.state.expansion(2))
    await turns()
    assert len(channel.asked) == 2


def test_a_broker_joins_under_its_present_registration(asks):
    """A broker under its present registration that is neither fenced nor stopping; an epoch that was not told passes."""
    key = PartitionKey(TOPIC_ID, 0)
    assert [asks.may_join(key, *one) for one in [(2, 71), (2, -1), (2, 70), (3, 72), (4, 1)]] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_replica_joins_where_its_directory_is_online(asks):
    """It has just left the set because its directory has failed, or is damaged, and its last fetch was at the end."""
    assert [asks.may_join(PartitionKey(TOPIC_ID, number), 2, 71) for number in (0, 1, 2, 3)] == [
        True,
        False,
        False,
        False,
    ]
    assert not asks.may_join(PartitionKey(b"?" * 16, 0), 2, 71)


def test_changes_of_sets_are_counted(asks):
    """By whether they have grown."""
    for before, after in [(1, 2), (3, 2), (2, 3)]:
        asks.changed(before, after)
    assert (asks.expansions, asks.shrinkings) == (2, 1)
