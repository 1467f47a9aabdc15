"""Kafka's administrative programs against a running broker: what they print, and what it then does."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

START_MS = 1_700_000_000_000
SERVED = {
    "Produce": "0 to 13",
    "Fetch": "4 to 18",
    "ListOffsets": "1 to 11",
    "OffsetDelete": "0",
    "OffsetFetch": "1 to 10",
    "OffsetCommit": "2 to 10",
    "Metadata": "0 to 13",
    "FindCoordinator": "0 to 6",
    "ApiVersions": "0 to 4",
    "CreateTopics": "2 to 7",
    "DeleteTopics": "1 to 6",
    "DeleteRecords": "0 to 2",
    "InitProducerId": "0 to 5",
    "OffsetForLeaderEpoch": "2 to 4",
    "DescribeConfigs": "1 to 4",
    "IncrementalAlterConfigs": "0 to 1",
    "DescribeCluster": "0 to 2",
    "SaslHandshake": "0 to 1",
    "DescribeAcls": "1 to 3",
    "CreateAcls": "1 to 3",
    "DeleteAcls": "1 to 3",
    "AlterConfigs": "0 to 2",
    "DescribeLogDirs": "1 to 5",
    "SaslAuthenticate": "0 to 2",
    "CreatePartitions": "0 to 3",
    "ElectLeaders": "0 to 2",
    "ListPartitionReassignments": "0",
    "DescribeClientQuotas": "0 to 1",
    "AlterClientQuotas": "0 to 1",
    "DescribeUserScramCredentials": "0",
    "AlterUserScramCredentials": "0",
    "DescribeQuorum": "0 to 2",
    "UpdateFeatures": "0 to 2",
    "UnregisterBroker": "0",
    "ListConfigResources": "0 to 1",
    "JoinGroup": "0 to 9",
    "Heartbeat": "0 to 4",
    "LeaveGroup": "0 to 5",
    "SyncGroup": "0 to 5",
    "DescribeGroups": "0 to 6",
    "ListGroups": "0 to 5",
    "DeleteGroups": "0 to 2",
    "DescribeTopicPartitions": "0",
    "AddPartitionsToTxn": "0 to 5",
    "AddOffsetsToTxn": "0 to 4",
    "EndTxn": "0 to 5",
    "WriteTxnMarkers": "1 to 2",
    "TxnOffsetCommit": "0 to 5",
    "DescribeProducers": "0",
    "DescribeTransactions": "0",
    "ListTransactions": "0 to 2",
    "AlterReplicaLogDirs": "1 to 2",
    "AlterPartitionReassignments": "0 to 1",
    "ConsumerGroupHeartbeat": "0 to 1",
    "ConsumerGroupDescribe": "0 to 1",
}


@pytest.fixture(scope="module")
def broker(kafka, serve):
    """A broker that looks after its partitions every tenth of a second, so that ranges move at once."""
    return serve("log.retention.check.interval.ms=100")


@pytest.fixture
def run(kafka, broker):
    """Runs a program against the broker; it must end well, and what it printed is returned."""

    def run(main: str, *arguments: str) -> str:
        return kafka.run(main, "--bootstrap-server", broker.address, *arguments).ok()

    return run


@pytest.fixture
def configs(run):
    """Runs kafka-configs for one entity."""

    def configs(kind: str, name: str, *arguments: str) -> str:
        entity = ("--entity-default",) if not name else ("--entity-name", name)
        return run("kafka.admin.ConfigCommand", "--entity-type", kind, *entity, *arguments)

    return configs


@pytest.fixture
def refused(kafka, broker):
    """Runs a program that must fail; its complaint is returned."""

    def refused(main: str, *arguments: str) -> str:
        return kafka.run(main, "--bootstrap-server", broker.address, *arguments).refused()

    return refused


def test_a_topic_is_created_listed_described_and_deleted(run, refused) -> None:
    """kafka-topics over a topic's whole life."""
    wanted = ("--topic", "life", "--partitions", "3", "--config", "segment.bytes=2097152")
    assert run("TopicCommand", "--create", *wanted) == "Created topic life.\n"
    assert "life" in run("TopicCommand", "--list").split()
    head, *partitions = run("TopicCommand", "--describe", "--topic", "life").splitlines()
    configs = (
        "min.insync.replicas=1,segment.bytes=2097152"  # KIP-966: the cluster has the first as a setting of its own
    )
    assert re.fullmatch(
        rf"Topic: life\tTopicId: [\w-]{{22}}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: {configs}", head
    )
    assert partitions == [
        f"\tTopic: life\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
        for number in range(3)
    ]
    assert "Topic 'life' already exists." in refused("TopicCommand", "--create", "--topic", "life")
    run("TopicCommand", "--delete", "--topic", "life")
    assert "life" not in run("TopicCommand", "--list").split()
    assert "Topic 'life' does not exist" in refused("TopicCommand", "--describe", "--topic", "life")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--replication-factor", "2"), "Unable to replicate the partition 2 time(s)"),
        (("--config", "segment.bytes=12"), "Invalid value 12 for configuration segment.bytes"),
        (("--config", "no.such.thing=1"), "Unknown topic config name: no.such.thing"),
    ],
)
def test_an_impossible_topic_is_refused_in_kafkas_words(refused, arguments, complaint) -> None:
    """Too few brokers, a value below its bound, an unknown setting."""
    assert complaint in refused("TopicCommand", "--create", "--topic", "impossible", *arguments)


