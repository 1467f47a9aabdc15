"""Requests about very many partitions: brokers bound the elements of one, and close its connection beyond that."""

from __future__ import annotations

import time

import pytest

from stratalog.broker.embedded import EmbeddedBroker, LoopThread
from stratalog.client.admin import create_topic
from stratalog.client.client import LATEST_OFFSET, Client
from stratalog.client.groups import commit_offsets, committed_offsets
from stratalog.client.records import NewRecord, Producer, fetch
from stratalog.wire.topic import TopicPartition

COUNT = 1010
PARTITIONS = [TopicPartition("t", number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a broker that takes a thousand elements in a request, and has a topic of more partitions."""
    thread = LoopThread()
    settings = {"stratalog.request.elements.max": "1000", "offsets.topic.num.partitions": "1"}
    broker = EmbeddedBroker(str(tmp_path_factory.mktemp("many")), thread, settings).start()
    with Client(f"127.0.0.1:{broker.port}", 30) as client:
        create_topic(client, "t", partition_count=COUNT)
        yield client
    broker.discard()
    thread.close()


def test_records_are_written_and_read_in_all_of_them(client) -> None:
    """By several requests to the one leader; only the last one waits for more."""
    records = [NewRecord(b"%d" % number, 5, partition=number) for number in range(COUNT)]
    assert len(Producer(client, "t").send(records)) == COUNT
    assert set(client.list_offsets(dict.fromkeys(PARTITIONS, LATEST_OFFSET)).values()) == {(1, -1, 0)}
    found = {one.topic_partition: len(one.data) for one in fetch(client, dict.fromkeys(PARTITIONS, 0))}
    assert set(found) == set(PARTITIONS)
    assert min(found.values()) > 0


def test_a_fetch_of_several_requests_waits_for_none_that_brings_nothing_beside_others(client) -> None:
    """Each poll of a consumer would take as long as it may wait, also while records come."""
    create_topic(client, "quiet", partition_count=COUNT)
    quiet = [TopicPartition("quiet", number) for number in range(COUNT)]
    Producer(client, "quiet").send([NewRecord(b"x", 5, partition=0)])
    began = time.monotonic()
    found = fetch(client, dict.fromkeys(quiet, 0), max_wait_ms=20_000)
    assert (len(found), sum(bool(one.data) for one in found)) == (COUNT, 1)
    assert time.monotonic() - began < 10


def test_a_fetch_of_several_requests_brings_no_more_than_one_may(client) -> None:
    """A reader of ten thousand partitions would hold a gigabyte; of each request one batch may be beyond it."""
    create_topic(client, "large", partition_count=COUNT)
    large = [TopicPartition("large", number) for number in range(COUNT)]
    Producer(client, "large").send([NewRecord(b"x" * 1000, 5, partition=number) for number in range(COUNT)])
    found = fetch(client, dict.fromkeys(large, 0), max_bytes=100_000)
    assert {one.topic_partition for one in found} == set(large)
    assert 90_000 < sum(len(one.data) for one in found) < 110_000


def test_offsets_are_committed_for_all_of_them(client) -> None:
    """By several requests to the coordinator."""
    commit_offsets(client, "g", dict.fromkeys(PARTITIONS, 1))
    assert {one: found.offset for one, found in committed_offsets(client, "g").items()} == dict.fromkeys(PARTITIONS, 1)


def test_very_many_topics_may_be_asked_for(client) -> None:
    """Those that are not there are left out, and none may be asked for at all."""
    names = ["t", *(f"absent-{number}" for number in range(COUNT))]
    assert [one.name for one in client.refresh(names, skip_missing=True)] == ["t"]
    assert client.refresh([]) == []
