import asyncio
import contextlib
import gc
import logging
import socket
import ssl
import struct
import warnings
from types import SimpleNamespace

import pytest

from stratalog.broker.network import connection as connection_module
from stratalog.broker.network import server as server_module
from stratalog.broker.network.connection_counts import ServerLimits
from stratalog.broker.network.server import Server
from stratalog.broker.requests.dispatch import PENDING
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.listeners import Listener, SecurityProtocol


class SlidingClock(SystemClock):
    """The machine's clock, moved ahead by the test."""

    def __init__(self):
        self.ahead = 0.0
        machine = SystemClock.monotonic
        self.monotonic = lambda: machine() + self.ahead

    __slots__ = ("ahead", "monotonic")


def listener(name="PLAIN", protocol=SecurityProtocol.PLAINTEXT, host="127.0.0.1", port=0):
    return Listener(name, protocol, host, port)


async def test_listeners_get_free_ports_and_serve(serve, wire):
    """Port 0 becomes a real one, told in ``addresses``; clients are served there."""
    edge = await serve(wire.echo_api())
    host, port = edge.server.addresses["TEST"]
    assert host == "127.0.0.1"
    assert port > 0
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="here"), wire.EchoResponse)).text == "here"


async def test_a_connection_knows_its_listener(until):
    """With several listeners each connection carries the one it came through."""
    seen = []
    server = Server(
        [listener("INTERNAL"), listener("EXTERNAL")],
        lambda connection, frame: seen.append(connection.listener.name),
        clock=SystemClock(),
        metrics=Metrics(),
    )
    await server.start()
    for name in ("EXTERNAL", "INTERNAL"):
        _, writer = await asyncio.open_connection(*server.addresses[name])
        writer.write(struct.pack(">ihhih", 10, 0, 0, 0, -1))
        await until(lambda name=name: name in seen)
        writer.close()
    await server.close(0)
    assert seen == ["EXTERNAL", "INTERNAL"]


