"""UnregisterBroker: there is one broker, and it is running."""

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
