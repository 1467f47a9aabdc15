"""OffsetCommit: offsets in the coordinator's log, errors where Kafka has them."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import offset_commit
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.requests.dispatch import PENDING
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from stratalog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from stratalog.wire.topic import ZERO_UUID

ID = b"t" * 16


@pytest.fixture(scope="module")
def link(shared_broker):
    """A connection to a broker that coordinates and has a topic of two partitions."""
    shared_broker.create("t", 2)
    found = shared_broker.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    assert found.coordinators[0].error_code == 0
    shared_broker.wait_until(lambda: not shared_broker.node.groups.loading)
    return shared_broker.link()


def request(*topics, group="g", **more):
    """``topics`` are (name or id, partitions)."""
    listed = []
    for name, partitions in topics:
        wanted = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=index + 5, committed_leader_epoch=3, committed_metadata="m"
            )
            for index in partitions
        ]
        named = {"name": name} if isinstance(name, str) else {"topic_id": name}
        listed.append(OffsetCommitRequestTopic(**named, partitions=wanted))
    return OffsetCommitRequest(group_id=group, **{"member_id": "", **more}, topics=listed)


def codes(response):
    return {
        (topic.name or topic.topic_id, one.partition_index): ErrorCode(one.error_code).name
        for topic in response.topics
        for one in topic.partitions
    }


def committed(link, group="g"):
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (answer,) = link.call(request, 9).groups
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.committed_leader_epoch, one.metadata)
        for topic in answer.topics
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_a_commit_names_topics_up_to_version_9(link, version):
    """Every version commits; what does not exist is refused for itself."""
    group = f"named-{version}"
    answer = link.call(request(("t", (0, 7)), ("u", (0,)), group=group), version)
    assert codes(answer) == {
        ("t", 0): "NONE",
        ("t", 7): "UNKNOWN_TOPIC_OR_PARTITION",
        ("u", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert committed(link, group) == {("t", 0): (5, 3 if version >= 6 else -1, "m")}


def test_a_commit_of_version_10_has_topic_ids(link, shared_broker):
    """Version 10 names topics by their ids."""
    known, unknown = shared_broker.node.image.topics.by_name["t"].topic_id, b"?" * 16
    answer = link.call(request((known, (1, 9)), (unknown, (0,)), group="ids"), 10)
    assert codes(answer) == {
        (known, 1): "NONE",
        (known, 9): "UNKNOWN_TOPIC_OR_PARTITION",
        (unknown, 0): "UNKNOWN_TOPIC_ID",
    }
    assert committed(link, "ids") == {("t", 1): (6, 3, "m")}


def test_a_commit_for_unknown_topics_makes_no_group(link):
    """The answer is UNKNOWN_TOPIC_OR_PARTITION, and no group of that name exists afterwards."""
    assert codes(link.call(request(("u", (0,)), group="absent"), 9)) == {("u", 0): "UNKNOWN_TOPIC_OR_PARTITION"}
    assert committed(link, "absent") == {}


@pytest.mark.parametrize(("version", "code"), [(8, "ILLEGAL_GENERATION"), (9, "GROUP_ID_NOT_FOUND")])
def test_group_that_is_gone(link, version, code):
    """A claimed membership is refused for each partition, beside the partitions refused anyway."""
    answer = link.call(request(("t", (0, 7)), group="gone", member_id="m", generation_id_or_member_epoch=1), version)
    assert codes(answer) == {("t", 0): code, ("t", 7): "UNKNOWN_TOPIC_OR_PARTITION"}


def test_empty_group_id(link):
    """Kafka keeps offsets for a group without a name, for clients of old."""
    assert codes(link.call(request(("t", (0,)), group=""), 9)) == {("t", 0): "NONE"}
    assert committed(link, "") == {("t", 0): (5, 3, "m")}


def test_a_text_above_the_limit_is_refused(link):
    """The text of a partition has a limit."""
    wanted = request(("t", (0, 1)), group="text")
    wanted.topics[0].partitions[0].committed_metadata = "x" * 4097
    assert codes(link.call(wanted, 9)) == {("t", 0): "OFFSET_METADATA_TOO_LARGE", ("t", 1): "NONE"}


class Asked:
    """A context and a group coordinator that note what they are asked."""

    def __init__(self, *forbidden, version=9, error=None):
        self.forbidden = forbidden
        self.api_version = version
        topic = SimpleNamespace(name="t", topic_id=ID, partitions={0: None})
        topics = SimpleNamespace(by_name={"t": topic}, by_id={ID: topic})
        self.broker = SimpleNamespace(image=SimpleNamespace(topics=topics), groups=self)
        self.error = error
        self.answer = None
        self.heard = []

    def allows(self, name, operation=Operation.READ, resource=ResourceType.GROUP):
        assert operation is Operation.READ
        return (resource, name) not in self.forbidden

    def respond(self, response):
        self.answer = response

    def ask(self, token, context, group_id, request):
        self.heard.append(request.topics)
        if self.error:
            token.fail(KafkaError(self.error))
            return
        partitions = [OffsetCommitResponsePartition(partition_index=0)]
        topics = [OffsetCommitResponseTopic(name="t", topic_id=ID, partitions=partitions)]
        token.respond(OffsetCommitResponse(topics=topics))

    def submit(self, context, group_id, request):
        self.ask(self, context, group_id, request)


def test_a_commit_without_read_on_the_group_is_refused():
    """Without READ on the group the commit is refused."""
    asked = Asked((ResourceType.GROUP, "g"))
    with pytest.raises(KafkaError) as caught:
        offset_commit.handle(asked, request(("t", (0,))))
    assert caught.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_commit_without_read_on_the_topic_is_refused():
    """Topics that the caller may not read are refused, whether they exist or not."""
    asked = Asked((ResourceType.TOPIC, "t"), (ResourceType.TOPIC, "u"))
    answer = offset_commit.handle(asked, request(("t", (0,)), ("u", (0,))))
    assert codes(answer) == {("t", 0): "TOPIC_AUTHORIZATION_FAILED", ("u", 0): "TOPIC_AUTHORIZATION_FAILED"}
    assert asked.heard == []


def test_group_hears_ids():
    """The group gets the id of a topic that was named, and answers for the topics that are left."""
    asked = Asked()
    assert offset_commit.handle(asked, request(("t", (0,)))) is PENDING
    assert [topic.topic_id for topic in asked.heard[0]] == [ID]
    assert codes(asked.answer) == {("t", 0): "NONE"}
    partly = Asked((ResourceType.TOPIC, "u"))
    assert offset_commit.handle(partly, request(("t", (0,)), ("u", (3,)))) is PENDING
    assert codes(partly.answer) == {("t", 0): "NONE", ("u", 3): "TOPIC_AUTHORIZATION_FAILED"}


def test_failure_is_in_every_partition():
    """The answer has no error of the whole."""
    wanted = request(("t", (0, 1)))
    answer = offset_commit.API.failure(wanted, 9, KafkaError(ErrorCode.NOT_COORDINATOR))
    assert codes(answer) == {("t", 0): "NOT_COORDINATOR", ("t", 1): "NOT_COORDINATOR"}
    assert answer.topics[0].topic_id == ZERO_UUID
    partly = Asked(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    offset_commit.handle(partly, request(("t", (0, 1))))
    assert codes(partly.answer) == {("t", 0): "COORDINATOR_LOAD_IN_PROGRESS", ("t", 1): "UNKNOWN_TOPIC_OR_PARTITION"}