def test_topic_settings_are_altered_and_described(run, configs, refused) -> None:
    """kafka-configs turns tiering on, sets its threshold, shows everything with its origin, and takes it back."""
    run("TopicCommand", "--create", "--topic", "settings")
    said = configs(
        "topics", "settings", "--alter", "--add-config", "remote.storage.enable=true,local.retention.ms=1000"
    )
    assert said == "Completed updating config for topic settings.\n"
    everything = configs("topics", "settings", "--describe", "--all").splitlines()
    assert len(everything) > 30
    assert (
        "  remote.storage.enable=true sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:remote.storage.enable=true}"
        in everything
    )
    assert (
        "  max.message.bytes=1048588 sensitive=false synonyms={DEFAULT_CONFIG:message.max.bytes=1048588}" in everything
    )
    configs("topics", "settings", "--alter", "--delete-config", "local.retention.ms")
    (_, *changed) = configs("topics", "settings", "--describe").splitlines()
    assert [line.split()[0] for line in changed] == ["remote.storage.enable=true"]
    complaint = refused(
        "kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", "settings", "--alter", "--add-config",
        "retention.ms=-7",
    )  # fmt: skip
    assert "Invalid value -7 for configuration retention.ms" in complaint


def test_internal_settings_are_not_shown(run, configs) -> None:
    """Kafka has them for its own tests and keeps them out of every description until they are set."""
    run("TopicCommand", "--create", "--topic", "internal")
    assert "internal.segment.bytes" not in configs("topics", "internal", "--describe", "--all")


def test_broker_settings_reach_topics(run, configs, refused) -> None:
    """Per broker, for all brokers, and back; read-only ones are refused; a topic inherits the change."""
    run("TopicCommand", "--create", "--topic", "heir")
    configs("brokers", "1", "--alter", "--add-config", "log.retention.ms=123456")
    configs("brokers", "", "--alter", "--add-config", "log.segment.bytes=7654321")
    assert "log.retention.ms=123456" in configs("brokers", "1", "--describe")
    assert "log.segment.bytes=7654321" in configs("brokers", "", "--describe")
    inherited = configs("topics", "heir", "--describe", "--all")
    assert "retention.ms=123456 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=123456" in inherited
    assert (
        "segment.bytes=7654321 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes" in inherited
    )
    configs("brokers", "1", "--alter", "--delete-config", "log.retention.ms")
    configs("brokers", "", "--alter", "--delete-config", "log.segment.bytes")
    assert configs("brokers", "1", "--describe") == "Dynamic configs for broker 1 are:\n"
    assert "Cannot update these configs dynamically" in refused(
        "kafka.admin.ConfigCommand", "--entity-type", "brokers", "--entity-name", "1", "--alter", "--add-config",
        "node.id=2",
    )  # fmt: skip


def test_versions_and_cluster(kafka, run, broker) -> None:
    """Exactly the APIs that are served, in the versions of Kafka 4.3, and who serves them."""
    said = run("BrokerApiVersionsCommand")
    assert dict(re.findall(r"^\t(\w+)\(\d+\): (\d+(?: to \d+)?) \[usable: \d+\]", said, re.MULTILINE)) == SERVED
    identity = dict(line.split("=", 1) for line in (broker.data / "meta.properties").read_text().split())
    where = ("--bootstrap-server", broker.address)
    assert kafka.run("ClusterTool", "cluster-id", *where).ok() == f"Cluster ID: {identity['cluster.id']}\n"
    host, port = broker.address.split(":")
    assert kafka.run("ClusterTool", "list-endpoints", *where).ok().splitlines()[1].split() == [
        "1", host, port, "null", "unfenced", "broker",
    ]  # fmt: skip


def test_offsets_of_a_tiered_topic(run, broker, clients, until) -> None:
    """kafka-get-offsets for every special timestamp and a real one; kafka-delete-records moves the start."""
    tiering = ("remote.storage.enable=true", "local.retention.bytes=1", "internal.segment.bytes=50000")
    named = [word for setting in tiering for word in ("--config", setting)]
    run("TopicCommand", "--create", "--topic", "tiers", *named, "--config", "retention.ms=-1")
    values = [("tiers", 0, b"%d " % i * 20, START_MS + i) for i in range(5000)]
    clients.load(broker.address, "none", values, batch_num_messages=100)

    def offset(time: str) -> int:
        answer = run("GetOffsetShell", "--topic", "tiers", "--time", time)
        return int(re.fullmatch(r"tiers:0:(-?\d+)\n", answer)[1])

    local = until(lambda: (now := offset("earliest-local")) > 1000 and now)
    assert offset("earliest") == 0
    assert offset("latest") == 5000
    assert offset("max-timestamp") == 4999
    assert local <= offset("latest-tiered") + 1 < 5000
    assert offset(str(START_MS + 17)) == 17
    assert offset(str(START_MS + 4999)) == 4999

    wanted = {"version": 1, "partitions": [{"topic": "tiers", "partition": 0, "offset": 1234}]}
    (broker.directory / "delete.json").write_text(json.dumps(wanted))
    said = run("DeleteRecordsCommand", "--offset-json-file", str(broker.directory / "delete.json"))
    assert "partition: tiers-0\tlow_watermark: 1234" in said
    assert offset("earliest") == 1234
    assert [row[0] for row in clients.read(broker.address, "tiers")] == list(range(1234, 5000))
