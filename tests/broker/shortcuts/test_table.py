"""Which APIs have shortcuts."""

import pytest

from stratalog.broker.api import BROKER_APIS
from stratalog.broker.shortcuts.table import with_shortcuts
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def test_four_apis_have_shortcuts():
    """Only APIs that a client sends one request after the other have one."""
    assert [api.name for api in with_shortcuts(BROKER_APIS) if api.remember] == [
        "Produce",
        "Fetch",
        "Heartbeat",
        "ConsumerGroupHeartbeat",
    ]


def test_an_api_itself_has_none():
    """A table of the plain APIs answers every request the long way."""
    assert [api.name for api in BROKER_APIS if api.remember] == []
    assert [api.key for api in with_shortcuts(BROKER_APIS)] == [api.key for api in BROKER_APIS]


@pytest.mark.parametrize("on", [True, False])
def test_one_switch_turns_all_of_them_off(start_node, new_batch, on):
    """Then no connection remembers anything, and answers are the same."""
    node = start_node(**{} if on else {"stratalog.request.shortcuts": "false"})
    node.create("t")
    link = node.link()
    data = PartitionProduceData(index=0, records=new_batch(b"v"))
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    answers = [link.call(request, 9).responses[0].partition_responses[0] for _ in range(3)]
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 1), (0, 2)]
    assert node.run(lambda: any(one.shortcut for one in node.node.server.connections)) is on
    assert any(api.remember for api in node.node.dispatcher.apis) is on
