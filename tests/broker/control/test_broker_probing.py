"""A controller that asks the hosts of brokers without a connection, in virtual time."""

import pytest

from stratalog.metadata.image.brokers_image import ListenerAddress
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.broker.memory_controller import SESSION_MS

PORTS = {1: 9101, 2: 9102}
CONNECT_MS = SESSION_MS // 4
SOON_MS = 600


@pytest.fixture
def one(memory_controller):
    """An active controller of the brokers 1 and 2; each has two listeners. It has been active for a while."""
    one = memory_controller()
    for broker_id, port in PORTS.items():
        listeners = {"PLAINTEXT": ListenerAddress("a", port), "CLIENTS": ListenerAddress("a", port + 100)}
        one.run(one.sessions.register(one.registration(broker_id, listeners=listeners), source=broker_id))
        one.beat(broker_id)
    one.pass_ms(CONNECT_MS)
    one.beat(1)
    one.beat(2)
    return one


def cut(one, broker_id):
    """The broker's connection ends."""
    one.sources.pop(broker_id).closed = True


def kill(one, broker_id):
    """Its process ends: its host refuses connections."""
    cut(one, broker_id)
    one.dialer.refusing |= {PORTS[broker_id], PORTS[broker_id] + 100}


def test_a_killed_broker_is_fenced_at_once(one, caplog):
    """The session would have lasted nine seconds."""
    kill(one, 1)
    one.pass_ms(SOON_MS)
    assert one.active() == [2]
    assert caplog.text.count("broker 1 is gone: its host refuses connections") == 1


def test_brokers_with_connections_are_not_dialed(one):
    """A silent one among them is fenced by the end of its session."""
    one.pass_ms(SESSION_MS // 2)
    assert (one.dialer.dialed, one.active()) == ([], [1, 2])


@pytest.mark.parametrize("port", [PORTS[1], PORTS[1] + 100])
def test_one_listener_that_does_not_refuse_leaves_the_session(one, port):
    """Another one may be closed to the controllers by a firewall."""
    kill(one, 1)
    one.dialer.refusing.discard(port)
    one.pass_ms(SESSION_MS // 2)
    assert one.active() == [1, 2]


def test_a_silent_host_leaves_the_session(one):
    """The link to it may be cut for this controller only."""
    cut(one, 1)
    one.dialer.silent |= {PORTS[1]}
    one.pass_ms(SESSION_MS // 2)
    assert one.active() == [1, 2]
    one.beat(2)
    one.pass_ms(SESSION_MS // 2 + SESSION_MS // 8 + 1)
    assert one.active() == [2]


def test_a_broker_that_connects_again_stays(one):
    """Its connection broke, and nothing else."""
    cut(one, 1)
    one.beat(1)
    one.dialer.refusing |= {PORTS[1], PORTS[1] + 100}
    one.pass_ms(SESSION_MS // 2)
    assert one.active() == [1, 2]


def test_a_heartbeat_of_a_former_incarnation_is_no_connection(one):
    """A process that was cut off may speak again."""
    kill(one, 1)
    with pytest.raises(KafkaError):
        one.beat(1, broker_epoch=one.epoch(1) - 1)
    one.pass_ms(SOON_MS)
    assert one.active() == [2]


def test_a_new_controller_finds_brokers_that_are_gone(one):
    """Its predecessor was killed together with broker 1; the others connect to it."""
    kill(one, 1)
    one.resign()
    one.become_active(epoch=2)
    one.beat(2)
    one.pass_ms(CONNECT_MS - 10)
    assert one.active() == [1, 2]
    one.pass_ms(SOON_MS)
    assert one.active() == [2]


def test_a_controller_that_resigned_asks_no_host(one):
    """Another one does."""
    kill(one, 1)
    one.resign()
    one.pass_ms(SESSION_MS)
    assert one.dialer.dialed == []


def test_a_process_on_the_same_directories_is_registered_while_the_session_of_the_dead_one_runs(one):
    """It listens already, so that its host refuses nothing."""
    cut(one, 1)
    before = one.epoch(1)
    one.run(one.sessions.register(one.registration(1), source=1))
    assert one.epoch(1) > before


@pytest.mark.parametrize("is_heard", [True, False], ids=["the first is heard", "the directories are others"])
def test_a_second_broker_of_the_same_id_is_refused(one, is_heard):
    """Two processes by mistake."""
    directories = (b"1" * 16,) if not is_heard else one.image.brokers.brokers[1].directories
    if not is_heard:
        cut(one, 1)
    with pytest.raises(KafkaError) as caught:
        one.run(one.sessions.register(one.registration(1, directories=directories), source=1))
    assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
