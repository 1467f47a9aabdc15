"""A server with small handlers of its own on a free port, and a client that speaks in frames."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from stratalog.broker.clock import SystemClock
from stratalog.broker.config_listeners import Listener, SecurityProtocol
from stratalog.broker.dispatch import Api, Dispatcher, Operation, ResourceType
from stratalog.broker.metrics import Metrics
from stratalog.broker.server import Server, ServerLimits
from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.schema import Int16, Int32, Message, Records, decode, encode_bytes
from stratalog.wire.schema import field as wire_field

ECHO_KEY = 1000
FILE_KEY = 1001


class EchoRequest(Message, api_key=ECHO_KEY, versions=(0, 2), flexible=2):
    """Any text, and a number that tells the handler what to do."""

    text: str
    action: Int32 = wire_field(0)
    records: Records | None = wire_field(None)


class EchoResponse(Message, api_key=ECHO_KEY, versions=(0, 2), flexible=2):
    """The text again."""

    error_code: Int16
    text: str = wire_field("")
    error_message: str | None = wire_field(None, since=1)


class FileRequest(Message, api_key=FILE_KEY, versions=(0, 0)):
    """A range of the file that the handler knows."""

    position: Int32
    length: Int32


class FileResponse(Message, api_key=FILE_KEY, versions=(0, 0)):
    """That range, as file slices."""

    records: Records | None
    tail: str = wire_field("")


class VersionsRequest(Message, api_key=18, versions=(0, 4), flexible=3):
    """ApiVersions, without what a client says about itself."""


class VersionsResponse(Message, api_key=18, versions=(0, 4), flexible=3):
    """One number instead of the list."""

    error_code: Int16


@dataclass
class Client:
    """Sends frames, and reads the answers one by one."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    client_id: str | None = "tester"
    correlation_id: int = 0

    def frame(self, message: Message, version: int = 0) -> bytes:
        """A request frame with the next correlation id."""
        self.correlation_id += 1
        flexible = version >= message.flexible_since
        body = encode_bytes(message, version)
        parts = encode_request(message.api_key, version, self.correlation_id, self.client_id, [body], flexible=flexible)
        return b"".join(parts)

    async def send(self, *frames: bytes) -> None:
        """All frames in one write."""
        self.writer.write(b"".join(frames))
        await self.writer.drain()

    async def receive(self) -> memoryview:
        """The next answer, without its length."""
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return memoryview(await self.reader.readexactly(length))

    async def answer(self, cls: type[Message], version: int = 0) -> tuple[int, Message]:
        """The next answer: its correlation id and the message."""
        frame = await self.receive()
        flexible = version >= cls.flexible_since and cls.api_key != 18
        correlation_id, position = decode_response_header(frame, flexible=flexible)
        return correlation_id, decode(cls, version, frame, position)

    async def ask(self, message: Message, cls: type[Message], version: int = 0) -> Message:
        """One request and its answer."""
        await self.send(self.frame(message, version))
        correlation_id, response = await self.answer(cls, version)
        assert correlation_id == self.correlation_id
        return response

    async def closed_by_server(self) -> bool:
        """Whether the server ends the connection without sending anything more."""
        try:
            return await asyncio.wait_for(self.reader.read(1), 10) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Hang up."""
        self.writer.close()


@dataclass
class Edge:
    """A running server and what it was made of."""

    server: Server
    dispatcher: Dispatcher
    metrics: Metrics
    clients: list[Client] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listener."""
        return next(iter(self.server.addresses.values()))

    async def client(self, **options: object) -> Client:
        """A connected client."""
        client = Client(*await asyncio.open_connection(*self.address, **options))
        self.clients.append(client)
        return client


