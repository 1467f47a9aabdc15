"""Who may do what, without rules and with them."""

import pytest

from stratalog.broker import authorizer
from stratalog.broker.authorizer import AllowAll, Operation, ResourceType, StandardAuthorizer, authorizer_of
from stratalog.broker.config import ConfigRefused, load_config
from stratalog.metadata.acl_rules import AclRule, PatternType, Permission
from stratalog.metadata.acls import AclsImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

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


def test_settings_say_who_decides(settings):
    """None of them: nobody; super users and the answer without rules are Kafka's."""
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


def test_a_hidden_topic_is_not_told_of(guarded):
    """Nor created, nor deleted; after a restart the rules still hold."""
    guarded.create("t")
    guarded.create("u")
    guarded.add(Operation.ALL, Permission.DENY)
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


def test_a_read_only_broker_is_changed_by_nobody():
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
