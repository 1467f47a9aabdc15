"""The requests with which committed offsets are measured."""

import struct

from bench.cells.offset_commits import answer_frame, commit_frame
from bench.cells.offset_load import COORDINATOR_PARTITIONS, one_group_of_each_partition
from stratalog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from stratalog.wire.partitioner import coordinator_partition
from stratalog.wire.schema import decode


def test_frames():
    """A commit of one partition, and the answer that says that it is done."""
    frame = commit_frame("g", 7)
    assert struct.unpack_from(">ihhih", frame) == (len(frame) - 4, 8, 9, 7, -1)
    request = decode(OffsetCommitRequest, 9, frame, 15)
    assert [one.partition_index for topic in request.topics for one in topic.partitions] == [7]
    answer = answer_frame(7)
    assert struct.unpack_from(">ii", answer) == (len(answer) - 4, 7)
    response = decode(OffsetCommitResponse, 9, answer, 9)
    assert [(one.partition_index, one.error_code) for one in response.topics[0].partitions] == [(7, 0)]


def test_groups_of_every_partition():
    """Together they are coordinated by all partitions."""
    groups = one_group_of_each_partition()
    assert {coordinator_partition(group, COORDINATOR_PARTITIONS) for group in groups} == set(range(50))
    assert len(groups) == 50
