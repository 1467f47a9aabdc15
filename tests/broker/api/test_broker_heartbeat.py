"""BrokerHeartbeat at an active controller."""

import pytest

from stratalog.broker.api.broker_heartbeat import API
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest


@pytest.fixture
def one(memory_controller):
    """The brokers 1 and 2; broker 3 has registered."""
    one = memory_controller()
    one.start(1, 2)
    one.run(one.sessions.register(one.registration(3), source=3))
    return one


def ask(one, broker_id, version=2, **fields):
    """The controller's answer: its code, and whether the broker is caught up, fenced, and may stop."""
    values = {
        "broker_epoch": fields.get("broker_epoch") or one.epoch(broker_id),
        "current_metadata_offset": len(one.log.records) - 1,
        "want_fence": False,
        "want_shut_down": False,
        **fields,
    }
    answer = one.ask(API, BrokerHeartbeatRequest(broker_id=broker_id, **values), version)
    return ErrorCode(answer.error_code), answer.is_caught_up, answer.is_fenced, answer.should_shut_down


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_broker_that_is_caught_up_is_unfenced_when_it_wants_to_be(one, version):
    """Not before its image holds its registration, and not while it wants to stay fenced."""
    none = ErrorCode.NONE
    assert ask(one, 3, version, current_metadata_offset=one.epoch(3) - 1) == (none, False, True, False)
    assert ask(one, 3, version, want_fence=True) == (none, True, True, False)
    assert ask(one, 3, version) == (none, True, False, False)
    assert one.active() == [1, 2, 3]


def test_a_broker_that_wants_to_stop_may_when_it_leads_nothing_and_all_have_seen_that(one):
    """Its leaderships move first; the last record of that has to be in every active broker's image."""
    one.topic("t", (1, 2))
    ask(one, 2)
    assert ask(one, 1, want_shut_down=True) == (ErrorCode.NONE, True, False, False)
    assert (one.state().leader, one.state().in_sync_replicas) == (2, (2,))
    assert ask(one, 1, want_shut_down=True) == (ErrorCode.NONE, True, False, False)
    ask(one, 2)
    assert ask(one, 1, want_shut_down=True) == (ErrorCode.NONE, True, True, True)


@pytest.mark.parametrize(("broker_id", "moved"), [(1, -1), (1, 1), (9, 0)])
def test_another_incarnation_and_a_stranger_are_stale(one, broker_id, moved):
    """With the defaults of an answer: fenced, and not caught up."""
    epoch = one.epoch(1) + moved
    assert ask(one, broker_id, broker_epoch=epoch) == (ErrorCode.STALE_BROKER_EPOCH, False, True, False)


def test_a_controller_that_is_not_active_says_so(one):
    """Before it looks at the request."""
    one.resign()
    assert ask(one, 1, broker_epoch=-5)[0] is ErrorCode.NOT_CONTROLLER


def test_directories_that_are_offline_or_cordoned_are_noted(one):
    """Versions 1 and 2 name them; the replicas there leave the in-sync sets."""
    one.topic("t", (1, 2))
    directory = bytes([1]) * 16
    ask(one, 1, cordoned_log_dirs=[directory])
    assert one.image.brokers.brokers[1].cordoned_directories == (directory,)
    ask(one, 1, offline_log_dirs=[directory])
    assert (one.state().leader, one.state().in_sync_replicas) == (2, (2,))


def test_brokers_must_be_allowed_to_act_for_the_cluster():
    """As in Kafka."""
    assert (API.operation.name, API.resource.name) == ("CLUSTER_ACTION", "CLUSTER")
