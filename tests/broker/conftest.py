"""A server with small handlers of its own on a free port, and a client that speaks in frames."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from stratalog.broker.network.connection_counts import ServerLimits
from stratalog.broker.network.server import Server
from stratalog.broker.requests.dispatch import Api, Dispatcher, Operation, ResourceType
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.listeners import Listener, SecurityProtocol
from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.schema import Int16, Int32, Message, Records, decode, encode_bytes
from stratalog.wire.schema import field as wire_field
from tests.broker.memory_controller import MemoryController

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


@pytest.fixture(scope="session")
def live_broker(tmp_path_factory):
    """A broker of its own process, started once for all tests that only need one that runs."""
    import subprocess
    import sys
    from types import SimpleNamespace

    home = tmp_path_factory.mktemp("live")
    command = [sys.executable, "-m", "stratalog.cli.main", "serve", "--data", str(home / "data")]
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

    from stratalog.cli.main import cli

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
def memory_controller():
    """Make active controllers of brokers that are not there: ``memory_controller(active=False, ...)``."""
    made = []

    def make(*, active: bool = True, **options) -> MemoryController:
        one = MemoryController(**options)
        made.append(one)
        if active:
            one.become_active()
        return one

    yield make
    for one in made:
        one.close()


class Controller:
    """A running node as a controller: all that it has, and a quorum that says what a test wants."""

    def __init__(self, running) -> None:
        from types import SimpleNamespace

        from stratalog.broker.quorum.leadership import LeaderAndEpoch, QuorumStatus

        self._running = running
        leader = LeaderAndEpoch(running.node.node_id, 1)
        status = QuorumStatus(leader, high_watermark=0, voters=())
        self.quorum = SimpleNamespace(is_active=True, leader=leader, kraft_version=1, describe=lambda: status)
        self.last_leader_id = leader.leader_id
        self._links = []

    def __getattr__(self, name: str):
        return getattr(self._running.node, name)

    def start(self) -> "Controller":
        """Listen."""
        self._running.run(self._listen)
        return self

    async def _listen(self) -> None:
        from stratalog.broker.controller_listener import ControllerListener

        self.listener = ControllerListener(self, self.tick)
        await self.listener.bind()
        await self.listener.accept()

    @property
    def port(self) -> int:
        """Where others connect."""
        return self.listener.server.addresses["CONTROLLER"][1]

    @property
    def running(self):
        """The node, and the thread that it runs in."""
        return self._running

    def link(self):
        """A new connection to the controller."""
        from stratalog.client.link import BrokerLink

        self._links.append(BrokerLink("127.0.0.1", self.port))
        return self._links[-1]

    def stop(self) -> None:
        """Close the listener and the connections."""
        for link in self._links:
            link.close()
        self._running.run(self.listener.close, 0)


CONTROLLER_SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}


@pytest.fixture
def start_controller(start_node):
    """Start controllers with settings of the test's own; all are stopped after it."""
    controllers: list[Controller] = []

    def start(**settings) -> Controller:
        node = start_node(directory=f"controller{len(controllers)}", **{**CONTROLLER_SETTINGS, **settings})
        controllers.append(Controller(node).start())
        return controllers[-1]

    yield start
    for controller in controllers:
        controller.stop()


@pytest.fixture(scope="module")
def shared_controller(start_shared_node):
    """One controller for all tests of a file."""
    controller = Controller(start_shared_node(**CONTROLLER_SETTINGS)).start()
    yield controller
    controller.stop()
