"""Blocks of producer ids from the active controller, over loopback."""

import time

import pytest

from stratalog.broker.lifecycle.producer_id_blocks import ProducerIdBlocks
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse


@pytest.fixture
def new_blocks(new_channel, quorum):
    """Builds what asks for blocks."""

    def build(timeout_ms):
        channel = new_channel()
        blocks = ProducerIdBlocks(
            channel,
            broker_id=4,
            broker_epoch=lambda: 17,
            quorum=quorum,
            monotonic=time.monotonic,
            timeout_ms=timeout_ms,
        )
        blocks.channel = channel
        return blocks

    return build


async def test_a_controller_that_refuses_is_asked_again(new_blocks, controller, quorum):
    """In the epoch of the broker, until it gives a block."""
    errors = [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, 0]

    def reply(_request):
        return AllocateProducerIdsResponse(error_code=errors.pop(0), producer_id_start=5000, producer_id_len=1000)

    node = await controller(reply)
    quorum.elect(9, node.port)
    assert await new_blocks(5000).allocate() == (5000, 1000)
    assert [(one.broker_id, one.broker_epoch) for one in node.asked] == [(4, 17)] * 3


@pytest.mark.parametrize("closed", [False, True])
async def test_clients_are_to_ask_again_when_there_is_no_controller(new_blocks, closed):
    """After the time of one block, or at once when this node has closed its way there."""
    blocks = new_blocks(5000 if closed else 120)
    if closed:
        blocks.channel.close()
    begun = time.monotonic()
    with pytest.raises(KafkaError, match="active controller") as raised:
        await blocks.allocate()
    assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert time.monotonic() - begun < 2


async def test_a_controller_that_always_refuses_is_named_with_its_error(new_blocks, controller, quorum):
    """The text has the last error."""
    stale = AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, producer_id_start=0, producer_id_len=0)
    node = await controller(lambda _: stale)
    quorum.elect(9, node.port)
    with pytest.raises(KafkaError, match=r"there are no producer ids: .* error 77"):
        await new_blocks(150).allocate()
