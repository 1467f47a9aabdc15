"""Shared by all kinds of fetches: reading one partition, and waiting. More in tests/broker/api/test_fetch.py."""

import errno
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def request(topic_id, *, wait_ms=0, min_bytes=1, offset=0, **options):
    """A fetch of one partition, from the beginning unless told otherwise."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[partition])],
        **options,
    )


@pytest.mark.parametrize("in_session", [False, True])
def test_a_disk_that_fails_while_a_woken_fetch_reads_is_reported_once(
    broker, new_batch, monkeypatch, caplog, in_session
):
    """The failure calls everybody who waits on that disk, also the fetch that has just met it."""
    topic_id = broker.create("t").topic_id
    broker.append("t", new_batch(b"not enough"))
    link, session = broker.link(), {}
    if in_session:
        opened = link.call(request(topic_id, session_epoch=0), 18)
        assert len(opened.responses[0].partitions[0].records)
        session = {"session_id": opened.session_id, "session_epoch": 1}
    link.send(request(topic_id, wait_ms=25_000, min_bytes=9999, **session), 18)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    unified = broker.partition("t")

    def read(*args, **options):
        raise OSError(errno.EIO, "the disk is broken")

    with monkeypatch.context() as patch:
        patch.setattr(type(unified), "read", read)
        broker.run(lambda: [watcher() for watcher in tuple(unified.partition.watchers)])
        (partition,) = link.receive().responses[0].partitions
    assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(broker.node.purgatory) == 0
    assert "a waiting request failed" not in caplog.text


def test_a_request_for_nothing_does_not_wait(broker):
    """No event could ever complete it."""
    broker.create("t")
    answer = broker.link().call(FetchRequest(max_wait_ms=25_000, min_bytes=1, topics=[]), 18)
    assert (answer.error_code, answer.responses) == (0, [])


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_reader_that_has_everything_reads_nothing(broker, new_batch, monkeypatch, isolation_level):
    """Where nothing can be, the log is not asked, and the answer tells its marks all the same."""
    topic_id = broker.create("t").topic_id
    broker.append("t", new_batch(b"one", b"two"))
    link = broker.link()
    with monkeypatch.context() as patch:
        patch.delattr(type(broker.partition("t")), "read")
        answer = link.call(request(topic_id, offset=2, isolation_level=isolation_level), 18)
    (partition,) = answer.responses[0].partitions
    assert (partition.error_code, bytes(partition.records)) == (0, b"")
    assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (2, 2, 0)
    assert partition.aborted_transactions == ([] if isolation_level else None)
    (partition,) = link.call(request(topic_id, offset=3), 18).responses[0].partitions
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_reader_that_has_everything_lets_its_archived_chunks_go(broker, new_batch, isolation_level):
    """Where a log is archived to its end no local read follows that would. Also by the shortcut that many such requests make."""
    topic_id = broker.create("t").topic_id
    broker.append("t", new_batch(b"one"))
    link, unified, crossings = broker.link(), broker.partition("t"), []
    unified.remote = SimpleNamespace(crossed=lambda *crossing: crossings.append(crossing))
    for _ in range(9):
        crossings.clear()
        link.call(request(topic_id, offset=1, wait_ms=1, isolation_level=isolation_level), 18)
        connection = crossings[-1][0][0]
        assert crossings[-1] == ((connection, unified), 1)
    assert connection.shortcut is not None
    unified.remote = None


def test_a_reader_that_is_sent_elsewhere_lets_its_archived_chunks_go(broker, new_batch, monkeypatch):
    """It has read the archive here, and goes on at a follower."""
    topic_id = broker.create("t").topic_id
    broker.append("t", new_batch(b"one"))
    unified, crossings = broker.partition("t"), []
    unified.remote = SimpleNamespace(crossed=lambda reader, offset: crossings.append((reader[1], offset)))
    monkeypatch.setattr("stratalog.broker.fetches.fetch_attempt.elsewhere", lambda *_asked: lambda *_reader: 7)
    (partition,) = broker.link().call(request(topic_id, rack_id="b"), 18).responses[0].partitions
    assert (partition.preferred_read_replica, crossings) == (7, [(unified, 0)])
    unified.remote = None


@pytest.mark.parametrize(("remote", "patient"), [("tu", True), ("t", False), ("u", False), ("", False)])
def test_a_fetch_answered_from_the_archive_alone_is_patient(broker, new_batch, monkeypatch, remote, patient):
    """One hot partition among them, in whatever place, and the answer is in a hurry; so is a hot one after a cold one."""
    topics = []
    for name in "tu":
        topic_id = broker.create(name).topic_id
        broker.append(name, new_batch(b"one"))
        topics += request(topic_id).topics
    read, connections = type(broker.partition("t")).read, []

    def read_remote(unified, reader, offset, **options):
        connections.append(reader[0])
        return replace(read(unified, reader, offset, **options), remote=unified.topic_partition.topic in remote)

    link = broker.link()
    with monkeypatch.context() as patch:
        patch.setattr(type(broker.partition("t")), "read", read_remote)
        link.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 18)
    assert [one.patient for one in connections] == [patient] * 2
    link.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 18)
    assert not connections[0].patient
