"""Requests to the active controller, over loopback."""

import asyncio
import time

import pytest

from stratalog.broker.lifecycle.controller_channel import BACKOFF_MS, ChannelClosed, ControllerUnknown
from stratalog.broker.peers.peer_errors import Peer, PeerTimeout, PeerUnavailable
from stratalog.wire.errors import ErrorCode, Invalid
from stratalog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

REQUEST = AllocateProducerIdsRequest(broker_id=1, broker_epoch=7)


def gives(first):
    """A controller that gives out this block."""
    return lambda _request: AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000)


def refuses(_request):
    return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER, producer_id_start=0, producer_id_len=0)


async def test_a_request_waits_for_a_leader_and_for_its_address(quorum, controller, new_channel):
    """A leader without an endpoint on the listener cannot be asked."""
    node, channel = await controller(gives(5)), new_channel()
    answer = channel.ask(REQUEST, timeout_ms=5000)
    quorum.elect(3)
    assert (channel.controller, channel.requests) == (None, 1)
    quorum.elect(3, node.port, listener="ELSEWHERE")
    assert channel.controller is None
    quorum.elect(3, node.port)
    assert (await answer).producer_id_start == 5
    assert channel.controller == Peer(3, "127.0.0.1", node.port)
    assert (await channel.ask(REQUEST, timeout_ms=5000)).producer_id_start == 5
    assert channel.requests == 0


async def test_a_request_without_a_leader_fails_in_its_time(quorum, new_channel):
    """The text says what is known of the quorum, and what to look at."""
    channel = new_channel()
    quorum.elect(-1, epoch=7)
    begun = time.monotonic()
    text = (
        r"AllocateProducerIds: no active controller was found within 80 ms \(no leader is known in epoch 7 .*majority"
    )
    with pytest.raises(ControllerUnknown, match=text):
        await channel.ask(REQUEST, timeout_ms=80)
    assert 0.07 < time.monotonic() - begun < 2
    assert channel.requests == 0


async def test_waiting_requests_are_bounded_in_number_and_bytes(new_channel):
    """A request beyond fails at once; one that is cancelled makes room."""
    for bound in ({"requests_max": 2}, {"request_bytes_max": 30}):
        channel = new_channel(**bound)
        first, second = channel.ask(REQUEST, timeout_ms=5000), channel.ask(REQUEST, timeout_ms=5000)
        with pytest.raises(ControllerUnknown, match=r"2 requests of 26 bytes wait .* one of 13 bytes has no room"):
            await channel.ask(REQUEST, timeout_ms=5000)
        first.cancel()
        await asyncio.sleep(0)
        third = channel.ask(REQUEST, timeout_ms=5000)
        assert channel.requests == 2
        channel.close()
        for each in (second, third):
            with pytest.raises(ChannelClosed):
                await each


async def test_the_leaders_successor_is_asked(quorum, controller, new_channel, until):
    """A request in flight at the former one fails as if its connection had broken; while none is known, all wait."""
    silent, node, channel = await controller(lambda _: None), await controller(gives(9)), new_channel()
    quorum.elect(1, silent.port)
    lost = channel.ask(REQUEST, timeout_ms=5000)
    await until(lambda: silent.asked)
    quorum.elect(-1)
    waiting = channel.ask(REQUEST, timeout_ms=5000)
    await asyncio.sleep(0.02)
    assert not lost.done()
    quorum.elect(2, node.port)
    with pytest.raises(PeerUnavailable, match=r"node 1 .* no longer the active controller"):
        await lost
    assert (await waiting).producer_id_start == 9
    await until(lambda: silent.node.ended)


async def test_the_versions_are_those_of_the_leader_of_now(quorum, controller, new_channel):
    """None before it is connected, and none of a leader before."""
    node, other, channel = await controller(gives(5)), await controller(gives(6)), new_channel()
    assert channel.versions is None
    quorum.elect(3, node.port)
    assert channel.versions is None
    await channel.ask(REQUEST, timeout_ms=5000)
    assert channel.versions is not None
    assert AllocateProducerIdsRequest.api_key in channel.versions
    quorum.elect(-1)
    assert channel.versions is None
    quorum.elect(4, other.port)
    assert channel.versions is None


async def test_a_leader_of_another_epoch_keeps_its_connection(quorum, controller, new_channel):
    """It is the same node at the same address."""
    node, channel = await controller(gives(5)), new_channel()
    for _ in range(3):
        quorum.elect(3, node.port)
        await channel.ask(REQUEST, timeout_ms=5000)
    assert node.node.connections == 1


async def test_a_leader_that_is_not_active_yet_is_left_alone_for_a_moment(quorum, controller, new_channel):
    """Requests wait for the back-off; its next epoch is asked at once. A word about another epoch changes nothing."""
    node, channel = await controller(refuses), new_channel()
    quorum.elect(3, node.port, epoch=4)
    assert (await channel.ask(REQUEST, timeout_ms=5000)).error_code == ErrorCode.NOT_CONTROLLER
    channel.not_controller(3)
    assert channel.controller is not None
    channel.not_controller(4)
    channel.not_controller(4)
    begun = time.monotonic()
    answer = channel.ask(REQUEST, timeout_ms=5000)
    assert (channel.controller, len(node.asked)) == (None, 1)
    await answer
    assert time.monotonic() - begun >= BACKOFF_MS / 1000 - 0.005
    channel.not_controller(4)
    answer = channel.ask(REQUEST, timeout_ms=5000)
    quorum.elect(3, node.port, epoch=5)
    assert channel.controller is not None
    await answer


async def test_this_node_is_asked_as_soon_as_its_own_controller_is_active(quorum, controller, new_channel):
    """It has refused before, in the same epoch."""
    node, channel = await controller(gives(5)), new_channel()
    quorum.elect(1, node.port, epoch=4)
    channel.not_controller(4)
    answer = channel.ask(REQUEST, timeout_ms=5000)
    assert channel.controller is None
    quorum.elect(1, node.port, epoch=4, is_active=True)
    assert channel.controller == Peer(1, "127.0.0.1", node.port)
    assert (await answer).producer_id_start == 5


async def test_a_silent_leader_costs_a_request_its_time(quorum, controller, new_channel):
    """The time spent with waiting for a leader counts."""
    node, channel = await controller(lambda _: None), new_channel()
    begun = time.monotonic()
    late = channel.ask(REQUEST, timeout_ms=300)
    await asyncio.sleep(0.15)
    quorum.elect(3, node.port)
    with pytest.raises(PeerTimeout):
        await late
    assert time.monotonic() - begun < 1


async def test_a_request_that_no_version_can_carry_is_refused_at_once(quorum, controller, new_channel):
    """With a controller and without one."""
    node, channel = await controller(gives(5)), new_channel()
    bad = AllocateProducerIdsRequest(broker_id=2**40)
    for _ in range(2):
        with pytest.raises(Invalid):
            channel.ask(bad, timeout_ms=5000)
        quorum.elect(3, node.port)
    assert channel.requests == 0


async def test_a_closed_channel_takes_no_request(quorum, controller, new_channel):
    """A second closing, a new leader and a refusal do nothing."""
    node, channel = await controller(lambda _: None), new_channel()
    quorum.elect(3, node.port)
    open_ = channel.ask(REQUEST, timeout_ms=5000)
    channel.close()
    channel.close()
    quorum.elect(4, node.port)
    channel.not_controller(quorum.leader.epoch)
    for each in (open_, channel.ask(REQUEST, timeout_ms=5000)):
        with pytest.raises(Exception, match="closed"):
            await each
