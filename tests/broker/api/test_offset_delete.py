"""OffsetDelete: offsets are gone for good, errors where Kafka has them."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import offset_delete
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from stratalog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


def request(*topics, group="g"):
    """``topics`` are (name, partitions)."""
    listed = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
        )
        for name, partitions in topics
    ]
    return OffsetDeleteRequest(group_id=group, topics=listed)


def codes(response):
    assert response.error_code == 0
    return {
        (topic.name, one.partition_index): ErrorCode(one.error_code).name
        for topic in response.topics
        for one in topic.partitions
    }


def committed(link):
    (answer,) = link.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9).groups
    return [one.partition_index for topic in answer.topics for one in topic.partitions]


def test_deleted_offsets_stay_gone_after_a_restart(broker):
    """Deleted offsets are gone, after a restart too; an offset that does not exist is refused for itself."""
    broker.create("t", 3)
    link = broker.link()
    link.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    broker.wait_until(lambda: not broker.node.groups.loading)
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="")
        for index in range(3)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    link.call(OffsetCommitRequest(group_id="g", member_id="", topics=topics), 9)
    assert codes(link.call(request(("t", (0, 7)), ("u", (0,))), 0)) == {
        ("t", 0): "NONE",
        ("t", 7): "UNKNOWN_TOPIC_OR_PARTITION",
        ("u", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert codes(link.call(request(("t", (1,))), 0)) == {("t", 1): "NONE"}
    assert committed(link) == [2]
    link = broker.restart().link()
    broker.wait_until(lambda: not broker.node.groups.loading)
    assert committed(link) == [2]
    answer = link.call(request(("t", (0,)), group="absent"), 0)
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert link.call(request(("t", (0,)), group=""), 0).error_code == ErrorCode.INVALID_GROUP_ID


class Asked:
    """A context of a caller that may not do everything."""

    api_version = 0

    def __init__(self, *forbidden):
        self.forbidden = forbidden
        self.broker = SimpleNamespace(image=SimpleNamespace(topics=SimpleNamespace(by_name={})), groups=self)
        self.heard = []

    def fail(self, error):
        raise error

    def allows(self, name, operation=Operation.DELETE, resource=ResourceType.GROUP):
        return (resource, operation, name) not in self.forbidden

    def respond(self, response):
        self.answer = response

    def ask(self, token, context, group_id, request):
        self.heard.append(request)
        token.fail(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))


def test_a_deletion_without_the_right_is_refused():
    """The group needs the right to delete."""
    with pytest.raises(KafkaError) as caught:
        offset_delete.handle(Asked((ResourceType.GROUP, Operation.DELETE, "g")), request(("t", (0,))))
    assert caught.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_group_error_stands_alone():
    """The group is asked even when no topic is left, and its error is all of the answer."""
    context = Asked((ResourceType.TOPIC, Operation.READ, "t"))
    with pytest.raises(KafkaError) as caught:
        offset_delete.handle(context, request(("t", (0,))))
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert context.heard[0].topics == []
