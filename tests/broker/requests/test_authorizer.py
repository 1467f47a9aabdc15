"""Permissions, without rules and with them."""

from functools import partial

import pytest

from stratalog.broker.requests import authorizer
from stratalog.broker.requests.authorizer import AllowAll, Operation, ResourceType, StandardAuthorizer, authorizer_of
from stratalog.broker.settings.config import ConfigRefused, load_config
from stratalog.metadata.access.acl_rules import AclRule, PatternType, Permission
from stratalog.metadata.access.acls import AclsImage
from stratalog.metadata.controller.acls import create_acls
from stratalog.metadata.controller.controller import NewTopic, create_topics
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ANONYMOUS, HERE = "User:ANONYMOUS", "127.0.0.1"
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def rule(name="t", operation=Operation.READ, permission=Permission.ALLOW, principal=ANONYMOUS):
    return AclRule(TOPIC, name, PatternType.LITERAL, principal, "*", operation, permission)


def of(*rules):
    return AclsImage.of({bytes([number]) * 16: one for number, one in enumerate(rules)})


def test_everything_is_allowed_without_an_authorizer():
    """Any operation on any resource by anybody."""
    for operation in Operation:
        for resource in ResourceType:
            assert AllowAll().allows(ANONYMOUS, "10.0.0.1", operation, resource, "x")


def test_numbers_are_kafkas():
    """The codes go over the wire in DescribeAcls and in authorized operations."""
    assert (Operation.READ, Operation.DESCRIBE_CONFIGS, Operation.TWO_PHASE_COMMIT) == (3, 10, 15)
    assert (ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.USER) == (2, 4, 7)


@pytest.fixture
def settings(tmp_path):
    """Loads the settings of a broker."""

    def load(**values):
        named = [f"{name.replace('_', '.')}={value}" for name, value in values.items()]
        return load_config(environment={}, assignments=[f"log.dirs={tmp_path}", *named], host_name="localhost")

    return load


def test_rules_of_now_decide():
    """A change of the rules counts at once; an answer is kept until then."""
    rules = of(rule())
    one = StandardAuthorizer(lambda: rules, super_users=frozenset(), without_rules=False)
    for _ in range(2):
        assert one.allows(ANONYMOUS, HERE, Operation.READ, TOPIC, "t")
        assert not one.allows(ANONYMOUS, HERE, Operation.WRITE, TOPIC, "t")
        assert not one.allows(ANONYMOUS, HERE, Operation.READ, ResourceType.GROUP, "t")
    rules = of(rule(permission=Permission.DENY), rule(operation=Operation.WRITE))
    assert not one.allows(ANONYMOUS, HERE, Operation.READ, TOPIC, "t")
    assert one.allows(ANONYMOUS, HERE, Operation.WRITE, TOPIC, "t")


def test_kept_answers_do_not_pile_up(monkeypatch):
    """Callers choose the names."""
    monkeypatch.setattr(authorizer, "DECISIONS_MAX", 3)
    one = StandardAuthorizer(lambda: EMPTY, super_users=frozenset(), without_rules=True)
    for number in range(10):
        assert one.allows(ANONYMOUS, HERE, Operation.READ, TOPIC, str(number))
        assert len(one._permitted) <= 3
        assert one.allows_some(f"User:{number}", HERE, Operation.WRITE, TOPIC)
        assert len(one._some) <= 3


def test_long_names_are_not_kept():
    """Names of groups may have 32 KiB."""
    one = StandardAuthorizer(lambda: EMPTY, super_users=frozenset(), without_rules=True)
    assert one.allows(ANONYMOUS, HERE, Operation.READ, ResourceType.GROUP, "x" * 250)
    assert not one._permitted


EMPTY = of()


def test_settings_choose_the_authorizer(settings):
    """Without settings there is none; super users and the answer without rules are Kafka's."""
    assert authorizer_of(settings(), of) is None
    one = authorizer_of(settings(authorizer_class_name=NAME, super_users="User:a; User:b"), of)
    assert one.allows("User:b", HERE, Operation.ALTER, CLUSTER, "kafka-cluster")
    assert not one.allows(ANONYMOUS, HERE, Operation.READ, TOPIC, "t")
    named = {"authorizer_class_name": NAME, "allow.everyone.if.no.acl.found": "true"}
    assert authorizer_of(settings(**named), of).allows(ANONYMOUS, HERE, Operation.READ, TOPIC, "t")


def test_an_authorizer_that_is_not_built_in_stops_the_start(settings):
    """A broker that looks guarded and is not would be worse."""
    with pytest.raises(ConfigRefused, match=r"authorizer\.class\.name"):
        settings(authorizer_class_name="com.example.MyAuthorizer")


