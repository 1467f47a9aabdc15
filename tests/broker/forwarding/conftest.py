"""A broker, a controller, and the test's own way between them."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.broker.forwarding import forwarder as module
from stratalog.broker.forwarding.forwarder import Forwarder
from stratalog.broker.peers.dialer import TcpDialer
from stratalog.broker.peers.peer_errors import Peer
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest


class Channel:
    """A link to one controller, or to none while ``port`` is None; a test may put an outcome in front of it."""

    def __init__(self, executor) -> None:
        self.executor = executor
        self.port = None
        self.link = None
        self.outcomes = []
        self.asked = []
        self.refused = []

    def connect(self, port):
        """From now on requests go there."""
        self.port = port
        self.link = self.new_link(Peer(1, "127.0.0.1", port))

    def new_link(self, peer):
        """A link to a node."""
        return PeerLink(
            peer,
            dialer=TcpDialer(self.executor),
            executor=self.executor,
            monotonic=asyncio.get_running_loop().time,
            draw=random.Random(1).random,
            client_id="b",
        )

    def ask(self, request, *, timeout_ms, version=None):
        """Send it, unless a test wants otherwise."""
        self.asked.append((request, timeout_ms))
        if not self.outcomes:
            return self.link.ask(request, timeout_ms=timeout_ms, version=version)
        outcome = self.outcomes.pop(0)
        future = asyncio.get_running_loop().create_future()
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        elif outcome is not None:
            future.set_result(outcome)
        return future

    def not_controller(self, leader_epoch):
        """Note it."""
        self.refused.append(leader_epoch)


class Pair:
    """A broker that forwards to a controller."""

    def __init__(self, broker, controller, executor, limits) -> None:
        self.broker, self.controller = broker, controller
        self.channel = Channel(executor)
        self.active = False
        self.leader_epochs = [7]
        """The epoch that is known before each request, and after it; the last one stays."""

        def build():
            self.channel.connect(controller.port)
            self.forwarder = Forwarder(
                self.channel,
                is_active=lambda: self.active,
                leader_epoch=lambda: self.leader_epochs[min(len(self.channel.asked), len(self.leader_epochs) - 1)],
                monotonic=broker.node.clock.monotonic,
                versions=lambda: self.channel.link.versions,
                limits=limits,
            )
            broker.node.dispatcher.forward_by(self.forwarder)

        broker.run(build)

    def close(self):
        """Let go of the link, and of the topics: the next test has the same nodes."""
        self.broker.run(self.channel.link.close)
        self.active = True
        for link, node in ((self.controller.link(), self.controller), (self.broker.link(), self.broker.node)):
            names = list(node.image.topics.by_name)
            answer = link.call(DeleteTopicsRequest(topic_names=names, timeout_ms=1000), 5)
            assert {each.error_code for each in answer.responses} <= {0}


@pytest.fixture
def new_pair(shared_broker, shared_controller):
    """A broker and a controller, which all tests share; the way between them is the test's own."""
    pairs = []
    with ThreadPoolExecutor(2) as executor:

        def start(limits=None):
            pairs.append(Pair(shared_broker, shared_controller, executor, limits))
            return pairs[-1]

        yield start
        for pair in pairs:
            pair.close()


@pytest.fixture
def pair(new_pair):
    """A way with default limits."""
    return new_pair()


@pytest.fixture
def quick(monkeypatch):
    """No pauses, and little time."""
    monkeypatch.setattr(module, "BACKOFF_MS", 1)
    monkeypatch.setattr(module, "RETRY_MS", 400)
