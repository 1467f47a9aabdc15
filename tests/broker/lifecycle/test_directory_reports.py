"""Reports of directories over loopback."""

import time

import pytest

from stratalog.broker.lifecycle.directory_reports import DirectoryReports
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectoryResult,
    AssignedPartitionResult,
    AssignedTopicResult,
    AssignReplicasToDirsResponse,
)

A, B = b"a" * 16, b"b" * 16
TOPIC, OTHER = b"t" * 16, b"o" * 16


def asked(request):
    """The directory of each replica in a request."""
    return {
        (bytes(topic.topic_id), partition.partition_index): bytes(directory.id)
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    }


def answered(request, errors):
    """An answer with these errors of partitions, and success for the others."""
    return AssignReplicasToDirsResponse(
        directories=[
            AssignedDirectoryResult(
                id=directory.id,
                topics=[
                    AssignedTopicResult(
                        topic_id=topic.topic_id,
                        partitions=[
                            AssignedPartitionResult(
                                partition_index=one.partition_index, error_code=errors.get(one.partition_index, 0)
                            )
                            for one in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


@pytest.fixture
def reports(new_channel, quorum):
    """The reports of broker 4 in its epoch 17."""
    built = DirectoryReports(
        broker_id=4,
        broker_epoch=lambda: 17,
        channel=new_channel(),
        quorum=quorum,
        monotonic=time.monotonic,
        draw=lambda: 0.0,
        timeout_ms=2000,
    )
    yield built
    built.close()


async def test_the_controller_hears_of_each_replica(reports, controller, quorum, until):
    """In one request by directory and topic; refused ones and refused requests are repeated."""
    refusals = [ErrorCode.NOT_CONTROLLER, {2: ErrorCode.UNKNOWN_TOPIC_ID}, {}]

    def reply(request):
        refusal = refusals.pop(0)
        if isinstance(refusal, dict):
            return answered(request, refusal)
        return AssignReplicasToDirsResponse(error_code=refusal, directories=[])

    node = await controller(reply)
    quorum.elect(9, node.port)
    reports.placed(TOPIC, 0, A)
    reports.placed(TOPIC, 1, A)
    reports.placed(OTHER, 2, B)
    reports.placed(OTHER, 3, B)
    reports.gone(OTHER, 3)
    assert reports.waiting == 3
    await until(lambda: not reports.waiting)
    whole = {(TOPIC, 0): A, (TOPIC, 1): A, (OTHER, 2): B}
    assert [asked(one) for one in node.asked] == [whole, whole, {(OTHER, 2): B}]
    assert (node.asked[0].broker_id, node.asked[0].broker_epoch) == (4, 17)
    assert [len(each.topics) for each in node.asked[0].directories] == [1, 1]


async def test_a_lost_connection_is_no_loss(reports, controller, quorum, until):
    """The next controller hears of it."""
    silent, node = await controller(lambda _: None), await controller(lambda request: answered(request, {}))
    quorum.elect(1, silent.port)
    reports.placed(TOPIC, 0, A)
    await until(lambda: silent.asked)
    quorum.elect(2, node.port)
    await until(lambda: not reports.waiting)
    assert asked(node.asked[0]) == {(TOPIC, 0): A}
