"""Groups through the client, of brokers of any age."""

from __future__ import annotations

import pytest

from stratalog.client.client import Client
from stratalog.client.groups import (
    Committed,
    GroupName,
    commit_offsets,
    committed_offsets,
    delete_group,
    describe_group,
    list_groups,
    set_offsets,
)
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    Member,
    TopicPartitions,
)
from stratalog.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from stratalog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from stratalog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from stratalog.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from stratalog.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from stratalog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from stratalog.wire.records.consumer_protocol import ConsumerProtocolAssignment, OwnedPartitions, encode_protocol
from stratalog.wire.topic import TopicPartition

METADATA, COMMIT, FETCH, FIND, DESCRIBE, LIST, DELETE, DESCRIBE_CONSUMER = 3, 8, 9, 10, 15, 16, 42, 69
PLACE = TopicPartition("t", 2)


@pytest.fixture
def client(scripted):
    """A client of a broker that coordinates every group."""
    scripted.ranges = {
        METADATA: (0, 13), COMMIT: (2, 10), FETCH: (1, 10), FIND: (0, 6), DESCRIBE: (0, 6), LIST: (0, 5),
        DELETE: (0, 2), DESCRIBE_CONSUMER: (0, 1),
    }  # fmt: skip
    one = Coordinator(key="g", node_id=1, host="127.0.0.1", port=scripted.port, error_code=0, error_message=None)
    scripted.answers[FIND] = FindCoordinatorResponse(
        node_id=1, host="127.0.0.1", port=scripted.port, error_code=0, error_message=None, coordinators=[one]
    )
    with Client(scripted.address, 5) as client:
        yield client


def test_groups_of_all_brokers_are_listed(scripted, client) -> None:
    """With type and state; the broker filters."""
    brokers = [MetadataResponseBroker(node_id=1, host="127.0.0.1", port=scripted.port)]
    scripted.answers[METADATA] = MetadataResponse(brokers=brokers, controller_id=1, topics=[])
    groups = [
        ListedGroup(group_id=name, protocol_type="consumer", group_state="Stable", group_type="classic")
        for name in ("b", "a")
    ]
    scripted.answers[LIST] = ListGroupsResponse(groups=groups)
    assert list_groups(client, ["stable"], ["classic"]) == [
        GroupName("a", "classic", "Stable", "consumer"),
        GroupName("b", "classic", "Stable", "consumer"),
    ]
    asked, _ = scripted.requests[-1]
    assert (asked.states_filter, asked.types_filter) == (["stable"], ["classic"])


def classic(state: str = "Stable", **more) -> DescribeGroupsResponse:
    assignment = ConsumerProtocolAssignment(assigned_partitions=[OwnedPartitions(topic="t", partitions=[2])])
    member = DescribedGroupMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        member_metadata=b"",
        member_assignment=encode_protocol(assignment, 3),
    )
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(
                group_id="g",
                group_state=state,
                protocol_type="consumer",
                protocol_data="range",
                members=[member],
                **more,
            )
        ]
    )


def not_consumer() -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedConsumerGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)]
    )


@pytest.mark.parametrize("old", [False, True], ids=["new", "without KIP-848"])
def test_a_classic_group_is_described(scripted, client, old) -> None:
    """Asked for as a consumer group first, where the broker knows of those."""
    if old:
        del scripted.ranges[DESCRIBE_CONSUMER]
    scripted.answers[DESCRIBE_CONSUMER] = not_consumer()
    scripted.answers[DESCRIBE] = classic()
    found = describe_group(client, "g")
    assert (found.type, found.state, found.assignor, found.coordinator) == ("classic", "Stable", "range", 1)
    (member,) = found.members
    assert (member.member_id, member.instance_id, member.epoch, member.partitions) == ("m", "i", None, (PLACE,))


def test_assignments_of_others_are_their_own_matter(scripted, client) -> None:
    """Bytes that are no consumer's assignment are passed over."""
    scripted.answers[DESCRIBE_CONSUMER] = not_consumer()
    scripted.answers[DESCRIBE] = answer = classic()
    answer.groups[0].members[0].member_assignment = b"\0"
    assert describe_group(client, "g").members[0].partitions == ()
    answer.groups[0].protocol_type = "connect"
    answer.groups[0].members[0].member_assignment = b"\0\1connect"
    assert describe_group(client, "g").members[0].partitions == ()


