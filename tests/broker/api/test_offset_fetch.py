"""OffsetFetch: the offsets of one group and of many, in every version."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.api import offset_fetch
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ID, GONE_ID = b"t" * 16, b"?" * 16
NOTHING = (-1, -1, "", "NONE")


@pytest.fixture(scope="module")
def link(shared_broker):
    """A connection to a broker where groups g and h have committed offset 5 of t-0, with leader epoch and text."""
    shared_broker.create("t", 2)
    shared_broker.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    shared_broker.wait_until(lambda: not shared_broker.node.groups.loading)
    link = shared_broker.link()
    for group in ("g", "h"):
        one = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_leader_epoch=3, committed_metadata="m"
        )
        topics = [OffsetCommitRequestTopic(name="t", partitions=[one])]
        answer = link.call(OffsetCommitRequest(group_id=group, member_id="", topics=topics), 9)
        assert answer.topics[0].partitions[0].error_code == 0
    return link


def legacy(*partitions, group="g", **more):
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(partitions))] if partitions else None
    return OffsetFetchRequest(group_id=group, topics=topics, **more)


def of_group(group="g", *topics, **more):
    """``topics`` are (name or id, partitions); none of them are all."""
    wanted = [
        OffsetFetchRequestTopics(
            **({"name": name} if isinstance(name, str) else {"topic_id": name}), partition_indexes=list(partitions)
        )
        for name, partitions in topics
    ]
    return OffsetFetchRequestGroup(group_id=group, topics=wanted or None, **more)


def found(answer):
    return {
        (topic.name or getattr(topic, "topic_id", ""), one.partition_index): (
            one.committed_offset, one.committed_leader_epoch, one.metadata, ErrorCode(one.error_code).name,
        )
        for topic in answer.topics
        for one in topic.partitions
    }  # fmt: skip


@pytest.mark.parametrize("version", range(1, 8))
def test_old_versions_answer_one_group(link, version):
    """Until version 7 one group: -1 where nothing is committed; leader epochs since 5."""
    epoch = 3 if version >= 5 else -1
    answer = link.call(legacy(0, 1), version)
    assert found(answer) == {("t", 0): (5, epoch, "m", "NONE"), ("t", 1): NOTHING}
    if version >= 2:
        assert answer.error_code == 0
        assert found(link.call(legacy(), version)) == {("t", 0): (5, epoch, "m", "NONE")}
        assert found(link.call(legacy(group="absent"), version)) == {}
    assert found(link.call(legacy(0, group="absent"), version)) == {("t", 0): NOTHING}


@pytest.mark.parametrize("version", [8, 9])
def test_each_group_of_a_request_has_its_own_answer(link, version):
    """Since version 8 each group of a request answers for itself, in the order asked."""
    wanted = [of_group("h"), of_group("absent", ("u", (2,))), of_group("g", ("t", (0, 1)))]
    answer = link.call(OffsetFetchRequest(groups=wanted, require_stable=True), version)
    assert [one.group_id for one in answer.groups] == ["h", "absent", "g"]
    assert [found(one) for one in answer.groups] == [
        {("t", 0): (5, 3, "m", "NONE")},
        {("u", 2): NOTHING},
        {("t", 0): (5, 3, "m", "NONE"), ("t", 1): NOTHING},
    ]
    assert link.call(OffsetFetchRequest(groups=[]), version).groups == []


def test_version_10_asks_and_answers_by_topic_id(link, shared_broker):
    """Version 10 asks and answers by ids; an unknown one is an error of its partitions."""
    topic_id = shared_broker.node.image.topics.by_name["t"].topic_id
    wanted = [of_group("g", (topic_id, (0,)), (GONE_ID, (1,))), of_group("h")]
    answer = link.call(OffsetFetchRequest(groups=wanted), 10)
    assert found(answer.groups[0]) == {
        (topic_id, 0): (5, 3, "m", "NONE"),
        (GONE_ID, 1): (-1, -1, "", "UNKNOWN_TOPIC_ID"),
    }
    assert found(answer.groups[1]) == {(topic_id, 0): (5, 3, "m", "NONE")}


def test_member_of_another_group(link):
    """A member id is looked at only where the group has members of the new protocol."""
    answer = link.call(OffsetFetchRequest(groups=[of_group("g", member_id="m", member_epoch=3)]), 9)
    assert found(answer.groups[0]) == {("t", 0): (5, 3, "m", "NONE")}


def _at_once():
    """The module beside this one."""
    spec = importlib.util.spec_from_file_location("at_once", Path(__file__).with_name("at_once.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.AtOnce


AtOnce = _at_once()


class Asked(AtOnce):
    """A context and a group coordinator that answers with offset 7 of t-0 and gone-1, or with an error."""

    def __init__(self, version, *forbidden, error=None):
        self.api_version = version
        self.forbidden = forbidden
        topic = SimpleNamespace(name="t", topic_id=ID, partitions={0: None})
        topics = SimpleNamespace(by_name={"t": topic}, by_id={ID: topic})
        self.broker = SimpleNamespace(image=SimpleNamespace(topics=topics), groups=self)
        self.error = error
        self.answer = None
        self.heard = []

    def allows(self, name, operation=Operation.DESCRIBE, resource=ResourceType.GROUP):
        assert operation is Operation.DESCRIBE
        return (resource, name) not in self.forbidden

    def respond(self, response):
        assert self.answer is None
        self.answer = response

    def ask(self, token, context, group_id, request):
        self.heard.append(request)
        if self.error:
            token.fail(KafkaError(self.error))
            return
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[OffsetFetchResponsePartitions(partition_index=index, committed_offset=7, metadata="")],
            )
            for name, index in (("t", 0), ("gone", 1))
        ]
        token.respond(OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=group_id, topics=topics)]))


def asked(version, request, *forbidden, error=None):
    context = Asked(version, *forbidden, error=error)
    offset_fetch.handle(context, request)
    return context


def test_a_forbidden_group_is_an_error_beside_the_others():
    """A group that the caller may not describe is an error of its own; the others answer."""
    context = asked(8, OffsetFetchRequest(groups=[of_group("g"), of_group("h")]), (ResourceType.GROUP, "g"))
    assert [ErrorCode(one.error_code).name for one in context.answer.groups] == ["GROUP_AUTHORIZATION_FAILED", "NONE"]
    assert [one.group_id for one in context.heard] == ["h"]


def test_a_forbidden_topic_is_an_error_if_named_and_left_out_else():
    """A request that names topics gets errors for those that the caller
    may not describe; of all topics they are left out.
    """
    hidden = (ResourceType.TOPIC, "gone")
    named = asked(8, OffsetFetchRequest(groups=[of_group("g", ("gone", (1,)))]), hidden)
    assert named.heard[0].topics == []
    assert found(named.answer.groups[0])["gone", 1] == (-1, -1, "", "TOPIC_AUTHORIZATION_FAILED")
    everything = asked(8, OffsetFetchRequest(groups=[of_group("g")]), hidden)
    assert found(everything.answer.groups[0]) == {("t", 0): (7, -1, "", "NONE")}


def test_topics_without_id():
    """Offsets of topics that have no id any more are missing in answers by id."""
    context = asked(10, OffsetFetchRequest(groups=[of_group("g")]))
    assert [(topic.name, topic.topic_id) for topic in context.answer.groups[0].topics] == [("t", ID)]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_an_error_stands_where_the_version_has_a_place_for_it(version):
    """An error of the group stands beside it, before version 8 beside the topics, in version 1 in each partition."""
    request = OffsetFetchRequest(groups=[of_group("g")]) if version >= 8 else legacy(0, 1)
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    for answer in (
        asked(version, request, error=error.code).answer,
        offset_fetch.API.failure(request, version, error),
    ):
        if version >= 8:
            assert [(one.group_id, one.error_code, one.topics) for one in answer.groups] == [("g", error.code, [])]
        elif version >= 2:
            assert (answer.error_code, answer.topics) == (error.code, [])
        else:
            assert found(answer) == dict.fromkeys([("t", 0), ("t", 1)], (-1, -1, "", "NOT_COORDINATOR"))


def test_the_group_gets_the_request():
    """Member, epoch and whether offsets of open transactions will do."""
    topics = (("t", (0,)),)
    request = OffsetFetchRequest(groups=[of_group("g", *topics, member_id="m", member_epoch=4)], require_stable=True)
    (heard,) = asked(9, request).heard
    assert (heard.group_id, heard.member_id, heard.member_epoch, heard.require_stable) == ("g", "m", 4, True)
    assert [(one.name, list(one.partitions)) for one in heard.topics] == [("t", [0])]
