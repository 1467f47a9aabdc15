"""Two images are only called the same to a command whose decision is the same on both."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.metadata.controller.controller import NewTopic, create_topics
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.decision import charged_once
from stratalog.metadata.image.same_image import same_everywhere, same_to_resources, same_to_topics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import (
    AccessControlEntryRecord,
    ConfigRecord,
    FenceBrokerRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)

NAMES = ["a.b", "a_b", "a", "b", "c"]


def topic_id(name):
    return name.encode().ljust(16, b"\1")


def change(image, kind, name):
    """One change of an image, if it can be made."""
    there = name in image.topics.by_name
    if kind == "topic":
        if there:
            return image.apply([RemoveTopicRecord(topic_id=topic_id(name))])
        return image.apply([TopicRecord(name=name, topic_id=topic_id(name))])
    if kind == "fence":
        broker = image.brokers.brokers[1]
        record = UnfenceBrokerRecord if broker.is_fenced else FenceBrokerRecord
        return image.apply([record(id=1, epoch=broker.epoch)])
    if kind == "config":
        return image.apply(
            [ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value=str(image.version))]
        )
    if kind == "default":
        return image.apply(
            [ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=str(image.version))]
        )
    return image.apply([ProducerIdsRecord(broker_id=1, next_producer_id=image.next_producer_id + 1)])


CHANGES = st.lists(
    st.tuples(st.sampled_from(["topic", "topic", "fence", "config", "default", "ids"]), st.sampled_from(NAMES)),
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixtures only make immutable values
@given(
    before=CHANGES,
    later=CHANGES,
    wanted=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
)
def test_a_decision_about_topics_is_the_same_where_the_image_is(cluster, rules, before, later, wanted):
    """For any changes between: names, collisions of names, brokers, settings of all."""
    image = cluster(1)
    for each in before:
        image = change(image, *each)
    now = image
    for each in later:
        now = change(now, *each)

    def decide(on):
        decision = create_topics(
            on, [NewTopic(name) for name in wanted], rules, new_topic_id=lambda: bytes(16), next_int=lambda _: 0
        )
        return decision.records, [
            outcome.code if hasattr(outcome, "code") else outcome.partition_count for _, outcome in decision.result
        ]

    if same_to_topics(wanted)(image, now):
        assert decide(image) == decide(now)
        assert image.configs.of(CLUSTER_DEFAULT) == now.configs.of(CLUSTER_DEFAULT)
    elif not later:
        raise AssertionError("nothing has changed")


def test_unrelated_changes_do_not_count(cluster):
    """Another topic, its settings, ids of producers and access rules; they count where nothing may change at all."""
    image = cluster(1)
    rule = AccessControlEntryRecord(
        id=bytes(16),
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    others = [change(image, "topic", "b"), change(image, "config", "b"), change(image, "ids", "b"), image.apply([rule])]
    for now in others:
        assert same_to_topics(["a"])(image, now)
        assert not same_everywhere(image, now)
    assert same_everywhere(image, image.apply([]))
    assert not same_to_topics(["a_b"])(image, change(image, "topic", "c"))


def test_settings_of_brokers_and_of_the_resources_count(cluster):
    """Those of the resource itself, of each broker, of all brokers."""
    image = cluster(1)
    same = same_to_resources([ConfigResource.topic("a"), ConfigResource(32, "group")])
    for kind, name, counts in ((2, "a", True), (2, "b", False), (32, "group", True), (4, "1", True), (4, "", True)):
        now = image.apply([ConfigRecord(resource_type=kind, resource_name=name, name="x", value="1")])
        assert same(image, now) is not counts


def test_all_topics_count_where_the_settings_of_all_brokers_change(cluster):
    """Another minimum of the cluster writes records of any topic: one that came, went or changed has other ones."""
    image = cluster(1)
    image = change(change(image, "topic", "a"), "topic", "b")
    same = same_to_resources([CLUSTER_DEFAULT, ConfigResource(32, "group")])
    for kind, name, counts in (("topic", "a", True), ("topic", "c", True), ("config", "b", False), ("ids", "b", False)):
        assert same(image, change(image, kind, name)) is not counts
    assert same_to_resources([ConfigResource.topic("a")])(image, change(image, "topic", "b"))


def test_a_command_that_is_decided_twice_is_charged_once():
    """Each decision's permit lets pass what was paid for; what is beyond is charged, or refused as at first."""
    charged = []

    def permit(count):
        if sum(charged) > 5:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        charged.append(count)

    permits = charged_once(permit)
    first = permits()
    first(2)
    first(3)
    second = permits()
    second(4)
    assert sum(charged) == 5
    second(3)
    assert sum(charged) == 7
    third = permits()
    third(7)
    try:
        third(1)
    except KafkaError as error:
        assert error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    else:
        raise AssertionError("it was not refused")
    assert sum(charged) == 7
