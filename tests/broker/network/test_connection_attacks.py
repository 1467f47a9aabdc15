"""Connections that would take what others need: memory, and being heard."""

import asyncio
import logging
import socket
import struct
import time

import pytest

from stratalog.broker.network.connection_counts import ServerLimits
from stratalog.broker.network.connection_services import ConnectionLimits
from stratalog.broker.network.stall_reasons import PARKED
from stratalog.broker.requests.dispatch import PENDING

MIB = 1 << 20
HEAD = bytes.fromhex("001200000000")
SMALL_BUDGET = ServerLimits(request_memory_bytes=8 * MIB, connection=ConnectionLimits(frame_bytes_max=8 * MIB))


@pytest.fixture
def announce():
    """Makes connections that begin a frame of ``length`` bytes; they end with the test."""
    links = []

    def begin(address, length, sent=b"", source="127.0.0.1"):
        links.append(socket.create_connection(address, timeout=5, source_address=(source, 0)))
        links[-1].sendall(struct.pack(">i", length) + HEAD + sent)
        return links[-1]

    yield begin
    for link in links:
        link.close()


async def push(link, size):
    """Send what the socket takes of ``size`` bytes, in a few attempts."""
    link.setblocking(False)
    left = memoryview(bytes(size))
    for _ in range(20):
        try:
            left = left[link.send(left) :]
        except BlockingIOError:
            await asyncio.sleep(0.002)
        if not left:
            return


async def test_announcements_of_large_frames_stop_no_other_client(serve, wire, until, announce):
    """27 connections that announce more than a gigabyte and send 270 bytes: others are answered as before."""
    edge = await serve(wire.echo_api())
    lengths = [104_857_596] * 10 + [25_162_952] + [60_000] * 16
    links = [announce(edge.address, length) for length in lengths]
    await until(lambda: edge.metrics.network.bytes_received >= 270)
    for _ in range(3):
        client = await edge.client()
        for number in range(20):
            answer = await asyncio.wait_for(client.ask(wire.EchoRequest(text=str(number)), wire.EchoResponse), 2)
            assert answer.text == str(number)
    assert edge.server.buffers.used_bytes < 16 * MIB
    for link in links:
        link.close()
    await until(lambda: edge.server.buffers.used_bytes == 0)


async def test_clients_that_really_fill_the_memory_do_not_stop_small_ones(serve, wire, until, announce):
    """With the budget used up by unfinished frames, small requests pass and a large one of another address ends."""
    edge = await serve(wire.echo_api(lambda *_: wire.EchoResponse(error_code=0)), limits=SMALL_BUDGET)
    links = [announce(edge.address, 8 * MIB - 4) for _ in range(20)]
    for link in links:
        await push(link, 2 * MIB)
    await until(lambda: edge.server.buffers.memory.waits)
    client = await edge.client()
    for _ in range(20):
        await asyncio.wait_for(client.ask(wire.EchoRequest(text="x" * 5000), wire.EchoResponse), 2)
    other = await edge.client(local_addr=("127.0.0.2", 0))
    large = wire.EchoRequest(text="", records=bytes(MIB))
    await asyncio.wait_for(other.ask(large, wire.EchoResponse), 5)
    for link in links:
        link.close()
    await until(lambda: edge.server.buffers.used_bytes == 0)


async def test_a_connection_held_back_notices_that_the_client_has_gone(serve, wire, until, announce):
    """Its frame waits for memory, which does not come; it leaves when the client does."""
    edge = await serve(wire.echo_api(), limits=SMALL_BUDGET)
    memory = edge.server.buffers.memory
    assert memory.ask(memory.begin("127.0.0.9", 0, 0.0, list), 100 * MIB)  # goes on beyond the budget
    memory.begin("127.0.0.1", 4 * MIB, 0.0, list)  # has the whole share of the address
    link = announce(edge.address, 8 * MIB - 4)
    await push(link, 100_000)  # no more than the kernel takes: the end of a stream comes behind its bytes
    await until(lambda: memory.waits)
    link.close()
    await until(lambda: not edge.server.connections)
    assert not memory.waits


async def test_a_crowd_that_was_held_back_leaves_nothing(serve, wire, until, announce):
    """Two hundred that began large frames, were not read further, and whose process has ended leave nothing."""
    edge = await serve(wire.echo_api(), limits=SMALL_BUDGET)
    begun = [announce(edge.address, 8 * MIB - 4, bytes(60_000)) for _ in range(200)]
    for link in begun[:20]:
        await push(link, MIB)
    await until(lambda: len(edge.server.connections) == 200 and edge.server.buffers.memory.waits)
    for link in begun:
        link.close()
    await until(lambda: not edge.server.connections)
    assert edge.server.buffers.used_bytes == 0
    assert len(edge.server._services.hang_ups) == 0


async def test_a_frame_that_has_come_as_a_whole_is_handled_although_its_sender_has_gone(serve, wire, until, announce):
    """A client that sends its last records without asking for an answer and ends: they wait for memory, and are taken."""
    seen = []

    def handle(context, request):
        seen.append(len(request.records))
        return wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(handle), limits=SMALL_BUDGET)
    buffers = edge.server.buffers
    assert buffers.memory.ask(buffers.memory.begin("127.0.0.9", 0, 0.0, list), 100 * MIB)  # goes on beyond the budget
    holder = buffers.memory.begin("127.0.0.1", 4 * MIB, 0.0, list)  # has the whole share of the address
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="", records=bytes(MIB))))
    client.writer.write_eof()
    await until(lambda: buffers.memory.waits)
    await asyncio.sleep(0.05)
    assert seen == []
    buffers.memory.end(holder)
    buffers.wake()
    await until(lambda: seen == [MIB])
    assert await client.closed_by_server() is False  # the answer comes first
    assert edge.server.buffers.used_bytes == 0


