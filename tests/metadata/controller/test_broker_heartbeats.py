"""Sessions of brokers."""

import random

import pytest

from stratalog.metadata.controller.broker_heartbeats import BrokerHeartbeats, Fence, Heartbeat, Tick
from stratalog.metadata.image.partition_index import PartitionIndex
from stratalog.wire.errors import ErrorCode, KafkaError


def test_a_silent_broker_is_fenced_when_its_session_is_over(world):
    """Not before 9 s; one that is heard of meanwhile is not."""
    one = world()
    one.start(1, 2)
    assert one.tick(8999, 2) == ()
    assert one.tick(1) == (1,)
    assert one.tick(8998) == ()
    assert one.tick(1) == (2,)


def test_a_contact_counts_from_its_arrival(world):
    """The heartbeat may wait for its turn as long as it does (KAFKA-13959)."""
    one = world()
    one.start(1)
    one.now_ms += 8000
    one.heartbeats.contacted(1, one.image.brokers.brokers[1].epoch, one.now_ms)
    assert one.tick(8999) == ()
    one.heartbeats.contacted(1, one.image.brokers.brokers[1].epoch - 1, one.now_ms)
    assert one.tick(1) == (1,)


def test_a_new_controller_gives_every_broker_a_full_session(world):
    """It knows nothing of former contacts, and of no registration but that the image holds it."""
    one = world()
    one.start(1)
    one.register(one.registration(2))
    one.tick(8000)
    one.heartbeats = BrokerHeartbeats(9000)
    one.heartbeats.take_over(one.image, one.now_ms)
    assert one.heartbeats.has_session(1, one.image.brokers.brokers[1].epoch, one.now_ms + 8999)
    assert one.tick(8999) == ()
    assert one.tick(1) == (1,)
    assert one.beat(2, metadata_offset=one.image.brokers.brokers[2].epoch - 1).is_fenced
    assert not one.beat(2).is_fenced


def test_several_silent_brokers_are_fenced_together_and_none_of_them_is_elected(world):
    """All leave at once, those silent for longest first, and a bounded number in one turn."""
    one = world()
    one.start(1, 2, 3)
    one.topic("t", (1, 2, 3))
    one.now_ms += 10
    one.beat(1)
    epoch = one.state().leader_epoch
    one.now_ms += 9000
    assert one.heartbeats.step(Tick(2), one.view, one.now_ms) == (Fence(2), Fence(3))
    assert one.tick(0, 3) == (2, 1)
    assert one.sets() == (3, (3,), ())
    assert one.state().leader_epoch == epoch + 1


def test_a_broken_connection_shortens_the_session_and_a_contact_restores_it(world):
    """The session ends after the grace instead of seconds later."""
    one = world()
    one.start(1)
    epoch = one.image.brokers.brokers[1].epoch
    one.heartbeats.connection_lost(1, epoch - 1, one.now_ms, 500)
    one.heartbeats.connection_lost(1, epoch, one.now_ms, 500)
    assert one.tick(499) == ()
    assert one.tick(0, 1) == ()
    assert one.tick(8999) == ()
    one.beat(1)
    one.heartbeats.connection_lost(1, epoch, one.now_ms, 500)
    assert one.tick(500) == (1,)


def test_a_stopping_broker_may_go_when_all_images_show_that_it_leads_no_more(world):
    """Its own and those of all active brokers (KIP-841); fenced ones are not waited for."""
    one = world()
    one.start(1, 2, 3)
    one.topic("t", (1, 2, 3))
    one.beat(3, wants_fence=True)
    begun = one.next_offset
    assert not one.beat(1, wants_shutdown=True).should_shut_down
    last = one.next_offset - 1
    assert last > begun
    assert not one.beat(1, wants_shutdown=True).should_shut_down
    one.beat(2, metadata_offset=last - 1)
    assert not one.beat(1, wants_shutdown=True).should_shut_down
    one.beat(2, metadata_offset=last)
    assert not one.beat(1, wants_shutdown=True, metadata_offset=last - 1).should_shut_down
    answer = one.beat(1, wants_shutdown=True, metadata_offset=last)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)
    end = one.next_offset
    assert one.beat(1, wants_shutdown=True).should_shut_down
    assert one.next_offset == end, "a fenced broker is not fenced again"


def test_a_broker_that_leads_nothing_may_stop_at_once(world):
    """No other broker has to hear of it; it leaves the in-sync sets."""
    one = world()
    one.start(1, 2)
    one.topic("t", (2, 1))
    assert one.beat(1, wants_shutdown=True).should_shut_down
    assert one.sets() == (2, (2,), ())


def test_a_shutdown_goes_on_under_a_new_controller(world):
    """Leaderships that a crash left are moved, and all have to see that."""
    one = world()
    one.start(1, 2)
    one.topic("t", (1, 2))
    one.beat(1, wants_shutdown=True)
    one.heartbeats = BrokerHeartbeats(9000)
    one.heartbeats.take_over(one.image, one.now_ms)
    assert not one.beat(1, wants_shutdown=True).should_shut_down
    assert not one.beat(1, wants_shutdown=True).should_shut_down
    one.beat(2)
    assert one.beat(1, wants_shutdown=True).should_shut_down


def test_another_incarnation_is_not_heard(world):
    """STALE_BROKER_EPOCH, and no session for it."""
    one = world()
    one.start(1)
    with pytest.raises(KafkaError) as caught:
        one.beat(1, broker_epoch=5)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(KafkaError) as caught:
        one.heartbeats.step(Heartbeat(broker_id=9, broker_epoch=1, metadata_offset=1), one.view, 0)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert not one.heartbeats.has_session(1, 5, one.now_ms)
    one.heartbeats.forgotten(1)
    assert not one.heartbeats.has_session(1, one.image.brokers.brokers[1].epoch, one.now_ms)


@pytest.mark.parametrize(("elr", "minimum"), [(False, 1), (True, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_after_any_events_of_brokers_leaders_are_active_and_in_sync(world, seed, elr, minimum):
    """Random heartbeats, silences, restarts and stops: no leader is fenced, and no last copy without loss is given up."""
    dice = random.Random(seed)
    one = world(elr=elr, minimum=minimum)
    brokers = (1, 2, 3)
    one.start(*brokers)
    one.topic("t", (1, 2, 3), (2, 3), (3,))
    for _ in range(250):
        broker = dice.choice(brokers)
        registered = one.image.brokers.brokers[broker]
        match dice.randrange(6):
            case 0:
                one.tick(dice.choice((3000, 9000)), *(other for other in brokers if dice.random() < 0.6))
            case 1:
                one.beat(broker, wants_shutdown=dice.random() < 0.3, wants_fence=dice.random() < 0.2)
            case 2 if registered.is_fenced:
                one.restart(broker, is_clean=dice.random() < 0.7)
            case _:
                one.beat(broker)
        for number in range(3):
            leader, in_sync, eligible = one.sets("t", number)
            assert set(in_sync).isdisjoint(eligible)
            if leader >= 0:
                assert leader in in_sync
                assert one.image.brokers.is_active(leader)
        assert one.index == PartitionIndex.of(one.image)
