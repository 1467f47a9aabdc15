"""Sessions of brokers at a controller that takes turns, in virtual time."""

import asyncio
import logging
import random

import pytest
from msgspec.structs import replace

from stratalog.metadata.controller import broker_changes, cluster_view
from stratalog.metadata.controller.controller import forgetting_broker
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import NoOpRecord
from tests.broker.memory_controller import SESSION_MS

CHECK_MS = SESSION_MS // 8


@pytest.fixture
def one(memory_controller):
    """An active controller of the brokers 1 and 2, which are active, too."""
    one = memory_controller()
    one.start(1, 2)
    return one


def code_of(one, work):
    """The error of a coroutine."""
    with pytest.raises(KafkaError) as caught:
        one.run(work)
    return caught.value.code


def test_a_silent_broker_is_fenced_within_a_check_of_the_end_of_its_session(one):
    """The timer does it, without a request."""
    one.pass_ms(SESSION_MS - 1)
    assert one.active() == [1, 2]
    one.beat(2)
    one.pass_ms(CHECK_MS + 1)
    assert one.active() == [2]


def test_a_controller_that_is_not_active_fences_none_and_refuses_heartbeats(one):
    """Another one hears the brokers."""
    one.resign()
    one.pass_ms(10 * SESSION_MS)
    assert one.active() == [1, 2]
    with pytest.raises(KafkaError) as caught:
        one.beat(1)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("resigns", [True, False], ids=["it resigned between", "it was elected again at once"])
def test_a_controller_that_becomes_active_gives_full_sessions(one, resigns):
    """It knows nothing of contacts with others."""
    one.pass_ms(SESSION_MS - 10)
    if resigns:
        one.resign()
        one.pass_ms(5 * SESSION_MS)
    one.become_active(epoch=2)
    one.pass_ms(SESSION_MS - 10)
    assert one.active() == [1, 2]
    one.pass_ms(CHECK_MS + 10)
    assert one.active() == []


def test_the_same_leadership_told_twice_renews_no_session(one):
    """The quorum tells of other changes, too."""
    one.pass_ms(SESSION_MS - 10)
    one.become_active(epoch=1)
    one.pass_ms(CHECK_MS + 10)
    assert one.active() == []


def test_a_contact_counts_when_it_arrives_though_its_heartbeat_waits(one):
    """A full queue of commands fences none of them."""
    one.pass_ms(SESSION_MS - 10)
    one.log.open.clear()

    async def turns():
        blocking = asyncio.ensure_future(one.control.write((NoOpRecord(),)))
        beats = [asyncio.ensure_future(one.beating(broker_id)) for broker_id in (1, 2)]
        await asyncio.sleep(0.5)
        one.log.open.set()
        await asyncio.gather(blocking, *beats)

    one.run(turns())
    one.pass_ms(2 * CHECK_MS)
    assert one.active() == [1, 2]


def test_a_heartbeat_without_a_turn_in_time_is_refused_and_counts_as_a_contact(one):
    """Kafka's controllers wait for half a heartbeat interval. A command that has begun is carried to its end."""
    one.log.open.clear()

    async def turns():
        blocking = asyncio.ensure_future(one.control.write((NoOpRecord(),)))
        late = asyncio.ensure_future(one.beating(1, wants_fence=True))
        await asyncio.sleep(1.5)
        one.log.open.set()
        await blocking
        return await asyncio.gather(late, return_exceptions=True)

    (error,) = one.run(turns())
    assert (error.code, one.sessions.timed_out_count) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert one.active() == [1, 2]

    async def slow():
        one.log.open.clear()
        begun = asyncio.ensure_future(one.beating(1, wants_fence=True))
        await asyncio.sleep(1.5)
        one.log.open.set()
        return await begun

    assert one.run(slow()).is_fenced
    assert (one.active(), one.sessions.timed_out_count) == ([2], 1)


def test_a_client_that_goes_away_takes_its_heartbeat_along(one):
    """No turn is left that waits."""
    one.log.open.clear()

    async def turns():
        blocking = asyncio.ensure_future(one.control.write((NoOpRecord(),)))
        late = asyncio.ensure_future(one.beating(1, wants_fence=True))
        await asyncio.sleep(0.1)
        late.cancel()
        await asyncio.sleep(0)
        one.log.open.set()
        await blocking
        await asyncio.sleep(1)

    one.run(turns())
    assert one.active() == [1, 2]


def test_a_process_that_stood_still_reads_what_came_before_it_fences(one):
    """The machine was paused: the brokers' heartbeats lie in its sockets."""
    one.pass_ms(100)
    one.loop.pass_time(60)
    one.pass_ms(1)
    assert one.active() == [1, 2]
    one.beat(1)
    one.pass_ms(2 * CHECK_MS)
    assert one.active() == [1]


def test_one_that_stands_still_again_and_again_fences_all_the_same(one):
    """The second late check counts."""
    for _ in range(3):
        one.loop.pass_time(60)
        one.pass_ms(CHECK_MS)
    assert one.active() == []


def test_many_silent_brokers_are_fenced_in_one_check(one):
    """One decision takes a bounded number; the next follows at once."""
    one.start(*range(3, 43))
    one.pass_ms(SESSION_MS + CHECK_MS)
    assert one.active() == []


def test_a_lost_connection_ends_a_session_early_unless_the_broker_is_heard_of(one):
    """The grace is the caller's."""
    for broker_id in (1, 2):
        one.sessions.connection_lost(broker_id, one.epoch(broker_id), 1000)
    one.pass_ms(900)
    one.beat(2)
    one.pass_ms(100 + CHECK_MS)
    assert one.active() == [2]


