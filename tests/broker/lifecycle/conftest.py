"""A quorum whose leader a test names, controllers over loopback, and links to them."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.broker.lifecycle.controller_channel import ChannelLimits, ControllerChannel
from stratalog.broker.peers.backoff import Backoff
from stratalog.broker.peers.dialer import TcpDialer
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.broker.peers.peer_state import PeerLimits
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.metadata.raft.voter_set import Endpoint
from tests.broker.peers.conftest import BadNode

LISTENER = "CONTROLLER"


class FakeQuorum:
    """Says what the test wants to all that listen."""

    def __init__(self):
        self.leader = LeaderAndEpoch()
        self.high_watermark = -1
        self._listeners = []

    def on_leader_change(self, listener):
        self._listeners.append(listener)

    def elect(self, node_id, port=0, *, epoch=None, listener=LISTENER, is_active=False):
        """Another leader is known; one below 0: none is."""
        endpoints = (Endpoint("OTHER", "nowhere", 1), Endpoint(listener, "127.0.0.1", port)) if port else ()
        self.leader = LeaderAndEpoch(node_id, self.leader.epoch + 1 if epoch is None else epoch, endpoints)
        for each in self._listeners:
            each(self.leader, is_active)


class FakeController:
    """Answers each request with ``reply(request)``; None leaves it unanswered."""

    def __init__(self, reply):
        self.reply = reply
        self.asked = []

    async def behave(self, node, reader, writer):
        """Serve one connection."""
        await node.agree(reader, writer, 18, 62, 63, 67, 70, 73)
        while True:
            request = await node.receive(reader)
            self.asked.append(request.message)
            answer = self.reply(request.message)
            if answer is not None:
                writer.write(request.answered(answer))

    def messages(self, kind):
        """The requests of one kind."""
        return [one for one in self.asked if isinstance(one, kind)]


@pytest.fixture
def quorum():
    return FakeQuorum()


@pytest.fixture
async def controller():
    """Starts controllers; all are stopped after the test. ``port`` is where one listens."""
    nodes = []

    async def start(reply):
        fake = FakeController(reply)
        nodes.append(await BadNode(fake.behave).start())
        fake.port, fake.node = nodes[-1].port, nodes[-1]
        return fake

    yield start
    for node in nodes:
        await node.stop()


@pytest.fixture
async def new_channel(quorum):
    """Builds channels with short times; all are closed at the end of the test."""
    channels = []
    with ThreadPoolExecutor(2) as pool:

        def link(peer):
            return PeerLink(
                peer,
                dialer=TcpDialer(pool),
                executor=pool,
                monotonic=time.monotonic,
                draw=lambda: 0.5,
                client_id="1",
                limits=PeerLimits(connect=Backoff(2000, 2000), reconnect=Backoff(5, 20)),
            )

        def build(**limits):
            channel = ControllerChannel(
                quorum, listener=LISTENER, new_link=link, monotonic=time.monotonic, limits=ChannelLimits(**limits)
            )
            channels.append(channel)
            return channel

        yield build
        for channel in channels:
            channel.close()
            await channel.wait_closed()


@pytest.fixture
def until():
    """Waits until a question has a true answer."""

    async def wait(ask, seconds=5):
        end = time.monotonic() + seconds
        while not (answer := ask()):
            assert time.monotonic() < end, "what was waited for did not happen"
            await asyncio.sleep(0.002)
        return answer

    return wait
