"""AllocateProducerIds at an active controller."""

import pytest

from stratalog.broker.api.allocate_producer_ids import API
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest


@pytest.fixture
def one(memory_controller):
    one = memory_controller()
    one.start(1, 2)
    return one


def test_no_two_blocks_overlap(one):
    """A thousand ids each, to one broker or several; the record holds the first that is left."""
    blocks = [
        one.ask(API, AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=one.epoch(broker_id)))
        for broker_id in (1, 2, 1)
    ]
    assert [(block.error_code, block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (ErrorCode.NONE, 0, 1000),
        (ErrorCode.NONE, 1000, 1000),
        (ErrorCode.NONE, 2000, 1000),
    ]
    assert (one.image.next_producer_id, one.log.records[-1].next_producer_id) == (3000, 3000)


@pytest.mark.parametrize(("broker_id", "moved"), [(1, -1), (9, 0)])
def test_another_incarnation_and_a_stranger_get_none(one, broker_id, moved):
    """STALE_BROKER_EPOCH, and nothing is given out."""
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=one.epoch(1) + moved)
    assert one.ask(API, request).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert one.image.next_producer_id == 0


def test_brokers_must_be_allowed_to_act_for_the_cluster():
    """As in Kafka."""
    assert (API.operation.name, API.resource.name) == ("CLUSTER_ACTION", "CLUSTER")
