"""The table of a broker's states, walked wholly."""

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
    try:
        match event:
            case BrokerEvent.REGISTERED_AGAIN:
                return one.register(one.registration(1, incarnation_id=broker.incarnation_id))
            case BrokerEvent.REGISTERED_ANEW:
                return one.register(one.registration(1))
            case BrokerEvent.REGISTERED_AFTER_SESSION:
                one.now_ms += 9000
                return one.register(one.registration(1))
            case BrokerEvent.CAUGHT_UP:
                return one.beat(1)
            case BrokerEvent.BEHIND:
                return one.beat(1, metadata_offset=broker.epoch - 1)
            case BrokerEvent.STALE:
                return one.beat(1, broker_epoch=broker.epoch - 1)
            case BrokerEvent.SESSION_OVER:
                return one.tick(9000, 2)
            case BrokerEvent.WANTS_FENCE:
                return one.beat(1, wants_fence=True)
            case BrokerEvent.WANTS_SHUTDOWN:
                return one.beat(1, wants_shutdown=True)
            case BrokerEvent.WANTS_FENCE_AND_SHUTDOWN:
                return one.beat(1, wants_fence=True, wants_shutdown=True)
            case BrokerEvent.DIRECTORY_OFFLINE:
                return one.beat(1, offline_directories=broker.directories, wants_fence=broker.is_fenced)
    except KafkaError as error:
        return error.code


def test_every_event_has_a_response_in_every_state():
    """No pair is left out."""
    assert set(TABLE) == {(event, state) for event in BrokerEvent for state in BrokerState}
    assert set(TABLE.values()) == set(Response)


@pytest.mark.parametrize(("event", "state"), list(TABLE), ids=lambda one: one.name)
def test_the_controller_does_what_the_table_says(world, event, state):
    """Each event in each state, through the shipped commands: epoch, state and answer afterwards."""
    one = brought_to(world(), state)
    before = one.image.brokers.brokers[1]
    log_end = one.next_offset
    answer = happens(one, event)
    after = one.image.brokers.brokers[1]
    found, is_same_epoch = state_of(after), after.epoch == before.epoch
    match TABLE[event, state]:
        case Response.NOTHING:
            assert (found, is_same_epoch, one.next_offset) == (state, True, log_end)
        case Response.KEEP_EPOCH:
            assert (found, is_same_epoch, one.next_offset) == (state, True, log_end + 1)
        case Response.NEW_EPOCH:
            assert (found, is_same_epoch, after.in_controlled_shutdown) == (FENCED, False, False)
            assert one.state().in_sync_replicas == (2,)
        case Response.DUPLICATE:
            assert (answer, one.next_offset) == (ErrorCode.DUPLICATE_BROKER_REGISTRATION, log_end)
        case Response.REFUSE_EPOCH:
            assert (answer, one.next_offset) == (ErrorCode.STALE_BROKER_EPOCH, log_end)
        case Response.UNFENCE:
            assert (found, answer.is_fenced) == (ACTIVE, False)
        case Response.FENCE:
            assert found is FENCED
            assert one.sets() == (2, (2,), ())
        case Response.FENCE_AND_STOP | Response.MAY_STOP:
            assert (found, answer.is_fenced, answer.should_shut_down) == (FENCED, True, True)
        case Response.BEGIN_STOP:
            assert (found, answer.should_shut_down, one.sets()) == (STOPPING, False, (2, (2,), ()))
        case Response.STOP_IF_DONE:
            assert (found, answer.should_shut_down) == (STOPPING, False)  # 2 has not seen it yet
        case Response.LEAVE_DIRECTORY:
            assert one.state().in_sync_replicas == (2,)


def test_the_state_is_read_from_the_registration():
    """A fenced broker is fenced whether or not it was about to stop."""
    for is_fenced, stops, state in ((True, False, FENCED), (True, True, FENCED), (False, True, STOPPING)):
        broker = BrokerImage(1, 1, b"i" * 16, {}, is_fenced=is_fenced, in_controlled_shutdown=stops)
        assert state_of(broker) is state
