"""The administrative APIs through the admin clients of confluent-kafka, kafka-python and aiokafka."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka import admin as confluent
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UpdateFeatureType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin import ACLResourcePatternType as PatternType
from kafka.errors import InvalidPartitionsError, SecurityDisabledError

WAIT_SECONDS = 20


@pytest.fixture
def broker(stratalog_broker):
    """A broker with the topic ``t`` of one partition."""
    stratalog_broker.create_topic("t")
    return stratalog_broker


@pytest.fixture
def librdkafka(broker):
    """The admin client of confluent-kafka."""
    return confluent.AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def kafka_python(broker):
    """The admin client of kafka-python."""
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


def ended(futures):
    """Outcome of each future of a call: its result, or the error's code."""
    found = {}
    for key, future in futures.items():
        try:
            found[key] = future.result(WAIT_SECONDS)
        except KafkaException as error:
            found[key] = error.args[0].code()
    return found


def test_librdkafka_gives_a_topic_more_partitions(librdkafka) -> None:
    """And gets an error when they would be fewer."""
    assert ended(librdkafka.create_partitions([confluent.NewPartitions("t", 4)])) == {"t": None}
    assert ended(librdkafka.create_partitions([confluent.NewPartitions("t", 2)])) == {
        "t": KafkaError.INVALID_PARTITIONS
    }
    assert sorted(librdkafka.list_topics("t").topics["t"].partitions) == [0, 1, 2, 3]