async def test_an_address_in_use_is_an_error_and_leaves_nothing_open():
    """If one listener cannot be opened, start raises and the others are closed again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = Server([listener("A"), listener("B", port=port)], None, clock=SystemClock(), metrics=Metrics())
        with pytest.raises(OSError, match="another process, perhaps another broker, listens there"):
            await server.start()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection(*server.addresses["A"])


async def test_a_port_that_another_process_listens_at_first_is_named():
    """Two brokers of one port can both take it while they start; the slower one said "Address already in use", and not which."""
    first = Server([listener("A")], None, clock=SystemClock(), metrics=Metrics())
    await first.bind()
    host, port = first.addresses["A"]
    second = Server([listener("B", port=port)], None, clock=SystemClock(), metrics=Metrics())
    await second.bind()
    await first.accept()
    with pytest.raises(OSError, match=rf"listeners \(B\): cannot listen on {host}:{port}: another process"):
        await second.accept()
    await first.close(0)
    await second.close(0)


async def test_an_encrypted_listener_needs_its_context():
    """A listener that says SSL and has no TLS context is refused: it would serve in plain text."""
    with pytest.raises(ValueError, match="SECURE is SSL but has no TLS context"):
        Server([listener("SECURE", SecurityProtocol.SSL)], None, clock=SystemClock(), metrics=Metrics())
    Server(
        [listener("SECURE", SecurityProtocol.SSL)],
        None,
        clock=SystemClock(),
        metrics=Metrics(),
        tls={"SECURE": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)},
    )


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (ServerLimits(connections_max=2), "max.connections of 2"),
        (ServerLimits(connections_per_ip_max=2), "max.connections.per.ip of 2"),
        (ServerLimits(per_ip_overrides={"127.0.0.1": 2}), "max.connections.per.ip of 2"),
        (ServerLimits(connection_rate_max=2), "max.connection.creation.rate of 2"),
    ],
)
async def test_connections_above_a_limit_are_closed_at_once(serve, wire, caplog, limits, reason):
    """The third client is turned away, with one log line for a flood of them; the first two are served."""
    edge = await serve(wire.echo_api(), limits=limits)
    clients = [await edge.client() for _ in range(2)]
    for client in clients:
        await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    for _ in range(5):
        assert await (await edge.client()).closed_by_server()
    assert [reason in record.getMessage() for record in caplog.records] == [True]
    assert edge.metrics.network.connections_refused == 5
    assert (await clients[0].ask(wire.EchoRequest(text="a"), wire.EchoResponse)).text == "a"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (ServerLimits(connections_max=2), "max.connections of 2"),
        (ServerLimits(connections_max=10, connections_reserved=8), "the last 8 connections"),
        (ServerLimits(connections_per_ip_max=8), "max.connections.per.ip of 8"),
        (ServerLimits(connection_rate_max=8), "max.connection.creation.rate of 8"),
    ],
)
async def test_clients_keep_no_brokers_from_each_other(until, caplog, limits, reason):
    """A listener of brokers beside others has its own count; addresses have their bound at it, too."""
    server = Server(
        [listener("INTERNAL"), listener("EXTERNAL")],
        lambda connection, frame: None,
        clock=SystemClock(),
        metrics=Metrics(),
        limits=limits,
        inter_broker_listener="INTERNAL",
    )
    await server.start()
    writers = []

    async def connect(name):
        refused = server._metrics.network.connections_refused
        before = len(server.connections)
        _, writer = await asyncio.open_connection(*server.addresses[name])
        writers.append(writer)
        await until(lambda: len(server.connections) + server._metrics.network.connections_refused > before + refused)
        return len(server.connections) > before

    while await connect("EXTERNAL"):
        assert len(writers) < 20
    assert reason in caplog.text
    assert [await connect("INTERNAL") for _ in range(8)] == [True] * 8
    for writer in writers:
        writer.close()
    await until(lambda: not server.connections)
    assert await connect("EXTERNAL") or limits.connection_rate_max
    writers[-1].close()
    await server.close(0)


async def test_the_last_connections_are_for_addresses_with_few(serve, wire, caplog):
    """A flood from one address leaves room for an administrator at another."""
    edge = await serve(wire.echo_api(), limits=ServerLimits(connections_max=12, connections_reserved=2))
    for _ in range(10):
        await (await edge.client()).ask(wire.EchoRequest(text=""), wire.EchoResponse)
    assert await (await edge.client()).closed_by_server()
    assert "the last 2 connections are for addresses with fewer than 8" in caplog.text
    for _ in range(2):
        other = await edge.client(local_addr=("127.0.0.2", 0))
        await other.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    assert await (await edge.client(local_addr=("127.0.0.2", 0))).closed_by_server()


async def test_connections_held_for_their_rate_count(serve, wire, until):
    """A flood that is refused after a while takes no more descriptors than the limit says: the rest is refused at once."""
    edge = await serve(wire.echo_api(), limits=ServerLimits(connections_max=4))
    edge.server.use_quotas(lambda _: None, lambda _: 60.0)
    clients = [await edge.client() for _ in range(20)]
    await until(lambda: edge.metrics.network.connections_refused == 20)
    assert len(edge.server._held) == 4
    assert await clients[-1].closed_by_server()


async def test_new_quotas_reach_all_connections_in_lots(serve, wire, monkeypatch):
    """Ten thousand at once would hold the loop; a change that comes meanwhile reaches all, and closed ones are left out."""
    monkeypatch.setattr(server_module, "_LIMITED_PER_TURN", 2)
    edge = await serve(wire.echo_api())
    clients = [await edge.client() for _ in range(7)]
    for client in clients:
        await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    asked = []

    def quota_of(connection):
        asked.append(connection)

    edge.server.use_quotas(quota_of, lambda _: 0.0)
    edge.server.limit_anew()
    assert len(asked) == 2
    await asyncio.sleep(0)
    assert len(asked) == 4
    edge.server.limit_anew()
    connections = list(edge.server.connections)
    connections[0].abort()
    asked.clear()
    for _ in range(6):
        await asyncio.sleep(0)
        assert len(asked) <= 8
    assert len(asked) == 6
    assert set(asked) == set(connections[1:])


async def test_a_closed_connection_makes_room(serve, wire, until):
    """Limits count what is open now."""
    edge = await serve(wire.echo_api(), limits=ServerLimits(connections_max=1, connections_per_ip_max=1))
    first = await edge.client()
    await first.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    first.close()
    await until(lambda: not edge.server.connections)
    second = await edge.client()
    assert (await second.ask(wire.EchoRequest(text="b"), wire.EchoResponse)).text == "b"


async def test_idle_connections_are_closed_and_waiting_ones_are_not(serve, wire, until):
    """After connections.max.idle.ms without a request a connection ends, unless an answer is outstanding."""
    clock = SlidingClock()

    def handle(context, request):
        return PENDING if request.action else wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(handle), clock=clock)
    idle, waiting = await edge.client(), await edge.client()
    await idle.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    await waiting.send(waiting.frame(wire.EchoRequest(text="", action=1)))
    await until(lambda: any(connection.parked for connection in edge.server.connections))
    clock.ahead = 599
    edge.server._sweep_connections()
    assert len(edge.server.connections) == 2
    clock.ahead = 601
    edge.server._sweep_connections()
    assert await idle.closed_by_server()
    await until(lambda: len(edge.server.connections) == 1)
    assert edge.metrics.network.connections_expired == 1


async def test_a_frame_that_never_completes_ends_its_connection(serve, wire, caplog, until):
    """A client that drips bytes of one frame is closed long before the idle time."""
    caplog.set_level(logging.INFO)
    clock = SlidingClock()
    edge = await serve(wire.echo_api(), clock=clock)
    client = await edge.client()
    await client.send(struct.pack(">i", 1000) + b"x")
    await until(lambda: edge.metrics.network.bytes_received == 5)
    clock.ahead = 29
    await client.send(b"y")
    await until(lambda: edge.metrics.network.bytes_received == 6)
    edge.server._sweep_connections()
    assert edge.server.connections
    clock.ahead = 31
    edge.server._sweep_connections()
    assert await client.closed_by_server()
    assert "1004 bytes is incomplete after 31 s" in caplog.text


async def test_a_stranger_must_authenticate_in_time(serve, wire, until):
    """On a listener that authenticates a silent connection ends after ten seconds."""
    clock = SlidingClock()
    edge = await serve(wire.versions_api(wire.echo), protocol=SecurityProtocol.SASL_PLAINTEXT, clock=clock)
    client = await edge.client()
    await until(lambda: edge.server.connections)
    clock.ahead = connection_module.AUTHENTICATION_SECONDS + 1
    edge.server._sweep_connections()
    assert await client.closed_by_server()


async def test_a_connection_that_cannot_be_looked_at_ends_and_the_sweep_goes_on(
    serve, wire, until, caplog, monkeypatch
):
    """Otherwise no idle connection would be closed any more, and no slow frame would give its memory back."""
    edge = await serve(wire.echo_api(lambda *_: wire.EchoResponse(error_code=0)), limits=ServerLimits(idle_ms=100))
    sweep, broken = connection_module.Connection.sweep, set()

    def fail_for_the_first(connection, *args):
        broken.add(connection if not broken else next(iter(broken)))
        if connection in broken:
            raise ZeroDivisionError
        return sweep(connection, *args)

    monkeypatch.setattr(connection_module.Connection, "sweep", fail_for_the_first)
    clients = [await edge.client(), await edge.client()]
    for client in clients:
        assert await client.closed_by_server()
    assert "cannot be looked at" in caplog.text


async def test_the_sweep_runs_by_itself_and_frees_spare_memory(serve, wire, until):
    """Unused buffers go back to the system soon after the traffic."""
    edge = await serve(wire.echo_api(lambda *_: wire.EchoResponse(error_code=0)), limits=ServerLimits(idle_ms=100))
    client = await edge.client()
    await client.ask(wire.EchoRequest(text="", records=bytes(1 << 20)), wire.EchoResponse)
    await until(lambda: edge.server.buffers.retained_bytes == 0)
    assert await client.closed_by_server()


async def test_closing_lets_requests_finish_and_refuses_new_clients(serve, wire, until):
    """An orderly end: waiting requests get their answer within the grace,
    idle clients are closed, no new client comes.
    """
    contexts = []

    def handle(context, request):
        contexts.append(context)
        return PENDING

    edge = await serve(wire.echo_api(handle))
    idle, busy = await edge.client(), await edge.client()
    await busy.send(busy.frame(wire.EchoRequest(text="")))
    await until(lambda: contexts)
    closing = asyncio.ensure_future(edge.server.close(grace_seconds=20))
    assert await idle.closed_by_server()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection(*edge.address)
    contexts[0].respond(wire.EchoResponse(error_code=0, text="done"))
    assert (await busy.answer(wire.EchoResponse))[1].text == "done"
    await asyncio.wait_for(closing, 10)
    assert not edge.server.connections


async def test_closing_without_grace_ends_everything(serve, wire, until):
    """Requests without an answer by the end of the grace are cut off."""
    edge = await serve(wire.echo_api(lambda *_: PENDING))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="")))
    await until(lambda: any(connection.parked for connection in edge.server.connections))
    await edge.server.close(grace_seconds=0)
    assert await client.closed_by_server()
    assert not edge.server.connections


async def test_buffer_sizes_of_sockets_are_those_of_the_settings(serve, wire):
    """socket.send.buffer.bytes and socket.receive.buffer.bytes reach accepted sockets (the kernel doubles them)."""
    edge = await serve(wire.echo_api(), limits=ServerLimits(send_buffer_bytes=50_000, receive_buffer_bytes=60_000))
    client = await edge.client()
    await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    (connection,) = edge.server.connections
    accepted = connection._transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 100_000
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 120_000


async def test_connections_and_memory_are_gauges(serve, wire):
    """Open connections by listener and the receive memory are in the exposition."""
    edge = await serve(wire.echo_api())
    client = await edge.client()
    await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    text = edge.metrics.render().decode()
    assert 'kafka_server_socket_server_metrics_connection_count{listener="TEST"} 1.0' in text
    assert "stratalog_network_receive_buffer_bytes 0.0" in text


@pytest.mark.story
@pytest.mark.parametrize("turns", range(6))
async def test_a_client_that_comes_while_the_server_closes_is_not_forgotten(turns):
    """A connection is closed at each stage it may have reached: asyncio keeps no socket without an owner."""
    server = Server([listener()], lambda *_: None, clock=SystemClock(), metrics=Metrics())
    await server.start()
    loop = asyncio.get_running_loop()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = socket.create_connection(server.addresses["PLAIN"])  # the kernel's part; the loop has had no turn yet
        client.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.close(grace_seconds=0)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(loop.sock_recv(client, 1), 5) == b""
        client.close()
        gc.collect()
    assert [str(one.message) for one in caught if one.category is ResourceWarning] == []
    assert not server.connections


async def test_a_connection_may_be_idle_for_ever(serve, wire):
    """connections.max.idle.ms=-1 is Kafka's word for that; it once closed all, and left the loop no pause."""
    clock = SlidingClock()
    edge = await serve(wire.echo_api(), clock=clock, limits=ServerLimits(idle_ms=-1))
    client = await edge.client()
    await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    clock.ahead = 1e6
    edge.server._sweep_connections()
    assert (await client.ask(wire.EchoRequest(text="a"), wire.EchoResponse)).text == "a"


@pytest.mark.parametrize(("idle_ms", "seconds"), [(-1, 5), (0, 0.05), (10, 0.05), (1000, 0.25), (600_000, 5)])
async def test_looks_at_connections_have_pauses(serve, wire, monkeypatch, idle_ms, seconds):
    """For every idle time."""
    edge = await serve(wire.echo_api(), limits=ServerLimits(idle_ms=idle_ms))
    delays = []
    loop = edge.server._services.loop
    edge.server._sweep.cancel()
    later = loop.call_later
    monkeypatch.setattr(
        edge.server._services, "loop", SimpleNamespace(call_later=lambda *call: delays.append(call[0]) or later(*call))
    )
    edge.server._sweep_connections()
    monkeypatch.undo()
    assert delays == [seconds]
