"""Commands in a cluster that lacks a broker: what is reached is shown, the rest is named, and the exit code is 4."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stratalog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratalog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

LIST_OFFSETS, METADATA, COMMIT, FETCH_OFFSETS, FIND, DESCRIBE = 2, 3, 8, 9, 10, 15
ENDS = {0: 7, 1: 9}


def _metadata(port: int, leaders) -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(
            partition_index=number,
            leader_id=leader,
            leader_epoch=0,
            replica_nodes=[1],
            isr_nodes=[1],
            offline_replicas=[],
        )
        for number, leader in enumerate(leaders)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port)],
        cluster_id="c",
        controller_id=1,
        topics=[
            MetadataResponseTopic(name=name, topic_id=one * 16, partitions=partitions)
            for name, one in (("orders", b"t"), ("__consumer_offsets", b"c"))
        ],
    )


def _listed(request) -> ListOffsetsResponse:
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(
                    partition_index=one.partition_index, offset=ENDS[one.partition_index] if one.timestamp == -1 else 0
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _committed(_request) -> OffsetFetchResponse:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=number, committed_offset=3, metadata="") for number in (0, 1)
    ]
    topic = OffsetFetchResponseTopics(name="orders", partitions=partitions)
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])


@pytest.fixture
def ask(scripted, monkeypatch):
    """Run a command in a cluster whose broker leads orders-0; orders-1 has no leader, and the group ``lost`` no coordinator."""
    for module in ("client", "coordinators", "reach"):
        monkeypatch.setattr(f"stratalog.client.{module}.REACH_SECONDS", 0.01)

    def find(request) -> FindCoordinatorResponse:
        (key,) = request.coordinator_keys
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if key == "lost" else 0
        found = Coordinator(key=key, node_id=1, host="127.0.0.1", port=scripted.port, error_code=code)
        return FindCoordinatorResponse(coordinators=[found])

    group = DescribedGroup(
        group_id="g", group_state="Empty", protocol_type="consumer", protocol_data="", members=[], error_code=0
    )
    scripted.ranges = {LIST_OFFSETS: (1, 10), METADATA: (0, 12), COMMIT: (2, 9), FETCH_OFFSETS: (1, 9), FIND: (0, 6)}
    scripted.ranges |= {DESCRIBE: (0, 5)}
    scripted.answers |= {
        METADATA: _metadata(scripted.port, [1, -1]),
        LIST_OFFSETS: _listed,
        FIND: find,
        DESCRIBE: DescribeGroupsResponse(groups=[group]),
        FETCH_OFFSETS: _committed,
    }

    def run(*arguments: str):
        result = CliRunner().invoke(cli, [*arguments, "-b", scripted.address])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_consuming_to_the_end_names_what_is_not_read(ask) -> None:
    """Behind the end of orders-0 nothing is to be read; of orders-1 nothing can be."""
    found = ask("consume", "orders", "--exit", "--offset", "latest")
    assert (found.exit_code, found.stdout) == (4, "")
    assert found.stderr == "Not read: orders-1: no leader, because no broker that has the records is active.\n"


def test_a_group_without_coordinator_leaves_the_others_described(ask) -> None:
    """In the order given."""
    found = ask("group", "describe", "lost", "g", "--json")
    assert found.exit_code == 4
    (row,) = map(json.loads, found.stdout.splitlines())
    assert [(one["partition"], one["offset"], one["log_end"]) for one in row["partitions"]] == [(0, 3, 7), (1, 3, None)]
    first, second = found.stderr.splitlines()
    assert first == (
        "Not described: group lost: the coordinator is away: the partition of __consumer_offsets that it keeps this in has "
        "no leader."
    )
    assert second.startswith("Without log end: orders-1: no leader")


def test_offsets_of_reached_partitions_are_set(ask, scripted) -> None:
    """The others stay, which is said."""
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=0)
    topic = OffsetCommitResponseTopic(name="orders", partitions=[partition])
    scripted.answers[COMMIT] = OffsetCommitResponse(topics=[topic])
    found = ask("group", "reset-offsets", "g", "--all-topics", "--to-latest", "--execute", "--json")
    assert found.exit_code == 4
    (row,) = map(json.loads, found.stdout.splitlines())
    assert (row["partition"], row["new_offset"], row["executed"]) == (0, 7, True)
    assert found.stderr.splitlines()[0] == "Set 1 offsets of group g."
    assert found.stderr.splitlines()[1].startswith("Not set: orders-1: no leader")
    sent = [request for request, _ in scripted.requests if type(request).__name__ == "OffsetCommitRequest"]
    assert [one.partition_index for one in sent[0].topics[0].partitions] == [0]