@pytest.fixture
def guarded(start_node):
    """A broker whose rules decide where there are any; adds rules for everybody on a topic."""
    node = start_node(**{"authorizer.class.name": NAME, "allow.everyone.if.no.acl.found": "true"})

    def add(operation, permission, name="t", kind=TOPIC):
        creation = AclCreation(
            resource_type=kind,
            resource_name=name,
            principal="User:*",
            host="*",
            operation=operation,
            permission_type=permission,
        )
        (result,) = node.link().call(CreateAclsRequest(creations=[creation]), 3).results
        assert result.error_code == 0, result.error_message

    node.add = add
    return node


def test_a_denied_topic_is_neither_written_nor_read(guarded):
    """Also by a producer whose requests took the short way before."""
    guarded.create("t")
    assert guarded.produce("t", b"x") == [0]
    assert guarded.values("t") == [b"x"]
    guarded.add(Operation.WRITE, Permission.DENY)
    guarded.add(Operation.READ, Permission.ALLOW)
    with pytest.raises(KafkaError, match=r"(?i)authori") as caught:
        guarded.produce("t", b"y")
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert guarded.values("t") == [b"x"]
    guarded.add(Operation.READ, Permission.DENY)
    with pytest.raises(KafkaError):
        guarded.values("t")


def test_a_hidden_topic_is_left_out(guarded):
    """A hidden topic is neither listed nor deleted; after a restart the rules still hold. DELETE on the cluster would be DELETE on it."""
    guarded.create("t")
    guarded.create("u")
    guarded.add(Operation.ALL, Permission.DENY)
    guarded.add(Operation.DELETE, Permission.DENY, "kafka-cluster", CLUSTER)
    for _ in range(2):
        answer = guarded.link().call(MetadataRequest(topics=None), 12)
        assert [topic.name for topic in answer.topics] == ["u"]
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
        (deleted,) = guarded.link().call(request, 6).responses
        assert deleted.error_code in {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        guarded.restart()
    assert "t" in guarded.node.image.topics.by_name


def test_the_cluster_may_be_closed(guarded):
    """Also to those who would add rules: no rule of it allows that."""
    guarded.add(Operation.CREATE, Permission.DENY)
    guarded.add(Operation.CREATE, Permission.DENY, "kafka-cluster", CLUSTER)
    with pytest.raises(KafkaError) as caught:
        guarded.create("t")
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(AssertionError, match="ALTER on the cluster is denied"):
        guarded.add(Operation.ALTER, Permission.ALLOW, "kafka-cluster", CLUSTER)


def test_a_read_only_broker_refuses_every_change():
    """Reading and describing as the rules say; groups are its own; nothing else, whatever the rules say."""
    config = load_config(assignments=["stratalog.read.only=true"], environment={})
    guard = authorizer_of(config, AclsImage)
    assert guard.allows(ANONYMOUS, HERE, Operation.READ, TOPIC, "t")
    assert guard.allows(ANONYMOUS, HERE, Operation.DESCRIBE_CONFIGS, CLUSTER, "kafka-cluster")
    assert guard.allows(ANONYMOUS, HERE, Operation.DELETE, ResourceType.GROUP, "g")
    for operation in (Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS):
        assert not guard.allows(ANONYMOUS, HERE, operation, TOPIC, "t")
        assert not guard.allows(ANONYMOUS, HERE, operation, CLUSTER, "kafka-cluster")
    assert not guard.allows(ANONYMOUS, HERE, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "t")
    denying = authorizer.ReadOnly(StandardAuthorizer(AclsImage, super_users=frozenset(), without_rules=False))
    assert not denying.allows(ANONYMOUS, HERE, Operation.READ, TOPIC, "t")


@pytest.mark.story
def test_a_denied_topic_is_not_read_as_it_was_either(guarded):
    """Views go by the rules of the topic they show, whichever way they are spelled."""
    guarded.create("t")
    views = (f"t@{2**40}", "t@2000-01-01", "t..at..2000-01-01")
    guarded.client().refresh([views[1], views[2]])
    guarded.add(Operation.READ, Permission.DENY)
    guarded.add(Operation.DESCRIBE, Permission.DENY)
    for name in views:
        (topic,) = guarded.link().call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9).topics
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError, match=r"(?i)authori|unknown"):
            guarded.values(name)


@pytest.fixture
def closed(start_node):
    """A broker that refuses what no rule allows; adds permissions for everyone. Rules cannot be added by requests."""
    node = start_node(**{"authorizer.class.name": NAME, "super.users": "User:root"})

    def add(operation, name="t", kind=TOPIC, permission=Permission.ALLOW):
        one = AclRule(kind, name, PatternType.LITERAL, "User:*", "*", operation, permission)
        node.run(lambda: node.node.control.execute(partial(create_acls, rules=[one], new_id=node.node.new_topic_id)))

    node.add = add
    return node


def codes(topics):
    return [topic.error_code for topic in topics]


