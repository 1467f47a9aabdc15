"""Links to nodes, and a node that behaves as badly as a test wants."""

import asyncio
import contextlib
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.broker.peers.backoff import Backoff
from stratalog.broker.peers.dialer import TcpDialer
from stratalog.broker.peers.peer_errors import Peer
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.broker.peers.peer_state import PeerLimits
from stratalog.wire.frame import decode_request_header, encode_response
from stratalog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from stratalog.wire.messages.registry import APIS
from stratalog.wire.schema import decode, encode_bytes

QUICK = {"connect": Backoff(2000, 2000), "reconnect": Backoff(5, 20)}


@pytest.fixture
def executor():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def new_link(executor):
    """Builds links with short times; to be closed by the test or at its end."""
    links = []

    def build(port, *, host="127.0.0.1", node_id=2, dialer=None, limits=None, **options):
        link = PeerLink(
            Peer(node_id, host, port),
            dialer=dialer or TcpDialer(executor),
            executor=executor,
            monotonic=time.monotonic,
            draw=lambda: 0.5,
            client_id="tester",
            limits=PeerLimits(**{**QUICK, **(limits or {})}),
            **options,
        )
        links.append(link)
        return link

    yield build
    for link in links:
        assert link._state.phase.value == "closed" or link.requests == 0, f"{link!r} was left with requests"


class Received:
    """One request as a `BadNode` got it."""

    def __init__(self, frame):
        self.key, self.version = struct.unpack_from(">hh", frame)
        kind = APIS[self.key].request
        header = decode_request_header(memoryview(frame), flexible=self.version >= kind.flexible_since)
        self.correlation_id = header.correlation_id
        self.message = decode(kind, self.version, frame, header.body_position)

    def answered(self, answer, *, correlation_id=None, version=None):
        """The bytes of an answer to it."""
        version = self.version if version is None else version
        flexible = version >= answer.flexible_since and self.key != 18
        number = self.correlation_id if correlation_id is None else correlation_id
        return b"".join(encode_response(number, [encode_bytes(answer, version)], flexible=flexible))


class BadNode:
    """A server on the test's loop: ``behave(node, reader, writer)`` does as it likes with each connection."""

    def __init__(self, behave):
        self.behave = behave
        self.connections = 0
        self.received = []
        self.ended = 0
        self._writers = []

    async def start(self, port=0):
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader, writer):
        self.connections += 1
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self.behave(self, reader, writer)
        self.ended += 1
        writer.close()

    async def receive(self, reader):
        """The next request."""
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        self.received.append(Received(await reader.readexactly(length)))
        return self.received[-1]

    async def agree(self, reader, writer, *keys):
        """Answer ApiVersions with these keys in all the versions that are declared."""
        request = await self.receive(reader)
        assert request.key == 18
        rows = [ApiVersion(api_key=key, min_version=0, max_version=APIS[key].request.versions[1]) for key in keys]
        writer.write(request.answered(ApiVersionsResponse(api_keys=rows)))

    async def stop(self):
        """End all connections."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()


@pytest.fixture
async def bad_node():
    """Starts nodes that behave badly; all are stopped after the test."""
    nodes = []

    async def start(behave, port=0):
        nodes.append(await BadNode(behave).start(port))
        return nodes[-1]

    yield start
    for node in nodes:
        await node.stop()