def test_a_consumer_group_is_described(scripted, client) -> None:
    """With the epochs of its members."""
    parts = [TopicPartitions(topic_id=b"t" * 16, topic_name="t", partitions=[2])]
    member = Member(
        member_id="m",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        assignment=Assignment(topic_partitions=parts),
        target_assignment=Assignment(topic_partitions=parts),
    )
    scripted.answers[DESCRIBE_CONSUMER] = ConsumerGroupDescribeResponse(
        groups=[DescribedConsumerGroup(group_id="g", group_state="Stable", assignor_name="uniform", members=[member])]
    )
    found = describe_group(client, "g")
    assert (found.type, found.state, found.assignor) == ("consumer", "Stable", "uniform")
    assert [(one.epoch, one.partitions) for one in found.members] == [(4, (PLACE,))]


@pytest.mark.parametrize(
    "answer", [classic("Dead"), classic("", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="no such group")]
)
def test_a_group_that_is_not_there(scripted, client, answer) -> None:
    """Each answer by which brokers report a missing group raises GROUP_ID_NOT_FOUND."""
    scripted.answers[DESCRIBE_CONSUMER] = not_consumer()
    scripted.answers[DESCRIBE] = answer
    with pytest.raises(KafkaError, match="group g: no") as caught:
        describe_group(client, "g")
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("version", [2, 7, 8, 10])
def test_committed_offsets_are_asked_for_by_name(scripted, client, version) -> None:
    """The request names the only group, or one of many."""
    scripted.ranges[FETCH] = (1, version)
    values = {"partition_index": 2, "committed_offset": 5, "committed_leader_epoch": 3, "metadata": "m"}
    topics = [OffsetFetchResponseTopics(name="t", partitions=[OffsetFetchResponsePartitions(**values)])]
    old = [OffsetFetchResponseTopic(name="t", partitions=[OffsetFetchResponsePartition(**values)])]
    groups = [OffsetFetchResponseGroup(group_id="g", topics=topics)]
    scripted.answers[FETCH] = OffsetFetchResponse(topics=old, groups=groups)
    epoch = 3 if version >= 5 else -1
    assert committed_offsets(client, "g") == {PLACE: Committed(5, epoch, "m")}
    asked, used = scripted.requests[-1]
    assert used == min(version, 9)
    assert (asked.topics if used < 8 else asked.groups[0].topics) is None


def test_an_error_of_the_group(scripted, client) -> None:
    """With its name before it."""
    groups = [OffsetFetchResponseGroup(group_id="g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    scripted.answers[FETCH] = OffsetFetchResponse(groups=groups)
    with pytest.raises(KafkaError, match="group g: group authorization failed"):
        committed_offsets(client, "g")


def test_offsets_are_set_without_being_a_member(scripted, client) -> None:
    """Generation -1 and no member id; the first refusal is raised."""
    partitions = [OffsetCommitResponsePartition(partition_index=2)]
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])
    scripted.answers[COMMIT] = answer
    commit_offsets(client, "g", {PLACE: 5})
    asked, version = scripted.requests[-1]
    assert (version, asked.generation_id_or_member_epoch, asked.member_id) == (9, -1, "")
    assert [(one.partition_index, one.committed_offset) for one in asked.topics[0].partitions] == [(2, 5)]
    partitions[0].error_code = ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError, match="group g, t-2: unknown member id"):
        commit_offsets(client, "g", {PLACE: 5})


def test_refused_offsets_are_returned_beside_those_that_are_set(scripted, client) -> None:
    """A topic was deleted meanwhile, perhaps; while the coordinator moves all are sent again."""
    codes = [[ErrorCode.NOT_COORDINATOR, 0], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]]

    def answer(_request):
        rows = [
            OffsetCommitResponsePartition(partition_index=2 + n, error_code=one) for n, one in enumerate(codes.pop(0))
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=rows)])

    scripted.answers[COMMIT] = answer
    refused = set_offsets(client, "g", {PLACE: 5, TopicPartition("t", 3): 5})
    assert {one: error.code for one, error in refused.items()} == {PLACE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes == []


def test_a_group_is_deleted(scripted, client) -> None:
    """Or the reason why not is raised."""
    scripted.answers[DELETE] = DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g")])
    delete_group(client, "g")
    assert scripted.requests[-1][0].groups_names == ["g"]
    refused = [DeletableGroupResult(group_id="g", error_code=ErrorCode.NON_EMPTY_GROUP)]
    scripted.answers[DELETE] = DeleteGroupsResponse(results=refused)
    with pytest.raises(KafkaError, match="group g: non empty group"):
        delete_group(client, "g")
