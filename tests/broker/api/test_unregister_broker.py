"""UnregisterBroker: at a broker that is alone, and at a controller of several."""

from stratalog.broker.api.unregister_broker import API
from stratalog.metadata.controller.controller import BrokerStart, register_broker
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest


def ask(broker, broker_id):
    answer = broker.link().call(UnregisterBrokerRequest(broker_id=broker_id), 0)
    return ErrorCode(answer.error_code), answer.error_message


def test_neither_itself_nor_a_stranger_is_forgotten(broker):
    """The message says which broker and why; the broker goes on."""
    code, message = ask(broker, broker.node.node_id)
    assert code is ErrorCode.INVALID_REQUEST
    assert "running" in message
    assert ask(broker, 77) == (ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID 77 is not currently registered")
    broker.create("t")
    assert broker.produce("t", b"x") == [0]


def test_a_broker_that_is_gone_is_forgotten(broker):
    """A registration that a larger cluster has left."""
    start = BrokerStart(broker_id=9, incarnation_id=bytes(16), listeners={}, directories=())
    decided = register_broker(broker.node.image, start, broker_epoch=1 << 40, unclean_allowed=lambda _: False)
    broker.run(broker.node.control.write, decided.records)
    assert ask(broker, 9) == (ErrorCode.NONE, None)
    assert sorted(broker.node.image.brokers.brokers) == [broker.node.node_id]


def test_a_controller_of_several_forgets_any_broker(memory_controller):
    """Its leaderships go to others. One that runs registers again."""
    one = memory_controller()
    one.start(1, 2)
    one.topic("t", (1, 2))
    answer = one.ask(API, UnregisterBrokerRequest(broker_id=1))
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert sorted(one.image.brokers.brokers) == [2]
    assert (one.state().leader, one.state().in_sync_replicas) == (2, (2,))
    answer = one.ask(API, UnregisterBrokerRequest(broker_id=1))
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    one.start(1)
    assert one.active() == [2, 1]
