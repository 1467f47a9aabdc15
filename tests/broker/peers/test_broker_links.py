"""Tests of broker/coordinators/broker_links.py: one link a broker, to the address that it has now."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.peers.peer_errors import Peer, PeerUnavailable
from tests.broker.coordinators.far_brokers import image_of


class Link:
    """Keeps what is asked."""

    def __init__(self, peer):
        self.peer, self.asked, self.closed = peer, [], False

    def ask(self, request, *, timeout_ms, version_min):
        self.asked.append((request, timeout_ms, version_min))
        return asyncio.get_running_loop().create_future()

    def close(self):
        self.closed = True


@pytest.fixture
def made():
    """Links, those that were made, and the image that they look at."""
    held = SimpleNamespace(image=image_of({}), links=[])

    def new_link(peer):
        held.links.append(Link(peer))
        return held.links[-1]

    held.by_broker = BrokerLinks(lambda: held.image, listener="PLAINTEXT", new_link=new_link)
    return held


async def test_each_broker_has_one_link(made):
    """To its listener for other brokers."""
    for request in "ab":
        made.by_broker.ask(2, request, timeout_ms=10, version_min=4)
    made.by_broker.ask(3, "c", timeout_ms=10)
    assert [(one.peer, one.asked) for one in made.links] == [
        (Peer(2, "host2", 9092), [("a", 10, 4), ("b", 10, 4)]),
        (Peer(3, "host3", 9092), [("c", 10, 0)]),
    ]
    made.by_broker.close()
    assert all(one.closed for one in made.links)


async def test_a_broker_without_an_address_is_not_available(made):
    """Not registered, or without that listener."""
    made.image = image_of({}, brokers=[2], listener="OTHER")
    for broker_id in (2, 9):
        assert made.by_broker.peer(broker_id) is None
        with pytest.raises(PeerUnavailable, match="knows no address"):
            await made.by_broker.ask(broker_id, "a", timeout_ms=10)
    assert made.links == []


async def test_links_follow_the_addresses(made):
    """A request in flight at the old one fails at once; a broker that stays keeps its link."""
    made.by_broker.ask(2, "a", timeout_ms=10)
    made.by_broker.ask(3, "a", timeout_ms=10)
    moved = image_of({}, brokers=[3])
    made.image = moved
    made.by_broker.follow()
    assert [one.closed for one in made.links] == [True, False]
    moved.brokers.brokers[3].listeners.clear()
    made.image = image_of({}, brokers=[2, 3])
    made.image.brokers.brokers[3].listeners["PLAINTEXT"] = made.image.brokers.brokers[2].listeners["PLAINTEXT"]
    made.by_broker.ask(3, "b", timeout_ms=10)
    assert [one.closed for one in made.links] == [True, True, False]
    assert made.links[2].peer == Peer(3, "host2", 9092)