Serve = Callable[..., Awaitable[Edge]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server with the given rows; everything is closed after the test."""
    edges: list[Edge] = []

    async def start(
        *apis: Api,
        limits: ServerLimits | None = None,
        broker: object = None,
        authorizer=None,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        tls=None,
        clock=None,
    ) -> Edge:
        clock = clock or SystemClock()
        metrics = Metrics()
        dispatcher = Dispatcher(broker, apis, metrics=metrics, monotonic=clock.monotonic, authorizer=authorizer)
        listener = Listener("TEST", protocol, "127.0.0.1", 0)
        contexts = {} if tls is None else {"TEST": tls}
        server = Server([listener], dispatcher.dispatch, clock=clock, metrics=metrics, limits=limits, tls=contexts)
        await server.start()
        edges.append(Edge(server, dispatcher, metrics))
        return edges[-1]

    yield start
    for edge in edges:
        for client in edge.clients:
            client.close()
        await edge.dispatcher.close()
        await edge.server.close(grace_seconds=0)
        for client in edge.clients:
            with contextlib.suppress(Exception):
                await client.writer.wait_closed()


def api(request, response, handle, **options) -> Api:
    """A row for a toy message, open to everybody unless ``options`` say otherwise."""
    options = {"operation": Operation.ANY, "resource": ResourceType.ANY, "versions": request.versions, **options}
    return Api(key=request.api_key, request=request, response=response, handle=handle, **options)


def echo(context, request):
    """Answer with the text."""
    return EchoResponse(error_code=0, text=request.text)


@pytest.fixture
def until():
    """Waits for something that other callbacks bring about."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - any condition, brought about by anybody
                await asyncio.sleep(0.001)

    return wait


@pytest.fixture
def wire():
    """The toy messages and row makers, for tests that cannot import this file."""
    from types import SimpleNamespace

    return SimpleNamespace(
        EchoRequest=EchoRequest,
        EchoResponse=EchoResponse,
        FileRequest=FileRequest,
        FileResponse=FileResponse,
        VersionsRequest=VersionsRequest,
        VersionsResponse=VersionsResponse,
        api=api,
        echo=echo,
        echo_api=lambda handle=echo, **options: api(EchoRequest, EchoResponse, handle, **options),
        file_api=lambda handle: api(FileRequest, FileResponse, handle),
        versions_api=lambda handle: api(VersionsRequest, VersionsResponse, handle),
    )


class ScriptedBroker:
    """A thread that answers requests with what the test put in ``answers`` by API key: for clients that block.

    An answer is a message, a function of the request that makes one, raw bytes to send as they are, or None to hang
    up. ``ranges`` is what ApiVersions tells. ``requests`` keeps what came, with its version.
    """

    def __init__(self) -> None:
        import socket
        import threading

        self.answers = {}
        self.ranges = {}
        self.requests = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        import threading

        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection) -> None:
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                answer = self._answer(memoryview(stream.read(struct.unpack(">i", head)[0])))
                if answer is None:
                    return
                connection.sendall(answer)

    def _answer(self, frame: memoryview) -> bytes | None:
        from stratalog.wire.frame import decode_request_header, encode_response
        from stratalog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
        from stratalog.wire.messages.registry import APIS

        key, version = struct.unpack_from(">hh", frame)
        header = decode_request_header(frame, flexible=version >= APIS[key].request.flexible_since)
        request = decode(APIS[key].request, version, frame, header.body_position)
        self.requests.append((request, version))
        if key == 18 and 18 not in self.answers:
            rows = [
                ApiVersion(api_key=one, min_version=low, max_version=high) for one, (low, high) in self.ranges.items()
            ]
            answer = ApiVersionsResponse(api_keys=rows)
        else:
            answer = self.answers[key]
        if callable(answer):
            answer = answer(request)
        if answer is None or isinstance(answer, bytes):
            return answer
        flexible = version >= type(answer).flexible_since and key != 18
        return b"".join(encode_response(header.correlation_id, [encode_bytes(answer, version)], flexible=flexible))

    def close(self) -> None:
        """Accept nothing more."""
        self._socket.close()


@pytest.fixture
def scripted():
    """A broker that says what the test wants it to say."""
    broker = ScriptedBroker()
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def live_broker(tmp_path_factory):
    """A broker of its own process, started once for all tests that only need one that runs."""
    import subprocess
    import sys
    from types import SimpleNamespace

    home = tmp_path_factory.mktemp("live")
    command = [sys.executable, "-m", "stratalog.broker.cli", "serve", "--data", str(home / "data")]
    command += ["--bucket", f"file://{home}/bucket", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with (home / "stderr").open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    words = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
    assert words, (home / "stderr").read_text()
    yield SimpleNamespace(kafka=words["kafka"], http=words["http"], data=home / "data", home=home)
    process.terminate()
    process.wait(30)
    process.stdout.close()


@pytest.fixture
def stratalog(live_broker):
    """Run a command line in this process against the live broker: an object with ``code``, ``out``, ``err``, ``rows``."""
    import json
    from types import SimpleNamespace

    from click.testing import CliRunner

    from stratalog.broker.cli import cli

    def run(*arguments: str, stdin: str | bytes = "", code: int = 0):
        environment = {"STRATALOG_BOOTSTRAP": live_broker.kafka, "STRATALOG_HTTP": live_broker.http}
        found = CliRunner().invoke(cli, list(arguments), input=stdin, env=environment)
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        assert found.exit_code == code, found.output
        out = found.stdout
        rows = [json.loads(line) for line in out.splitlines()] if "--json" in arguments else []
        return SimpleNamespace(out=out, err=found.stderr, rows=rows)

    return run


@pytest.fixture
def topic(stratalog, request):
    """A fresh topic with three partitions, named after the test and its file; its name."""
    import re

    name = re.sub(r"[^a-zA-Z0-9]+", "-", f"{request.path.stem}-{request.node.name}")[:200]
    stratalog("topic", "create", name, "--partitions", "3")
    return name


@pytest.fixture
def three_batches():
    """Three batches of three records each from offset 100, the second compressed; times up to 1002, 2002, 1502."""
    from stratalog.wire.batch import Header, Record, build_batch
    from stratalog.wire.compression import Codec

    def batch(offset: int, time_ms: int, codec: Codec = Codec.NONE) -> bytes:
        headers = (Header("h", b"x"),)
        records = [Record(offset + n, time_ms + n, b"k%d" % n, b"v%d" % n, headers) for n in range(3)]
        return bytes(build_batch(records, codec=codec, leader_epoch=4))

    return [batch(100, 1000), batch(103, 2000, Codec.ZSTD), batch(106, 1500)]


@pytest.fixture
def start_command(tmp_path):
    """Start a command line in a process of its own, on free ports; all are gone after the test."""
    import subprocess
    import sys

    processes = []

    def started(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "stratalog.broker.cli", *arguments]
        command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        )
        return processes[-1]

    yield started
    for process in processes:
        process.kill()
        process.communicate()
