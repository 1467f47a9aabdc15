"""The table of a broker's states, walked wholly."""

from typing import NamedTuple

import pytest

from stratalog.metadata.controller.broker_states import TABLE, BrokerEvent, BrokerState, Response, state_of
from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.wire.errors import ErrorCode, KafkaError

FENCED, ACTIVE, STOPPING = BrokerState


def brought_to(one, state):
    """Broker 1 of a cluster of two in a state; 2 leads nothing and is active."""
    one.start(1, 2)
    one.topic("t", (1, 2))
    if state is STOPPING:
        one.beat(1, wants_shutdown=True)
    if state is FENCED:
        one.beat(1, wants_fence=True)
    assert state_of(one.image.brokers.brokers[1]) is state
    return one


def happens(one, event):
    """Let an event happen to broker 1. The answer, or the code of a refusal."""
    broker = one.image.brokers.brokers[1]
    beats = {
        BrokerEvent.CAUGHT_UP: {},
        BrokerEvent.BEHIND: {"metadata_offset": broker.epoch - 1},
        BrokerEvent.STALE: {"broker_epoch": broker.epoch - 1},
        BrokerEvent.WANTS_FENCE: {"wants_fence": True},
        BrokerEvent.WANTS_SHUTDOWN: {"wants_shutdown": True},
        BrokerEvent.WANTS_FENCE_AND_SHUTDOWN: {"wants_fence": True, "wants_shutdown": True},
        BrokerEvent.DIRECTORY_OFFLINE: {"offline_directories": broker.directories, "wants_fence": broker.is_fenced},
    }
    try:
        if event in beats:
            return one.beat(1, **beats[event])
        if event is BrokerEvent.SESSION_OVER:
            return one.tick(9000, 2)
        if event is BrokerEvent.REGISTERED_AGAIN:
            return one.register(one.registration(1, incarnation_id=broker.incarnation_id))
        one.now_ms += 9000 if event is BrokerEvent.REGISTERED_AFTER_SESSION else 0
        return one.register(one.registration(1))
    except KafkaError as error:
        return error.code


class Outcome(NamedTuple):
    """The traces of an event."""

    before: BrokerState
    after: BrokerState
    is_new_epoch: bool
    record_count: int
    answer: object
    in_sync: tuple[int, ...]


EXPECTED = {
    Response.NOTHING: lambda seen: seen.after is seen.before and not seen.record_count,
    Response.KEEP_EPOCH: lambda seen: seen.after is seen.before and not seen.is_new_epoch and seen.record_count == 1,
    Response.NEW_EPOCH: lambda seen: seen.after is FENCED and seen.is_new_epoch and seen.in_sync == (2,),
    Response.DUPLICATE: lambda seen: seen.answer is ErrorCode.DUPLICATE_BROKER_REGISTRATION and not seen.record_count,
    Response.REFUSE_EPOCH: lambda seen: seen.answer is ErrorCode.STALE_BROKER_EPOCH and not seen.record_count,
    Response.UNFENCE: lambda seen: seen.after is ACTIVE and not seen.answer.is_fenced,
    Response.FENCE: lambda seen: seen.after is FENCED and seen.in_sync == (2,),
    Response.FENCE_AND_STOP: lambda seen: seen.after is FENCED and seen.answer.should_shut_down,
    Response.MAY_STOP: lambda seen: seen.after is FENCED and seen.answer.should_shut_down and not seen.record_count,
    Response.BEGIN_STOP: lambda seen: (
        seen.after is STOPPING and not seen.answer.should_shut_down and seen.in_sync == (2,)
    ),
    # Broker 2 has not yet seen that 1 leads no more.
    Response.STOP_IF_DONE: lambda seen: seen.after is STOPPING and not seen.answer.should_shut_down,
    Response.LEAVE_DIRECTORY: lambda seen: seen.after is seen.before and seen.in_sync == (2,) and seen.record_count,
}


def test_every_event_has_a_response_in_every_state():
    """No pair is left out."""
    assert set(TABLE) == {(event, state) for event in BrokerEvent for state in BrokerState}
    assert set(TABLE.values()) == set(Response)


@pytest.mark.parametrize(("event", "state"), list(TABLE), ids=lambda one: one.name)
def test_the_controller_does_what_the_table_says(world, event, state):
    """Each event in each state, through the shipped commands: epoch, state and answer afterwards."""
    one = brought_to(world(), state)
    before, log_end = one.image.brokers.brokers[1], one.next_offset
    answer = happens(one, event)
    after = one.image.brokers.brokers[1]
    seen = Outcome(
        state,
        state_of(after),
        after.epoch != before.epoch,
        one.next_offset - log_end,
        answer,
        one.state().in_sync_replicas,
    )
    assert EXPECTED[TABLE[event, state]](seen), seen


def test_the_state_is_read_from_the_registration():
    """A fenced broker is fenced whether or not it was about to stop."""
    for is_fenced, stops, state in ((True, False, FENCED), (True, True, FENCED), (False, True, STOPPING)):
        broker = BrokerImage(1, 1, b"i" * 16, {}, is_fenced=is_fenced, in_controlled_shutdown=stops)
        assert state_of(broker) is state
