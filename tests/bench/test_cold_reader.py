"""The benchmark's reader: every offset once, and no mistake overlooked."""

from __future__ import annotations

import pytest

from bench.cold_reader import Readers, read_cold, result_of
from stratalog.client.records import produce_batches
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def topic(start_node):
    """Two partitions of ten batches with five records each."""
    node = start_node()
    node.create("t", 2)
    client = node.client()
    sizes = 0
    for number in range(2):
        for batch in range(10):
            built = build_batch([Record(n, 0, None, b"%d" % (batch + n)) for n in range(5)])
            sizes += len(built)
            produce_batches(client, {TopicPartition("t", number): built}, acks=-1)
    return node.port, sizes


def test_every_reader_reads_its_partition_once(topic):
    """Two readers together read every byte of both partitions, in ten small answers or more."""
    port, size_bytes = topic
    read = read_cold(Readers(port, "t", 50, count=2, partitions=2, fetch_bytes=300))
    assert read.bytes == size_bytes
    assert read.answers >= 10
    assert read.first_ms > 0


def test_a_wrong_partition_is_reported(topic):
    """An error of the broker ends the run."""
    with pytest.raises(SystemExit, match="error 3"):
        read_cold(Readers(topic[0], "t", 50, count=3, partitions=3))


def test_the_result_is_the_last_line():
    """The line READING before the JSON is passed over."""
    text = 'READING\n{"bytes": 10, "seconds": 2, "first_ms": 1, "answers": 3, "empty": 1, "throttled": 0}\n'
    assert result_of(text).megabytes_per_second == 5e-6