def creation(name):
    wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[wanted], timeout_ms=1000)


def test_write_permission_on_any_topic_allows_idempotence(closed):
    """The older permission on the cluster allows it, too; nothing else does (KIP-679)."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    for version in (0, 5):
        assert closed.link().call(request, version).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    closed.add(Operation.READ)
    assert closed.link().call(request, 5).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    closed.add(Operation.WRITE, "somewhere")
    assert closed.link().call(request, 5).error_code == ErrorCode.NONE
    closed.add(Operation.WRITE, "*", permission=Permission.DENY)
    assert closed.link().call(request, 5).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    closed.add(Operation.IDEMPOTENT_WRITE, "kafka-cluster", CLUSTER)
    assert closed.link().call(request, 5).error_code == ErrorCode.NONE


def test_every_client_sees_the_brokers(closed):
    """The operations on the cluster are shown to those who may describe it; others see none."""
    wanted = DescribeClusterRequest(include_cluster_authorized_operations=True)
    for version in (0, 1, 2):
        answer = closed.link().call(wanted, version)
        assert (answer.error_code, len(answer.brokers), answer.cluster_authorized_operations) == (0, 1, 0)
    unasked = closed.link().call(DescribeClusterRequest(include_cluster_authorized_operations=False), 2)
    assert unasked.cluster_authorized_operations == -(2**31)
    closed.add(Operation.DESCRIBE, "kafka-cluster", CLUSTER)
    assert closed.link().call(wanted, 2).cluster_authorized_operations == 1 << Operation.DESCRIBE


def test_a_hidden_topic_looks_like_one_that_is_absent(closed):
    """To producers, readers, and those who would delete it, by name."""
    closed.add(Operation.CREATE, "kafka-cluster", CLUSTER)
    assert codes(closed.link().call(creation("t"), 7).topics) == [0]
    names = ("t", "absent")
    batch = bytes(build_batch([Record(0, 1, None, b"x")]))
    data = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)]) for name in names
    ]
    produced = closed.link().call(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 12)
    denied = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert [topic.partition_responses[0].error_code for topic in produced.responses] == denied
    parts = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)]
    topics = [FetchTopic(topic=name, partitions=parts) for name in names]
    fetched = closed.link().call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 12)
    assert [topic.partitions[0].error_code for topic in fetched.responses] == denied
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1000)
    assert codes(closed.link().call(deletion, 6).responses) == denied
    closed.add(Operation.DESCRIBE, "absent")
    found = {one.name: one.error_code for one in closed.link().call(deletion, 6).responses}
    assert found == {"t": denied[0], "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert "t" in closed.node.image.topics.by_name
    topic_id = closed.node.image.topics.by_name["t"].topic_id
    by_id = [MetadataRequestTopic(name=None, topic_id=topic_id)]
    (told,) = closed.link().call(MetadataRequest(topics=by_id), 12).topics
    assert (told.error_code, told.name) == (denied[0], None)
    closed.add(Operation.DESCRIBE)
    assert sorted(codes(closed.link().call(deletion, 6).responses)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, denied[0]]
    closed.add(Operation.DELETE, "kafka-cluster", CLUSTER)
    assert sorted(codes(closed.link().call(deletion, 6).responses)) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_topic_that_is_made_while_its_deletion_waits_is_not_deleted_by_those_who_may_not(closed, monkeypatch):
    """Its id was not known when the caller's right to delete it was asked for."""
    topic_id, node = b"k" * 16, closed.node
    execute = node.control.execute

    async def in_its_turn(decide, **named):
        """Another command comes first."""
        wanted, rules = [NewTopic("t", 1, 1)], node.topic_rules()
        made = {"new_topic_id": lambda: topic_id, "next_int": node.random_int}
        await execute(lambda image: create_topics(image, wanted, rules, **made))
        return await execute(decide, **named)

    monkeypatch.setattr(node.control, "execute", in_its_turn)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=1000)
    assert codes(closed.link().call(deletion, 6).responses) == [ErrorCode.UNKNOWN_TOPIC_ID]
    monkeypatch.undo()
    assert "t" in node.image.topics.by_name
    assert codes(closed.link().call(deletion, 6).responses) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_settings_of_a_new_topic_are_shown_to_those_who_may_see_them(closed):
    """Its counts go with them; the topic is made either way."""
    closed.add(Operation.CREATE, "kafka-cluster", CLUSTER)
    for name, told in (("a", False), ("b", True)):
        if told:
            closed.add(Operation.DESCRIBE_CONFIGS, name)
        (made,) = closed.link().call(creation(name), 7).topics
        hidden = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1, False)
        seen = (made.topic_config_error_code, made.num_partitions, made.replication_factor, bool(made.configs))
        assert made.error_code == 0
        assert seen == ((0, 2, 1, True) if told else hidden)