def test_a_registration_is_caught_up_with_where_it_lies_and_not_before(one):
    """A record of the quorum's own may lie between the end that the decision saw and the registration."""
    next_offset = len(one.log.records)
    one.log.records.append(None)  # the quorum writes behind the decision's back
    epoch = one.run(one.sessions.register(one.registration(3), source=3))
    assert epoch == next_offset + 1
    assert one.beat(3, metadata_offset=epoch - 1).is_fenced
    assert not one.beat(3, metadata_offset=epoch).is_fenced


def test_a_second_incarnation_waits_for_the_session_of_the_first(one):
    """DUPLICATE_BROKER_REGISTRATION until then."""
    asked = one.registration(1)
    assert code_of(one, one.sessions.register(asked, source=1)) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    one.pass_ms(SESSION_MS)
    assert one.run(one.sessions.register(asked, source=1)) == one.epoch(1)


def test_a_refused_registration_is_said_once_for_each_reason(one, caplog):
    """The broker asks again many times, and hears only a number."""
    asked = one.registration(1)
    for _ in range(3):
        code_of(one, one.sessions.register(asked, source=1))
    code_of(one, one.sessions.register(replace(asked, cluster_id="another"), source=1))
    said = [record.getMessage() for record in caplog.records if "is not registered" in record.getMessage()]
    assert len(said) == 2
    assert "broker 1 is not registered: Another broker is registered" in said[0]
    assert "but got cluster ID another" in said[1]


def test_a_heartbeat_of_another_incarnation_is_refused(one):
    """It is no contact either."""
    one.pass_ms(SESSION_MS - 1)
    assert code_of(one, one.beating(1, broker_epoch=one.epoch(1) - 1)) is ErrorCode.STALE_BROKER_EPOCH
    one.pass_ms(CHECK_MS + 1)
    assert 1 not in one.active()


def test_fencing_that_fails_is_logged_and_tried_again(one, caplog):
    """A full disk, say; a lost leadership is no failure of it."""
    one.log.error = KafkaError(ErrorCode.NOT_CONTROLLER)
    with caplog.at_level(logging.WARNING):
        one.pass_ms(SESSION_MS + 2 * CHECK_MS)
        assert not caplog.records
        one.log.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
        one.pass_ms(2 * CHECK_MS)
        assert "tried again: " in caplog.text
        one.log.error = RuntimeError("a bug")
        one.pass_ms(2 * CHECK_MS)
        assert "a bug" in caplog.text
        assert one.active() == [1, 2]
        one.log.error = None
        one.pass_ms(2 * CHECK_MS)
    assert one.active() == []
    assert "brokers 1, 2 are fenced: their sessions of 9000 ms are over" in caplog.text


def test_a_broker_that_is_unregistered_has_no_session(one):
    """One of the same id begins anew."""
    one.run(one.control.execute(lambda image: forgetting_broker(one.cluster.view(image), 1)))
    one.run(one.sessions.register(one.registration(1), source=1))
    assert one.active() == [2]


@pytest.mark.parametrize("seed", range(8))
def test_over_random_histories_the_silent_are_fenced_and_the_heard_of_are_not(memory_controller, seed):
    """Heartbeats, silences, pauses of the log, new incarnations, other leaderships, in any order."""
    dice = random.Random(seed)
    one = memory_controller(seed=seed)
    brokers = (1, 2, 3)
    one.start(*brokers)
    office, epoch = 0.0, 1
    heard = dict.fromkeys(brokers, one.loop.time())
    for _ in range(150):
        what = dice.randrange(10)
        broker_id = dice.choice(brokers)
        if what < 5:
            assert not one.beat(broker_id).should_shut_down
            heard[broker_id] = one.loop.time()
        elif what < 8:
            one.pass_ms(dice.choice([1, 100, 1000, CHECK_MS, SESSION_MS // 2]))
        elif what == 8 and broker_id not in one.active():
            one.run(one.sessions.register(one.registration(broker_id), source=broker_id))
            one.beat(broker_id)
            heard[broker_id] = one.loop.time()
        elif what == 9 and dice.random() < 0.3:
            one.resign()
            one.pass_ms(dice.choice([0, SESSION_MS]))
            epoch += 1
            one.become_active(epoch)
            office = one.loop.time()
        now = one.loop.time()
        for broker_id in brokers:
            silent_ms = 1000 * (now - max(heard[broker_id], office))
            if silent_ms < SESSION_MS and heard[broker_id] >= office:
                assert broker_id in one.active()
            if silent_ms > SESSION_MS + 3 * CHECK_MS:
                assert broker_id not in one.active()


def test_fencing_looks_at_the_brokers_own_partitions_and_pauses_between_them(one, monkeypatch):
    """Others may be a hundred thousand. The loop has its turns: a broker may hold many, too."""
    one.topic("others", *[(2,)] * 50)
    one.topic("t", *[(1,)] * 30)
    monkeypatch.setattr(cluster_view, "ScannedPartitions", None)
    looked = []
    change = broker_changes.partition_change
    monkeypatch.setattr(broker_changes, "partition_change", lambda *asked: looked.append(asked[1]) or change(*asked))
    pauses = 0

    async def in_slices(steps):
        nonlocal pauses
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            pauses += 1

    monkeypatch.setattr(one.control, "_in_slices", in_slices)
    one.pass_ms(SESSION_MS - 10)
    one.beat(2)
    one.pass_ms(2 * CHECK_MS)
    assert one.active() == [2]
    assert sorted(looked) == list(range(30))
    assert pauses >= 30