def test_librdkafka_alters_in_both_forms(librdkafka, broker) -> None:
    """AlterConfigs replaces, IncrementalAlterConfigs changes one; groups have settings, too."""
    topic = confluent.ConfigResource(confluent.ConfigResource.Type.TOPIC, "t", {"segment.ms": "5000"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        assert list(ended(librdkafka.alter_configs([topic])).values()) == [None]
    entry = confluent.ConfigEntry("retention.ms", "7000", incremental_operation=confluent.AlterConfigOpType.SET)
    topic = confluent.ConfigResource(confluent.ConfigResource.Type.TOPIC, "t", incremental_configs=[entry])
    assert list(ended(librdkafka.incremental_alter_configs([topic])).values()) == [None]
    config = broker.node.partitions.by_name("t", 0).log.config
    assert (config.segment_ms, config.retention_ms) == (5000, 7000)
    (told,) = ended(
        librdkafka.describe_configs([confluent.ConfigResource(confluent.ConfigResource.Type.TOPIC, "t")])
    ).values()
    assert (told["segment.ms"].value, told["segment.ms"].is_default) == ("5000", False)


def test_librdkafka_elects_no_leader(librdkafka) -> None:
    """Each partition that is named says that no election is needed."""
    found = librdkafka.elect_leaders(ElectionType.PREFERRED, [TopicPartition("t", 0)]).result(WAIT_SECONDS)
    assert [error.code() for error in found.values()] == [KafkaError.ELECTION_NOT_NEEDED]


def test_librdkafka_keeps_scram_users(librdkafka) -> None:
    """Set, described, deleted."""
    info = confluent.ScramCredentialInfo(confluent.ScramMechanism.SCRAM_SHA_256, 8192)
    upsertion = confluent.UserScramCredentialUpsertion("alice", info, b"secret")
    assert ended(librdkafka.alter_user_scram_credentials([upsertion])) == {"alice": None}
    found = ended(librdkafka.describe_user_scram_credentials(["alice", "bob"]))
    assert [each.iterations for each in found["alice"].scram_credential_infos] == [8192]
    assert found["bob"] == KafkaError.RESOURCE_NOT_FOUND
    deletion = confluent.UserScramCredentialDeletion("alice", confluent.ScramMechanism.SCRAM_SHA_256)
    assert ended(librdkafka.alter_user_scram_credentials([deletion])) == {"alice": None}


def test_librdkafka_learns_that_there_are_no_rules(librdkafka) -> None:
    """SECURITY_DISABLED for each rule."""
    rule = confluent.AclBinding(
        confluent.ResourceType.TOPIC,
        "t",
        confluent.ResourcePatternType.LITERAL,
        "User:a",
        "*",
        confluent.AclOperation.READ,
        confluent.AclPermissionType.ALLOW,
    )
    assert ended(librdkafka.create_acls([rule])) == {rule: KafkaError.SECURITY_DISABLED}


def test_kafka_python_gives_a_topic_more_partitions(kafka_python) -> None:
    """Page by page they are described."""
    kafka_python.create_partitions({"t": 3})
    with pytest.raises(InvalidPartitionsError):
        kafka_python.create_partitions({"t": 3})
    first = kafka_python.describe_topic_partitions(["t"], response_partition_limit=2)
    assert [each["partition_index"] for each in first["topics"][0]["partitions"]] == [0, 1]
    rest = kafka_python.describe_topic_partitions(["t"], cursor=first["next_cursor"])
    assert [each["partition_index"] for each in rest["topics"][0]["partitions"]] == [2]
    assert rest["next_cursor"] is None


def test_kafka_python_sees_the_log_directories(kafka_python, broker) -> None:
    """One, with the partition in it."""
    (told,) = kafka_python.describe_log_dirs()
    (directory,) = told["log_dirs"]
    assert directory["log_dir"] == broker.node.config.log_dirs[0]
    assert [topic["name"] for topic in directory["topics"]] == ["t"]


def test_kafka_python_sees_quorum_features_and_moves(kafka_python, broker) -> None:
    """One voter; a level goes down and up; nothing is being moved."""
    quorum = kafka_python.describe_metadata_quorum()
    assert quorum["topics"][0]["partitions"][0]["leader_id"] == broker.node.node_id
    down = {"transaction.version": (UpdateFeatureType.SAFE_DOWNGRADE, 1)}
    assert kafka_python.update_features(down) == {"transaction.version": "OK"}
    assert broker.node.image.features["transaction.version"] == 1
    assert kafka_python.update_features({"transaction.version": 2}) == {"transaction.version": "OK"}
    assert not kafka_python.list_partition_reassignments()


def test_kafka_python_alters_groups_and_brokers(kafka_python, broker) -> None:
    """Their settings are listed and described."""
    group = ConfigResource(ConfigResourceType.GROUP, "g", {"consumer.session.timeout.ms": "50000"})
    node = ConfigResource(ConfigResourceType.BROKER, str(broker.node.node_id), {"max.connections": "500"})
    kafka_python.alter_configs([group, node], raise_on_unknown=False)
    assert broker.node.server.limits.connections_max == 500
    assert "g" in str(kafka_python.list_config_resources(["GROUP"]))
    told = kafka_python.describe_configs([ConfigResource(ConfigResourceType.GROUP, "g")])
    assert "50000" in str(told)


def test_kafka_python_keeps_scram_users(kafka_python) -> None:
    """Set, described, deleted."""
    mechanism = ScramMechanism.SCRAM_SHA_512
    upsertion = UserScramCredentialUpsertion("alice", mechanism, "secret", iterations=5000)
    assert kafka_python.alter_user_scram_credentials([upsertion]) == {"alice": None}
    assert "5000" in str(kafka_python.describe_user_scram_credentials())
    deletion = UserScramCredentialDeletion("alice", mechanism)
    assert kafka_python.alter_user_scram_credentials([deletion]) == {"alice": None}


def test_kafka_python_learns_that_there_are_no_rules(kafka_python) -> None:
    """SECURITY_DISABLED."""
    pattern = ResourcePatternFilter(ResourceType.ANY, None, PatternType.ANY)
    with pytest.raises(SecurityDisabledError):
        kafka_python.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern))


def test_aiokafka_grows_and_alters_a_topic(broker) -> None:
    """CreatePartitions and the older AlterConfigs."""

    async def administer() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            await admin.create_partitions({"t": AioNewPartitions(2)})
            await admin.alter_configs([AioResource(AioResourceType.TOPIC, "t", {"segment.ms": "5000"})])
            (told,) = await admin.describe_topics(["t"])
            assert len(told["partitions"]) == 2
        finally:
            await admin.close()

    asyncio.run(administer())
    assert broker.node.partitions.by_name("t", 1).log.config.segment_ms == 5000
