"""Creating, growing and deleting topics."""

import pytest
from msgspec import structs

from stratalog.metadata.controller.controller import (
    CreatedTopic,
    Failure,
    NewPartitions,
    NewTopic,
    TopicRules,
    create_partitions,
    create_topics,
    delete_topics,
    fence_broker,
    new_partitions,
    register_broker,
    resolve_topic,
)
from stratalog.metadata.image.directory_ids import UNASSIGNED
from stratalog.metadata.settings.configs import ConfigResolver, ConfigSource
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ConfigRecord, PartitionRecord, TopicRecord
from stratalog.wire.topic import ZERO_UUID


@pytest.fixture
def create(rules, topic_ids):
    """Create topics in an image by the default rules."""

    def run(image, *topics, **options):
        options = {"new_topic_id": topic_ids, "next_int": lambda _: 0, "rules": rules} | options
        return create_topics(image, topics, options.pop("rules"), **options)

    return run


def _only(decision):
    assert len(decision.result) == 1
    return decision.result[0][1]


def test_a_topic_becomes_records_in_kafkas_order(cluster, create):
    """TopicRecord, then its settings, then its partitions, all with the injected id."""
    topic = NewTopic("flights", 2, 1, configs={"retention.ms": "-1"})
    decision = create(cluster(1), topic)
    assert [type(record) for record in decision.records] == [
        TopicRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    created = _only(decision)
    assert isinstance(created, CreatedTopic)
    assert (created.topic_id, created.partition_count, created.replication_factor) == ((1).to_bytes(16, "big"), 2, 1)
    image = cluster(1).apply(decision.records)
    partition = image.topics.partition("flights", 1)
    assert (partition.replicas, partition.in_sync_replicas, partition.leader, partition.leader_epoch) == (
        (1,),
        (1,),
        1,
        0,
    )
    assert partition.directories == image.brokers.brokers[1].directories
    assert image.topic_configs("flights") == {"retention.ms": "-1"}


def test_the_answer_shows_the_settings_that_will_hold(cluster, create):
    """Every topic setting with its source, as CreateTopics v5 answers."""
    created = _only(create(cluster(1), NewTopic("t", configs={"retention.ms": "5"})))
    assert isinstance(created, CreatedTopic)
    assert created.configs["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert created.configs["segment.ms"].is_default


def test_minus_one_takes_the_defaults(cluster, create, rules):
    """Partitions and replication factor of -1 are num.partitions and default.replication.factor."""
    ours = structs.replace(rules, default_partition_count=3, default_replication_factor=2)
    created = _only(create(cluster(1, 2), NewTopic("t"), rules=ours))
    assert isinstance(created, CreatedTopic)
    assert (created.partition_count, created.replication_factor) == (3, 2)


def test_replication_factor_above_live_brokers_is_refused(cluster, create):
    """INVALID_REPLICATION_FACTOR with Kafka's sentence."""
    assert _only(create(cluster(1), NewTopic("t", 1, 3))) == Failure(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only "
        "1 broker(s) are registered or some brokers have all their log directories cordoned.",
    )


def test_no_topic_without_a_living_broker(cluster, create):
    """All fenced: the topic could not be led."""
    image = cluster(1)
    image = image.apply(fence_broker(image, 1, unclean_allowed=lambda _: False).records)
    failure = _only(create(image, NewTopic("t")))
    assert failure.message.startswith(
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or"
    )


_BOTH = "A manual partition assignment was specified, but {} was not set to -1."


@pytest.mark.parametrize(
    ("topic", "code", "sentence"),
    [
        (
            NewTopic("t", 0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            NewTopic("t", 1, 0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
        (
            NewTopic("__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            NewTopic("t", assignments=[(0, [1])], replication_factor=1),
            ErrorCode.INVALID_REQUEST,
            _BOTH.format("replication factor"),
        ),
        (
            NewTopic("t", assignments=[(0, [1])], partition_count=1),
            ErrorCode.INVALID_REQUEST,
            _BOTH.format("numPartitions"),
        ),
        (
            NewTopic("t", assignments=[(0, [])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            NewTopic("t", assignments=[(0, [9])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            NewTopic("t", assignments=[(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            NewTopic("t", assignments=[(0, [1, 2]), (1, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent "
                "with previous partitions, which have 2 replica(s)."
            ),
        ),
        (
            NewTopic("t", assignments=[(0, [1]), (0, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("t", assignments=[(0, [1]), (2, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("t", configs={"retention.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (NewTopic("t", configs={"x": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: x"),
        (
            NewTopic("t", 10_001),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_sentence(cluster, create, topic, code, sentence):
    """No record is written, and the answer says why."""
    decision = create(cluster(1, 2), topic)
    failure = _only(decision)
    assert decision.records == ()
    assert failure.code is code
    assert sentence is None or failure.message == sentence


def test_a_manual_assignment_is_kept_as_given(cluster, create):
    """The first broker of a partition leads it, whatever the order of the partitions."""
    image = cluster(1, 2, 3)
    decision = create(image, NewTopic("t", assignments=[(1, [3, 1]), (0, [2, 3])]))
    image = image.apply(decision.records)
    assert image.topics.partition("t", 0).replicas == (2, 3)
    assert image.topics.partition("t", 1).leader == 3


def test_a_fenced_broker_of_an_assignment_is_not_in_sync(cluster, create):
    """The first living one leads; an assignment of fenced brokers only is refused."""
    image = cluster(1, 2)
    image = image.apply(fence_broker(image, 1, unclean_allowed=lambda _: False).records)
    after = image.apply(create(image, NewTopic("t", assignments=[(0, [1, 2])])).records)
    assert after.topics.partition("t", 0).leader == 2
    assert after.topics.partition("t", 0).in_sync_replicas == (2,)
    failure = _only(create(image, NewTopic("u", assignments=[(0, [1])])))
    assert "are fenced or in controlled shutdown" in failure.message


def test_an_existing_name_is_refused(cluster, create):
    """TOPIC_ALREADY_EXISTS, with the name."""
    image = cluster(1)
    image = image.apply(create(image, NewTopic("t")).records)
    assert _only(create(image, NewTopic("t"))) == Failure(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")


def test_names_that_collide_in_metrics_are_refused(cluster, create):
    """Against existing topics and within one request."""
    image = cluster(1)
    image = image.apply(create(image, NewTopic("a.b")).records)
    assert _only(create(image, NewTopic("a_b"))) == Failure(
        ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b"
    )
    decision = create(image, NewTopic("c_d"), NewTopic("c.d"))
    assert [isinstance(result, Failure) for _, result in decision.result] == [False, True]


def test_a_name_given_twice_is_refused_once(cluster, create):
    """Neither of the two is created."""
    decision = create(cluster(1), NewTopic("t"), NewTopic("t", 3), NewTopic("u"))
    results = dict(decision.result)
    assert results["t"] == Failure(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert isinstance(results["u"], CreatedTopic)
    assert len(decision.result) == 2


def test_one_bad_topic_does_not_stop_the_others(cluster, create):
    """Each topic has its own answer."""
    decision = create(cluster(1), NewTopic("bad", 0), NewTopic("good"))
    assert [isinstance(result, Failure) for _, result in decision.result] == [True, False]
    assert "good" in cluster(1).apply(decision.records).topics.by_name


def test_validate_only_answers_without_records(cluster, create):
    """The answer is that of the real thing."""
    decision = create(cluster(1), NewTopic("t", 4), validate_only=True)
    assert decision.records == ()
    assert _only(decision).partition_count == 4


def test_a_policy_may_refuse(cluster, create, rules):
    """POLICY_VIOLATION with the policy's own words."""
    strict = TopicRules(resolver=ConfigResolver.for_topics(), policy=lambda topic: f"no {topic.name} here")
    assert _only(create(cluster(1), NewTopic("t"), rules=strict)) == Failure(ErrorCode.POLICY_VIOLATION, "no t here")


def test_a_broker_with_several_directories_chooses_itself(cluster, create, start_of):
    """The directory stays unassigned until the broker reports it (KIP-858)."""
    image = cluster()
    image = image.apply(
        register_broker(image, start_of(1, directories=2), broker_epoch=5, unclean_allowed=lambda _: False).records
    )
    image = image.apply(create(image, NewTopic("t")).records)
    assert image.topics.partition("t", 0).directories == (UNASSIGNED,)


class TestNewPartitions:
    """More partitions for a topic."""

    @pytest.fixture
    def image(self, cluster, create):
        image = cluster(1, 2)
        return image.apply(create(image, NewTopic("t", 2, 2)).records)

    def test_partitions_are_added_behind_the_present_ones(self, image):
        """Numbers go on, the replication factor stays."""
        after = image.apply(new_partitions(image, "t", 4, None, next_int=lambda _: 0).records)
        partitions = after.topics.by_name["t"].partitions
        assert set(partitions) == {0, 1, 2, 3}
        assert len(partitions[3].replicas) == 2
        assert partitions[0] is image.topics.by_name["t"].partitions[0]

    def test_an_assignment_is_kept_as_given(self, image):
        """The caller says where they go."""
        after = image.apply(new_partitions(image, "t", 3, [[2, 1]], next_int=lambda _: 0).records)
        assert after.topics.partition("t", 2).replicas == (2, 1)

    @pytest.mark.parametrize(
        ("name", "total", "assignments", "code", "sentence"),
        [
            ("u", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
            ("t", 2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
            (
                "t",
                1,
                None,
                ErrorCode.INVALID_PARTITIONS,
                "The topic t currently has 2 partition(s); 1 would not be an increase.",
            ),
            (
                "t",
                4,
                [[1, 2]],
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
            ),
            (
                "t",
                3,
                [[1]],
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                (
                    "The manual partition assignment includes a partition with 1 replica(s), but this is not "
                    "consistent with previous partitions, which have 2 replica(s)."
                ),
            ),
        ],
    )
    def test_a_count_that_is_no_increase_is_refused(self, image, name, total, assignments, code, sentence):
        """Kafka's codes and sentences."""
        with pytest.raises(KafkaError) as caught:
            new_partitions(image, name, total, assignments, next_int=lambda _: 0)
        assert (caught.value.code, caught.value.message) == (code, sentence)


class TestDeleteTopics:
    """Deletion by name and by id."""

    @pytest.fixture
    def image(self, cluster, create):
        image = cluster(1)
        return image.apply(create(image, NewTopic("a"), NewTopic("b")).records)

    def test_topics_go_by_name_or_by_id(self, image):
        """The answer says both of each."""
        ids = {name: topic.topic_id for name, topic in image.topics.by_name.items()}
        decision = delete_topics(image, [("a", ZERO_UUID), (None, ids["b"])])
        assert decision.result == (("a", ids["a"], None), ("b", ids["b"], None))
        assert image.apply(decision.records).topics.by_name == {}

    def test_a_recreated_topic_has_another_id(self, image, create):
        """The old id is gone for good."""
        old = image.topics.by_name["a"].topic_id
        image = image.apply(delete_topics(image, [("a", ZERO_UUID)]).records)
        image = image.apply(create(image, NewTopic("a")).records)
        assert image.topics.by_name["a"].topic_id != old
        assert old not in image.topics.by_id

    @pytest.mark.parametrize(
        ("name", "topic_id", "code", "sentence"),
        [
            ("x", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
            (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
            (None, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
            ("a", b"x" * 16, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        ],
    )
    def test_a_target_that_is_none_is_refused(self, image, name, topic_id, code, sentence):
        """An unknown id is UNKNOWN_TOPIC_ID, not UNKNOWN_TOPIC_OR_PARTITION."""
        decision = delete_topics(image, [(name, topic_id)])
        assert decision.records == ()
        assert decision.result == ((name, topic_id, Failure(code, sentence)),)
        with pytest.raises(KafkaError):
            resolve_topic(image, name, topic_id)

    def test_a_topic_named_twice_stays(self, image):
        """As in Kafka: who asks for the same thing twice may have meant another. It is answered once."""
        topic_id = image.topics.by_name["a"].topic_id
        for target, sentence in (
            (("a", ZERO_UUID), "Duplicate topic name."),
            ((None, topic_id), "Duplicate topic id."),
            (("no", ZERO_UUID), "Duplicate topic name."),
        ):
            decision = delete_topics(image, [target, ("b", ZERO_UUID), target])
            assert decision.result[0] == (*target, Failure(ErrorCode.INVALID_REQUEST, sentence))
            assert (decision.result[1][2], len(decision.result), len(decision.records)) == (None, 2, 1)

    @pytest.mark.parametrize("times", [1, 2])
    def test_a_topic_named_by_its_name_and_by_its_id_stays(self, image, times):
        """In either order."""
        topic_id = image.topics.by_name["a"].topic_id
        targets = [("a", ZERO_UUID), *[(None, topic_id)] * times]
        for named in (targets, targets[::-1]):
            decision = delete_topics(image, named)
            assert {failure.code for _, _, failure in decision.result} == {ErrorCode.INVALID_REQUEST}
            assert (decision.records, len(decision.result)) == ((), times)

    def test_deletion_can_be_switched_off(self, image):
        """TOPIC_DELETION_DISABLED for the whole request."""
        with pytest.raises(KafkaError) as caught:
            delete_topics(image, [("a", ZERO_UUID)], enabled=False)
        assert caught.value.code is ErrorCode.TOPIC_DELETION_DISABLED


def test_a_permit_is_asked_for_every_partition_made_or_deleted(cluster, rules, topic_ids):
    """Topic by topic, after all other checks; what it refuses does not happen, and the others do."""
    image = cluster(1)
    asked = []

    def permit(count):
        asked.append(count)
        if count > 4:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many")

    wanted = [NewTopic("a", 2), NewTopic("b", 5), NewTopic("b!", 3), NewTopic("c", 4)]
    decision = create_topics(image, wanted, rules, new_topic_id=topic_ids, next_int=lambda _: 0, permit=permit)
    assert asked == [2, 5, 4]
    assert [name for name, result in decision.result if isinstance(result, Failure)] == ["b", "b!"]
    image = image.apply(decision.records)
    assert set(image.topics.by_name) == {"a", "c"}
    asked.clear()
    more = [NewPartitions("a", 9, None), NewPartitions("c", 5, None)]
    image = image.apply(create_partitions(image, more, next_int=lambda _: 0, permit=permit).records)
    counts = {name: len(topic.partitions) for name, topic in image.topics.by_name.items()}
    assert (asked, counts) == ([7, 1], {"a": 2, "c": 5})
    asked.clear()
    targets = [("a", bytes(16)), ("c", bytes(16)), ("gone", bytes(16))]
    image = image.apply(delete_topics(image, targets, permit=permit).records)
    assert (asked, set(image.topics.by_name)) == ([2, 5], {"c"})
