"""Fetches of many partitions that wait for ``min_bytes``: what they have is counted, and only what changed is read again."""

from collections import Counter

import pytest

from stratalog.broker.fetches.found_bytes import FEW, FoundBytes
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

COUNT = FEW + 3


def test_the_sum_follows_each_partition():
    """It counts anew, also if it has less now."""
    found = FoundBytes()
    found.note("a", 5)
    found.note("b", 7)
    found.note("a", 2)
    assert (found.total_bytes, found.without("a"), found.without("c")) == (9, 7, 9)
    found.note("b", 0)
    assert (found.total_bytes, found.without("b")) == (2, 2)


class Waiting:
    """A broker with many partitions, and a fetch of all that waits for so many bytes."""

    def __init__(self, node, monkeypatch, *, in_session, count=COUNT):
        self.node, self.reads = node, Counter()
        node.create("t", count)
        kind = type(node.partition("t"))
        read = kind.read

        def counted(unified, *arguments, **options):
            self.reads[unified.topic_partition.partition] += 1
            return read(unified, *arguments, **options)

        monkeypatch.setattr(kind, "read", counted)
        self.link, self.in_session, self.count = node.link(), in_session, count

    def send(self, min_bytes, **options):
        """The fetch, that waits."""
        session = {"session_epoch": -1}
        if self.in_session:
            session = {"session_id": self.link.call(self.request(session_epoch=0), 12).session_id, "session_epoch": 1}
        self.link.send(self.request(max_wait_ms=9_000, min_bytes=min_bytes, **session, **options), 12)
        self.node.wait_until(lambda: len(self.node.node.purgatory) == 1)
        self.expired = self.node.node.purgatory.expired

    def wake(self, batch):
        """Let partition 0 wake it for the first time: then a fetch without a session looks at all, and knows what each has."""
        self.node.append("t", batch, partition=0)
        self.reads.clear()

    def request(self, *, max_wait_ms=0, min_bytes=1, session_id=0, **options):
        partitions = [
            FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1 << 20) for one in range(self.count)
        ]
        topics = [] if session_id else [FetchTopic(topic="t", partitions=partitions)]
        return FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=min_bytes, session_id=session_id, topics=topics, **options
        )

    def receive(self):
        """The number of batches by partition."""
        answer = self.link.receive()
        assert self.node.node.purgatory.expired == self.expired, "it left when its time was over"
        assert answer.error_code == ErrorCode.NONE
        return {
            one.partition_index: len(list(iter_headers(one.records)))
            for topic in answer.responses
            for one in topic.partitions
            if len(one.records or b"")
        }


@pytest.mark.parametrize("in_session", [False, True])
def test_an_append_has_one_of_many_partitions_read_again(broker, monkeypatch, new_batch, in_session):
    """The bytes of the others are known, so the answer leaves when all together have enough, with everything."""
    waiting = Waiting(broker, monkeypatch, in_session=in_session)
    size_bytes = len(new_batch(b"v"))
    for number in range(COUNT):
        broker.append("t", new_batch(b"v"), partition=number)
    waiting.send((COUNT + 4) * size_bytes)
    waiting.wake(new_batch(b"v"))
    for _ in range(2):
        broker.append("t", new_batch(b"v"), partition=1)
    assert waiting.reads == {1: 2}
    broker.append("t", new_batch(b"v"), partition=2)
    assert waiting.receive() == dict.fromkeys(range(COUNT), 1) | {0: 2, 1: 3, 2: 2}


@pytest.mark.parametrize("in_session", [False, True])
def test_an_error_of_one_of_many_partitions_ends_the_wait(broker, monkeypatch, new_batch, in_session):
    """As it does when all are looked at; the others come with it."""
    waiting = Waiting(broker, monkeypatch, in_session=in_session)
    for number in (1, 2):
        broker.append("t", new_batch(b"v"), partition=number)
    waiting.send(1 << 20)
    part = DeleteRecordsPartition(partition_index=2, offset=1)
    broker.client().call(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=9999)
    )
    assert waiting.receive() == {1: 1}


@pytest.mark.parametrize("in_session", [False, True])
def test_a_batch_that_does_not_fit_ends_the_wait_of_many_partitions(broker, monkeypatch, new_batch, in_session):
    """Records that a limit cuts off would not come by waiting."""
    waiting = Waiting(broker, monkeypatch, in_session=in_session)
    broker.append("t", new_batch(b"v"), partition=1)
    size_bytes = len(new_batch(b"v"))
    waiting.send(4 * size_bytes, max_bytes=4 * size_bytes)
    waiting.wake(new_batch(b"v"))
    broker.append("t", new_batch(b"v"), partition=2)
    assert waiting.reads == {2: 1}
    broker.append("t", new_batch(b"v" * 30), partition=2)
    assert waiting.receive() == {0: 1, 1: 1, 2: 1}
