"""Bytes that are no requests, and clients that want more than their share."""

import logging
import random
import struct
import tracemalloc

import pytest

from stratalog.broker import connection as connection_module

HOSTILE = {
    "negative length": struct.pack(">i", -5),
    "smallest length": struct.pack(">i", -(2**31)),
    "no header": struct.pack(">i", 4) + bytes(4),
    "huge length": struct.pack(">i", 2**31 - 1) + bytes(1000),
    "unknown key": struct.pack(">ihhih", 10, 4242, 0, 1, -1),
    "negative key": struct.pack(">ihhih", 10, -1, -1, 1, -1),
    "unknown version": struct.pack(">ihhih", 10, 1000, 99, 1, -1),
    "truncated body": struct.pack(">ihhihh", 12, 1000, 0, 1, -1, 20_000),
    "client id beyond the frame": struct.pack(">ihhih", 10, 1000, 0, 1, 30_000),
    "client id is no utf-8": struct.pack(">ihhih", 12, 1000, 0, 1, 2) + b"\xc3\x28",
    "body is no utf-8": struct.pack(">ihhihh", 22, 1000, 0, 1, -1, 2) + b"\xc3\x28" + struct.pack(">ii", 0, -1),
    "million tagged fields": struct.pack(">ihhih", 13, 1000, 2, 1, -1) + b"\xc0\x84\x3d",
    "endless varint": struct.pack(">ihhih", 16, 1000, 2, 1, -1) + b"\xff" * 6,
    "garbage": random.Random(5).randbytes(4096),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c403036d") + bytes(200),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_bytes_close_the_connection_with_one_line(serve, wire, caplog, name):
    """Whatever is no request ends its own connection, at once, with one log line; the others are served."""
    caplog.set_level(logging.INFO)
    edge = await serve(wire.echo_api())
    neighbour = await edge.client()
    client = await edge.client()
    await client.send(HOSTILE[name])
    assert await client.closed_by_server()
    lines = [record.getMessage() for record in caplog.records if "closing the connection" in record.getMessage()]
    assert len(lines) == 1, lines
    assert lines[0].startswith("closing the connection from 127.0.0.1:")
    assert edge.metrics.network.frames_refused == 1
    assert (await neighbour.ask(wire.EchoRequest(text="fine"), wire.EchoResponse)).text == "fine"


async def test_requests_in_front_of_a_hostile_frame_are_answered(serve, wire):
    """Valid pipelined requests get their answers before the connection closes."""
    edge = await serve(wire.echo_api())
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="valid")), struct.pack(">i", -1))
    assert (await client.answer(wire.EchoResponse))[1].text == "valid"
    assert await client.closed_by_server()


async def test_a_flood_of_tiny_requests_does_not_keep_the_loop(serve, wire, monkeypatch):
    """However many requests arrive in one read, other connections get their turn after a fixed number."""
    monkeypatch.setattr(connection_module, "FRAMES_PER_TURN", 16)
    runs = []

    def handle(context, request):
        runs.append(context.connection)
        return wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(handle))
    flooding, polite = await edge.client(), await edge.client()
    await polite.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    flood = b"".join(flooding.frame(wire.EchoRequest(text="")) for _ in range(1000))
    runs.clear()
    await flooding.send(flood)
    polite.writer.write(polite.frame(wire.EchoRequest(text="")))
    for _ in range(1000):
        await flooding.receive()
    await polite.receive()
    assert len(runs) == 1001
    place = next(index for index, run in enumerate(runs) if run is not runs[0])
    assert place <= 64


async def test_the_memory_of_a_large_hostile_frame_is_bounded(serve, wire, caplog, until):
    """A frame of 8 MiB that cannot be decoded costs at most twice its size and 32 MiB, and all of it is returned."""
    edge = await serve(wire.echo_api())
    client = await edge.client()
    size = 8 << 20
    frame = struct.pack(">ihhihh", size - 4, 1000, 0, 1, -1, -7) + bytes(size - 16)
    tracemalloc.start()
    try:
        await client.send(frame)
        assert await client.closed_by_server()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    client_buffers = size  # the client's own unsent bytes are in this process too
    assert peak <= 2 * size + (32 << 20) + client_buffers
    await until(lambda: not edge.server.connections)
    assert edge.server.buffers.used_bytes == 0
    assert "Echo v0 cannot be decoded" in caplog.text
