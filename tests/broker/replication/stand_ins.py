"""Stand-ins of the other side: a leader that answers when the test says so, and a role without a log."""

import asyncio

from stratalog.broker.replicas.log_position import LogPosition
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.messages.fetch import FetchRequest
from stratalog.wire.topic import TopicPartition

TOPIC_ID = b"i" * 16


class Links:
    """Requests to other brokers, each with the future of its answer."""

    def __init__(self):
        self.asked = []
        self.timeouts_ms = []
        self.followed = self.closed = 0

    def ask(self, broker_id, request, *, timeout_ms, version_min=0):
        future = asyncio.get_running_loop().create_future()
        self.asked.append((broker_id, request, future))
        self.timeouts_ms.append(timeout_ms)
        return future

    def follow(self):
        self.followed += 1

    def close(self):
        self.closed += 1

    def fetches(self):
        """The fetches so far, newest last."""
        return [request for _, request, _ in self.asked if isinstance(request, FetchRequest)]

    def newest(self):
        """The broker, the request and the future of the newest request."""
        return self.asked[-1]


class Role:
    """A follower's role that takes every answer."""

    def __init__(self, number=0, leader_id=7, epoch=5):
        self.topic_partition = TopicPartition("t", number)
        self.key = PartitionKey(TOPIC_ID, number)
        self.leader_id, self.epoch = leader_id, epoch
        self.position = LogPosition(0, -1, 0)
        self.answers = []
        self.moved = self.begun = self.evicted = None
        self.segments = self.local_start = 0
        self.is_overtaken = False
        self.cleaner_epoch = None

    def settle(self, outcome):
        outcome.taken(self, self.position)

    def take(self, data, outcome):
        self.answers.append(bytes(data.records))
        self.position = LogPosition(self.position.offset + len(data.records), self.epoch, 0)
        outcome.taken(self, self.position)

    def begin_behind(self, offset, leader_epochs, producer_snapshot, log_start_offset):
        self.begun = (offset, leader_epochs, producer_snapshot, log_start_offset)
        self.position = LogPosition(offset, 4, log_start_offset)

    def evictable(self, offset):
        return self.local_start, offset

    def evict_below(self, offset):
        self.evicted = offset
        self.segments -= self.segments > 0
        return self.segments > 0

    def move_into(self, start, end):
        self.moved = (start, end)
        self.position = LogPosition(start, -1, start)


async def turns(count=5):
    """Let the loop do what is due."""
    for _ in range(count):
        await asyncio.sleep(0)
