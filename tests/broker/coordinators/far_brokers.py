"""Other brokers for tests: links whose answers come when the test says, and an image of leaders."""

import asyncio
from types import SimpleNamespace

from stratalog.broker.peers.peer_errors import Peer, PeerUnavailable
from stratalog.metadata.image.brokers_image import ListenerAddress


class FarLinks:
    """In place of `BrokerLinks`."""

    def __init__(self):
        self.asked = []
        """Broker id, request, answer to come."""
        self.unknown = set()
        self.closed = False
        self.followed = 0

    def peer(self, broker_id):
        return None if broker_id < 0 or broker_id in self.unknown else Peer(broker_id, "far", 9092)

    def ask(self, broker_id, request, *, timeout_ms, version_min=0):
        assert timeout_ms > 0
        answer = asyncio.get_running_loop().create_future()
        self.asked.append((broker_id, request, answer))
        return answer

    async def take(self):
        """The next request, its broker and its answer to come."""
        async with asyncio.timeout(5):
            while not self.asked:  # noqa: ASYNC110 - a list
                await asyncio.sleep(0.001)
        return self.asked.pop(0)

    def lose(self, answer):
        answer.set_exception(PeerUnavailable(Peer(2, "far", 9092), "it closed the connection"))

    def follow(self):
        self.followed += 1

    def close(self):
        self.closed = True


def image_of(leaders, brokers=(1, 2, 3), listener="PLAINTEXT", fenced=()):
    """A cluster in which ``leaders`` by topic lead partitions 0, 1, ..."""
    return SimpleNamespace(
        topics=SimpleNamespace(
            by_name={
                name: SimpleNamespace(partitions={n: SimpleNamespace(leader=one) for n, one in enumerate(ids)})
                for name, ids in leaders.items()
            }
        ),
        brokers=SimpleNamespace(
            brokers={
                one: SimpleNamespace(listeners={listener: ListenerAddress(f"host{one}", 9092)}, is_fenced=one in fenced)
                for one in brokers
            }
        ),
    )
