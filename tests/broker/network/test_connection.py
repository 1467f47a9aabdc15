import asyncio
import random
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

from stratalog.broker.network.buffers import BASE_BYTES
from stratalog.broker.network.connection_counts import ServerLimits
from stratalog.broker.network.connection_services import ConnectionLimits
from stratalog.broker.requests.dispatch import PENDING
from stratalog.broker.settings.listeners import SecurityProtocol
from stratalog.wire.parts import FileSlice


@pytest.fixture
def segment(tmp_path):
    """A file of 3 MiB and its content."""
    content = random.Random(3).randbytes(3 << 20)
    path = tmp_path / "segment"
    path.write_bytes(content)
    with path.open("rb") as file:
        yield file, content


def file_handler(wire, file):
    """Answers with the range as two slices of the file."""

    def handle(context, request):
        half = request.length // 2
        slices = [
            FileSlice(file, request.position, half),
            FileSlice(file, request.position + half, request.length - half),
        ]
        return wire.FileResponse(records=slices, tail="end")

    return handle


def descriptors():
    """How many files and sockets this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_requests_in_any_pieces_are_answered(serve, wire):
    """A request that arrives byte by byte, or many in one piece, is answered all the same."""
    edge = await serve(wire.echo_api())
    client = await edge.client()
    for byte in client.frame(wire.EchoRequest(text="slow")):
        client.writer.write(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer(wire.EchoResponse))[1].text == "slow"
    await client.send(*(client.frame(wire.EchoRequest(text=str(n)), 2) for n in range(1000)))
    answers = [await client.answer(wire.EchoResponse, 2) for _ in range(1000)]
    assert [answer.text for _, answer in answers] == [str(n) for n in range(1000)]


async def test_answers_of_one_read_leave_in_one_write(serve, wire, monkeypatch):
    """Pipelined small requests cost one send."""
    edge = await serve(wire.echo_api())
    client = await edge.client()
    await client.ask(wire.EchoRequest(text="first"), wire.EchoResponse)
    (connection,) = edge.server.connections
    sends = []
    send = connection._sender.send
    monkeypatch.setattr(type(connection._sender), "send", lambda self, parts: (sends.append(len(parts)), send(parts)))
    await client.send(*(client.frame(wire.EchoRequest(text="x")) for _ in range(5)))
    for _ in range(5):
        await client.receive()
    assert sends == [5]


async def test_parked_answers_of_one_tick_leave_in_one_write(serve, wire, monkeypatch):
    """Answers of a deferred commit on one connection are joined as well."""
    waiting = []

    def commit():
        for context in waiting:
            context.respond(wire.EchoResponse(error_code=0))
        waiting.clear()

    def handle(context, request):
        if not waiting:
            edge.server.tick.defer(commit)
        waiting.append(context)
        return PENDING

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.ask(wire.EchoRequest(text="first"), wire.EchoResponse)
    (connection,) = edge.server.connections
    sends = []
    send = connection._sender.send
    monkeypatch.setattr(type(connection._sender), "send", lambda self, parts: (sends.append(len(parts)), send(parts)))
    await client.send(*(client.frame(wire.EchoRequest(text="x")) for _ in range(5)))
    for _ in range(5):
        await client.receive()
    assert sends == [5]


async def test_leased_request_bytes_survive_later_requests(serve, wire):
    """Records that a handler keeps are unchanged until it releases them, whatever is received meanwhile."""
    kept = []

    def handle(context, request):
        if request.records is not None:
            kept.append((request.records, bytes(request.records), context.lease()))
        return wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(handle))
    clients = [await edge.client() for _ in range(3)]
    dice = random.Random(4)
    for round_ in range(30):
        client = clients[round_ % 3]
        records = dice.randbytes(dice.choice([10, 5000, 90_000]))
        await client.ask(wire.EchoRequest(text="", records=records), wire.EchoResponse)
    assert all(bytes(view) == copy for view, copy, _ in kept)
    assert edge.server.buffers.used_bytes > 0
    for _, _, release in kept:
        release()
    assert edge.server.buffers.used_bytes == 0


async def test_a_lease_outside_the_handler_is_an_error(serve, wire):
    """Once the handler has returned the bytes may be gone, so nothing is handed out."""
    contexts = []

    def handle(context, request):
        contexts.append(context)
        return wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.ask(wire.EchoRequest(text=""), wire.EchoResponse)
    with pytest.raises(RuntimeError, match="while the request is being handled"):
        contexts[0].lease()


async def test_file_answers_go_out_by_sendfile_byte_for_byte(serve, wire, segment):
    """Pipelined answers with file slices arrive exactly and in order; at least 95 % of the bytes by sendfile."""
    file, content = segment
    edge = await serve(wire.file_api(file_handler(wire, file)))
    client = await edge.client()
    ranges = [(0, 3 << 20), (5, 1), (1000, 100_000), (7, 0), (1 << 20, 1 << 20), (3, 9000)]
    await client.send(*(client.frame(wire.FileRequest(position=p, length=n)) for p, n in ranges))
    for position, length in ranges:
        _, answer = await client.answer(wire.FileResponse)
        assert bytes(answer.records) == content[position : position + length]
        assert answer.tail == "end"
    fetched = sum(length for _, length in ranges)
    assert edge.metrics.network.sendfile_bytes >= 0.95 * fetched


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """TLS contexts of a server and of a client that trusts it."""
    import ssl

    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", folder / "key", "-out", folder / "cert", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert", folder / "key")
    return server, ssl.create_default_context(cafile=str(folder / "cert"))


async def test_tls_carries_the_same_answers_without_sendfile(serve, wire, segment, certificate):
    """Over TLS requests and file answers are the same bytes; the kernel sends none of them from the file."""
    file, content = segment
    server_context, client_context = certificate
    edge = await serve(
        wire.file_api(file_handler(wire, file)), wire.echo_api(), protocol=SecurityProtocol.SSL, tls=server_context
    )
    client = await edge.client(ssl=client_context)
    frames = [
        client.frame(wire.FileRequest(position=9, length=3_000_000)),
        client.frame(wire.EchoRequest(text="x" * 30_000)),
    ]
    await client.send(*frames)
    assert bytes((await client.answer(wire.FileResponse))[1].records) == content[9:3_000_009]
    assert (await client.answer(wire.EchoResponse))[1].text == "x" * 30_000
    network = edge.metrics.network
    assert (network.sendfile_bytes, network.copied_file_bytes) == (0, 3_000_000)


async def test_a_client_that_does_not_read_is_not_handled_further(serve, wire, segment, until):
    """Backpressure: with enough unread answers queued, requests stay unread; all are answered once it reads."""
    file, _ = segment
    handled = []

    def handle(context, request):
        handled.append(1)
        return wire.FileResponse(records=FileSlice(file, 0, 3 << 20))

    edge = await serve(wire.file_api(handle))
    client = await edge.client(limit=1 << 16)
    await client.send(*(client.frame(wire.FileRequest(position=0, length=0)) for _ in range(40)))
    await until(lambda: len(handled) >= 2)
    await asyncio.sleep(0.05)
    assert len(handled) < 10
    (connection,) = edge.server.connections
    assert connection._sender.queued_bytes <= (4 << 20) + (4 << 20)
    for _ in range(40):
        assert len(await client.receive()) == (3 << 20) + 10
    assert len(handled) == 40


async def test_many_parked_requests_stop_the_reading(serve, wire, until):
    """A client with too many answers outstanding waits; nothing is lost."""
    waiting = []

    def handle(context, request):
        waiting.append(context)
        return PENDING

    limits = ServerLimits(connection=ConnectionLimits(parked_max=4))
    edge = await serve(wire.echo_api(handle), limits=limits)
    client = await edge.client()
    await client.send(*(client.frame(wire.EchoRequest(text="")) for _ in range(10)))
    await until(lambda: len(waiting) == 4)
    await asyncio.sleep(0.02)
    assert len(waiting) == 4
    for index in range(10):
        await until(lambda index=index: len(waiting) > index)
        waiting[index].respond(wire.EchoResponse(error_code=0))
    assert [(await client.answer(wire.EchoResponse))[0] for _ in range(10)] == list(range(1, 11))


async def test_a_muted_connection_is_handled_again_at_its_deadline(serve, wire):
    """Throttling by a quota: the answer leaves at once, the next request waits until ``muted_until``."""
    times = []

    def handle(context, request):
        times.append(time.monotonic())
        if request.action:
            context.connection.mute_until(times[-1] + 0.05)
        return wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(handle))
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="", action=1)), client.frame(wire.EchoRequest(text="")))
    await client.receive()
    (connection,) = edge.server.connections
    assert len(times) == 1
    assert connection.muted_until == times[0] + 0.05
    await client.receive()
    assert times[1] >= times[0] + 0.05


async def test_a_shorter_deadline_does_not_unmute(serve, wire, until):
    """The latest deadline holds."""
    edge = await serve(wire.echo_api())
    await edge.client()
    await until(lambda: edge.server.connections)
    (connection,) = edge.server.connections
    connection.mute_until(time.monotonic() + 100)
    deadline = connection.muted_until
    connection.mute_until(time.monotonic() + 1)
    assert connection.muted_until == deadline


async def test_receive_memory_is_shared_out(serve, wire, until):
    """With the budget used up by one unfinished frame another one waits for it, then both are served."""
    limits = ServerLimits(request_memory_bytes=1 << 20, connection=ConnectionLimits(frame_bytes_max=1 << 20))
    edge = await serve(wire.echo_api(lambda context, request: wire.EchoResponse(error_code=0)), limits=limits)
    first, second = await edge.client(), await edge.client()
    large = [client.frame(wire.EchoRequest(text="", records=bytes(700_000))) for client in (first, second)]
    await first.send(large[0][:100_000])
    await until(lambda: edge.server.buffers.used_bytes >= 700_000)
    await second.send(large[1])
    await asyncio.sleep(0.05)
    assert edge.server.buffers.used_bytes <= (1 << 20) + BASE_BYTES
    assert any(connection.stalled for connection in edge.server.connections)
    await first.send(large[0][100_000:])
    await first.receive()
    await second.receive()
    await until(lambda: edge.server.buffers.used_bytes == 0)


async def test_before_authentication_only_small_frames_and_few_keys_are_accepted(serve, wire, caplog):
    """On a listener that authenticates, strangers get 64 KiB a frame and ApiVersions; then the limits are lifted."""

    def versions(context, request):
        if context.client_id == "knows the secret":
            context.connection.authenticate("User:alice")
        return wire.VersionsResponse(error_code=0)

    def who(context, request):
        return wire.EchoResponse(error_code=0, text=context.connection.principal)

    edge = await serve(wire.versions_api(versions), wire.echo_api(who), protocol=SecurityProtocol.SASL_PLAINTEXT)
    client = await edge.client()
    await client.send(struct.pack(">i", 65537))
    assert await client.closed_by_server()
    assert "above the limit of 65536" in caplog.text
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="")))
    assert await client.closed_by_server()
    assert "Echo v0 before authentication" in caplog.text
    client = await edge.client()
    client.client_id = "knows the secret"
    await client.ask(wire.VersionsRequest(), wire.VersionsResponse)
    answer = await client.ask(wire.EchoRequest(text="", records=bytes(100_000)), wire.EchoResponse)
    assert answer.text == "User:alice"


async def test_connections_leave_no_descriptors_or_memory(serve, wire, segment, until):
    """Clients that come and go in every state leave nothing open."""
    file, _ = segment
    edge = await serve(wire.echo_api(lambda context, request: PENDING), wire.file_api(file_handler(wire, file)))

    async def visit(action):
        client = await edge.client()
        if action == 1:
            await client.send(client.frame(wire.EchoRequest(text="")))
        elif action == 2:
            await client.send(client.frame(wire.EchoRequest(text="x" * 200))[:50])
        elif action == 3:
            await client.send(client.frame(wire.FileRequest(position=0, length=3 << 20)))
            await client.reader.read(1000)
        client.writer.transport.abort()

    await visit(3)
    await until(lambda: not edge.server.connections)
    before = descriptors()
    for round_ in range(40):
        await visit(round_ % 4)
    await until(lambda: not edge.server.connections)
    await until(lambda: descriptors() <= before)
    assert edge.server.buffers.used_bytes == 0


async def test_without_a_descriptor_left_a_connection_is_refused(serve, wire, monkeypatch, until):
    """A connection for which the socket cannot be duplicated is closed, leaves nothing, and the next one is served."""
    edge = await serve(wire.api(wire.EchoRequest, wire.EchoResponse, wire.echo))

    def refuse(descriptor):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("stratalog.broker.network.sending.os.dup", refuse)
        client = await edge.client()
        assert await client.closed_by_server()
    assert not edge.server.connections
    client = await edge.client()
    answer = await client.ask(wire.EchoRequest(text="on"), wire.EchoResponse)
    assert answer.text == "on"


async def test_elements_and_tags_of_a_request_are_bounded_by_settings(serve, wire, caplog):
    """A request with more unknown tagged fields than allowed closes its connection, also where the codec allows more."""
    limits = ServerLimits(connection=ConnectionLimits(tags_max=0))
    edge = await serve(wire.api(wire.EchoRequest, wire.EchoResponse, wire.echo), limits=limits)
    client = await edge.client()
    frame = bytearray(client.frame(wire.EchoRequest(text="x"), 2))
    assert frame[-1] == 0
    frame[-1:] = bytes.fromhex("01 07 00")  # one field with tag 7 and no bytes
    frame[:4] = struct.pack(">i", len(frame) - 4)
    await client.send(bytes(frame))
    assert await client.closed_by_server()
    assert "cannot be decoded" in caplog.text


async def test_an_error_that_escapes_dispatch_ends_only_that_connection(serve, wire, caplog):
    """An error that escapes dispatch itself ends its connection, not the server."""
    edge = await serve(wire.echo_api())
    edge.server._services.dispatch = lambda connection, frame: 1 / 0
    client = await edge.client()
    await client.send(client.frame(wire.EchoRequest(text="")))
    assert await client.closed_by_server()
    edge.server._services.dispatch = edge.dispatcher.dispatch
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="on"), wire.EchoResponse)).text == "on"
