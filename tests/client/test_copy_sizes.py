"""The bytes of a new copy: all of a log, or its part behind the archive."""

import pytest

from stratalog.client.client import Client
from stratalog.client.copy_sizes import CopySize, copy_sizes
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stratalog.wire.topic import TopicPartition
from tests.client import told_topics as told


def directory(name, rows, code=0):
    """``rows`` of (partition, bytes, lag, future)."""
    partitions = [
        DescribeLogDirsPartition(partition_index=n, partition_size=size, offset_lag=lag, is_future_key=future)
        for n, size, lag, future in rows
    ]
    return DescribeLogDirsResult(
        error_code=code, log_dir=name, topics=[DescribeLogDirsTopic(name="t", partitions=partitions)]
    )


@pytest.fixture
def cluster(scripted):
    """One broker that leads partitions 0 to 3 of t; 4 has no leader."""
    scripted.ranges = {2: (1, 11), 3: (0, 13), 18: (0, 4), 35: (1, 5)}
    rows = [(1, (1, 2), (1,), ())] * 4 + [(-1, (2,), (2,), (2,))]
    scripted.answers[3] = told.metadata(scripted.port, (1,), {"t": rows})

    def offsets(request):
        part = request.topics[0].partitions
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="t",
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=one.partition_index, offset=600 if one.timestamp == -4 else 1000
                        )
                        for one in part
                    ],
                )
            ]
        )

    scripted.answers[2] = offsets
    scripted.answers[35] = DescribeLogDirsResponse(
        results=[
            directory("/a", [(0, 500, 0, False), (1, 8000, 0, False)]),
            directory("/b", [(2, 40, 0, False), (1, 9, 0, True), (7, 1, 0, False)]),
            directory("/c", [(3, 7, 0, False)], ErrorCode.KAFKA_STORAGE_ERROR),
            directory("remote://", [(1, 70_000, 100, False)]),
        ]
    )
    return scripted


def test_a_tiered_partition_copies_what_is_behind_its_archive(cluster):
    """100 of the 400 local records are not archived: a quarter of the bytes. The archive stays in the bucket."""
    with Client(cluster.address, 3) as client:
        sizes, unknown = copy_sizes(client, client.refresh())
    assert sizes == {
        TopicPartition("t", 0): CopySize(500),
        TopicPartition("t", 1): CopySize(2000, 70_000),
        TopicPartition("t", 2): CopySize(40),
    }
    assert unknown == {TopicPartition("t", 3), TopicPartition("t", 4)}


def test_a_leader_that_is_away_tells_no_size(cluster):
    """The plan goes on without."""
    cluster.answers[35] = None
    with Client(cluster.address, 1) as client:
        sizes, unknown = copy_sizes(client, client.refresh())
    assert (sizes, len(unknown)) == ({}, 5)