async def test_the_broker_says_that_requests_wait_for_memory(serve, wire, until, caplog, announce):
    """After ten seconds it is not ready, and says why; frames that keep others waiting lose their connections."""
    caplog.set_level(logging.INFO)
    ahead = 0.0

    class Clock:
        monotonic = staticmethod(lambda: time.monotonic() + ahead)

    edge = await serve(wire.echo_api(), limits=SMALL_BUDGET, clock=Clock())
    links = [announce(edge.address, 8 * MIB - 4, bytes(60_000)) for _ in range(3)]
    for link in links:
        await push(link, 7 * MIB)
    await until(lambda: edge.server.buffers.memory.waits)
    assert edge.server.not_ready() == []
    ahead = 11.0
    (reason,) = edge.server.not_ready()
    assert "wait for memory to receive requests, the first for 11 s" in reason
    assert "queued.max.request.bytes=8388608" in reason
    assert b"stratalog_network_receive_buffer_waiting_connections 0.0" not in edge.metrics.render()
    ahead = 75.0
    edge.server._sweep_connections()
    await until(lambda: not edge.server.buffers.memory.waits)
    assert edge.server.not_ready() == []
    assert "others wait for its memory" in caplog.text or "has been held up" in caplog.text


async def test_an_attackers_frames_age_out(serve, wire, until, announce):
    """Silent frames go within seconds when others wait for their memory, and the waiting ones are then served."""
    ahead = 0.0

    class Clock:
        monotonic = staticmethod(lambda: time.monotonic() + ahead)

    edge = await serve(wire.echo_api(lambda *_: wire.EchoResponse(error_code=0)), limits=SMALL_BUDGET, clock=Clock())
    for number in range(10):
        await push(announce(edge.address, 8 * MIB - 4, source=f"127.0.0.{10 + number}"), 900_000)
    await until(lambda: edge.server.buffers.memory.waits)
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="", records=bytes(3 * MIB))))
    ahead = 7.0
    edge.server._sweep_connections()
    await asyncio.wait_for(client.receive(), 5)


@pytest.mark.parametrize("later", [False, True])
async def test_finished_answers_behind_a_waiting_one_are_bounded(serve, wire, until, later):
    """One long poll, and long answers pipelined behind it: one connection could take gigabytes otherwise."""
    waiting, others = [], []

    def handle(context, request):
        if request.action:
            waiting.append(context)
            return PENDING
        others.append(context)
        if not later:
            return wire.EchoResponse(error_code=0, text="x" * 10_000)
        asyncio.get_running_loop().call_later(
            0.001, context.respond, wire.EchoResponse(error_code=0, text="x" * 10_000)
        )
        return PENDING

    limits = ServerLimits(connection=ConnectionLimits(queued_bytes_max=25_000))
    edge = await serve(wire.echo_api(handle), limits=limits)
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="", action=1), 2))
    await until(lambda: waiting)
    (connection,) = edge.server.connections
    for number in range(20):
        await client.send(client.frame(wire.EchoRequest(text=""), 2))
        await until(lambda number=number: len(others) > number or connection.stalled & PARKED)
        await asyncio.sleep(0.005)
    assert len(others) <= 4
    waiting[0].respond(wire.EchoResponse(error_code=0, text="waited"))
    answers = [await client.answer(wire.EchoResponse, 2) for _ in range(21)]
    assert [len(answer.text) for _, answer in answers] == [6] + 20 * [10_000]
    assert not connection.stalled


async def test_a_client_that_takes_its_answer_slowly_is_not_idle(serve, wire, until):
    """Each byte that leaves counts as one that comes; a client that takes nothing is closed all the same."""
    edge = await serve(wire.echo_api(lambda context, request: wire.EchoResponse(error_code=0, text="x" * (8 << 20))))
    client = await edge.client(limit=1 << 10)
    await client.send(client.frame(wire.EchoRequest(text=""), 2))
    await until(lambda: edge.server.connections)
    (connection,) = edge.server.connections
    await until(lambda: connection._sender.queued_bytes)
    begun = connection.read_at
    assert connection.sweep(begun + 9, 10) is None
    assert connection.sweep(begun + 20, 10).startswith("idle for")
    left = connection._sender.queued_bytes
    while connection._sender.queued_bytes == left:
        await client.reader.read(64 << 10)
    assert connection.sweep(begun + 20, 10) is None
    assert connection.sweep(begun + 29, 10) is None


async def test_a_client_whose_answer_came_late_is_not_idle_at_once(serve, wire, until):
    """It has waited for longer than an idle connection may be silent."""
    waiting = []
    edge = await serve(wire.echo_api(lambda context, _: waiting.append(context) or PENDING))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="")))
    await until(lambda: waiting)
    (connection,) = edge.server.connections
    begun = connection.read_at
    assert connection.sweep(begun + 20, 10) is None
    waiting[0].respond(wire.EchoResponse(error_code=0))
    await client.answer(wire.EchoResponse)
    assert connection.sweep(begun + 21, 10) is None
    assert connection.sweep(begun + 31, 10) == "idle for 11 s"
