"""Kafka's programs for the rest of the administration: sizes, quorum, features, elections, loggers, groups, users."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def broker(serve):
    return serve()


@pytest.fixture
def run(kafka, broker):
    """Runs a program against the broker; it must end well, and what it printed is returned."""

    def run(main: str, *arguments: str) -> str:
        return kafka.run(main, "--bootstrap-server", broker.address, *arguments).ok()

    return run


@pytest.fixture
def refused(kafka, broker):
    """Runs a program that must fail; its complaint is returned."""

    def refused(main: str, *arguments: str) -> str:
        return kafka.run(main, "--bootstrap-server", broker.address, *arguments).refused()

    return refused


@pytest.fixture
def configs(run):
    """Runs kafka-configs for one entity."""

    def configs(kind: str, name: str, *arguments: str) -> str:
        return run(CONFIGS, "--entity-type", kind, "--entity-name", name, *arguments)

    return configs


def test_a_topic_gets_more_partitions(run, refused, broker, clients) -> None:
    """kafka-topics --alter, and the new ones can be written; fewer are refused in Kafka's words."""
    run("TopicCommand", "--create", "--topic", "grows")
    run("TopicCommand", "--alter", "--topic", "grows", "--partitions", "3")
    assert "PartitionCount: 3" in run("TopicCommand", "--describe", "--topic", "grows")
    rows = clients.load(broker.address, "none", [("grows", number, b"x", 1) for number in range(3)])
    assert sorted(rows) == [("grows", number) for number in range(3)]
    said = refused("TopicCommand", "--alter", "--topic", "grows", "--partitions", "2")
    assert "The topic grows currently has 3 partition(s); 2 would not be an increase." in said


def test_sizes_of_log_directories(run, broker, clients) -> None:
    """kafka-log-dirs: the bytes of the files on the disk, and what is in the bucket."""
    run("TopicCommand", "--create", "--topic", "sizes", "--config", "remote.storage.enable=true")
    clients.load(broker.address, "none", [("sizes", 0, b"x" * 5000, 1)])
    said = run("LogDirsCommand", "--describe", "--topic-list", "sizes").splitlines()[-1]
    (told,) = json.loads(said)["brokers"]
    found = {each["logDir"]: {one["partition"]: one["size"] for one in each["partitions"]} for each in told["logDirs"]}
    files = sum(path.stat().st_size for path in (broker.data / "sizes-0").glob("*.log"))
    assert found == {str(broker.data.resolve()): {"sizes-0": files}, "remote://": {"sizes-0": 0}}
    assert files > 5000


def test_the_quorum_is_one_voter(run, broker) -> None:
    """kafka-metadata-quorum, both descriptions."""
    status = dict(
        line.split(":", 1) for line in run("MetadataQuorumCommand", "describe", "--status").splitlines() if line
    )
    assert (status["LeaderId"].strip(), status["MaxFollowerLag"].strip()) == ("1", "0")
    (voter,) = json.loads(status["CurrentVoters"])
    assert voter == {"id": 1, "endpoints": [f"PLAINTEXT://{broker.address}"]}
    _, row = run("MetadataQuorumCommand", "describe", "--replication").splitlines()
    assert row.split()[0] == "1"
    assert row.split()[-1] == "Leader"


def test_feature_levels_go_down_and_up(run, refused) -> None:
    """kafka-features: what is there, one level down and up again, and what cannot go down."""
    told = dict(
        re.findall(r"^Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", run("FeatureCommand", "describe"), re.MULTILINE)
    )
    newest = {"eligible.leader.replicas.version": "1", "group.version": "1", "transaction.version": "2"}
    assert told == newest | {"kraft.version": "0", "metadata.version": "4.3-IV0"}  # its voters stand in the settings
    said = run("FeatureCommand", "downgrade", "--feature", "transaction.version=1")
    assert said == "transaction.version was downgraded to 1.\n"
    said = run("FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    assert said == "transaction.version was upgraded to 2.\n"
    said = refused("FeatureCommand", "downgrade", "--feature", "metadata.version=25")
    assert "Refusing to perform the requested downgrade because it might delete metadata information." in said


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_leaders_are_where_they_should_be(run, kind) -> None:
    """kafka-leader-election has nothing to do."""
    topic = f"led-{kind}"
    run("TopicCommand", "--create", "--topic", topic)
    said = run("LeaderElectionCommand", "--election-type", kind, "--topic", topic, "--partition", "0")
    assert said == f"Valid replica already elected for partitions {topic}-0\n"
    assert run("LeaderElectionCommand", "--election-type", kind, "--all-topic-partitions").strip() == ""


def test_there_are_no_access_rules(kafka, broker) -> None:
    """kafka-acls gets the error in Kafka's words, for a list as for a rule."""
    for arguments in (("--list",), ("--add", "--allow-principal", "User:a", "--operation", "read", "--topic", "t")):
        done = kafka.run("AclCommand", "--bootstrap-server", broker.address, *arguments)
        assert "SecurityDisabledException: No Authorizer is configured." in done.out + done.err


def test_a_broker_that_is_not_there_cannot_be_unregistered(kafka, broker) -> None:
    """kafka-cluster names it; the running one is refused, too."""
    for number, why in (("7", "Broker ID 7 is not currently registered"), ("1", "cannot be unregistered")):
        said = kafka.run("ClusterTool", "unregister", "--bootstrap-server", broker.address, "--id", number).refused()
        assert why in said


def test_settings_of_groups(configs, refused) -> None:
    """kafka-configs sets, shows and refuses."""
    configs("groups", "g", "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert (
        "consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms="
        "50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}" in configs("groups", "g", "--describe")
    )
    bad = ("--entity-type", "groups", "--entity-name", "g", "--alter", "--add-config", "consumer.session.timeout.ms=1")
    assert "must be greater than or equal to group.consumer.min.session.timeout.ms" in refused(CONFIGS, *bad)
    configs("groups", "g", "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "doesn't exist and doesn't have dynamic config" in configs("groups", "g", "--describe")


def test_settings_of_client_metrics(run, configs) -> None:
    """kafka-configs sets them, kafka-client-metrics lists them."""
    configs("client-metrics", "m", "--alter", "--add-config", "interval.ms=1000,match=[client_id=a.*]")
    assert "  interval.ms=1000 sensitive=false" in configs("client-metrics", "m", "--describe")
    assert run("ClientMetricsCommand", "--list") == "m\n"


def test_levels_of_loggers(configs) -> None:
    """kafka-configs shows and changes them; the change shows."""
    assert "  stratalog.broker.node=INFO sensitive=false" in configs("broker-loggers", "1", "--describe")
    configs("broker-loggers", "1", "--alter", "--add-config", "stratalog.broker.node=DEBUG")
    assert "  stratalog.broker.node=DEBUG sensitive=false" in configs("broker-loggers", "1", "--describe")
    configs("broker-loggers", "1", "--alter", "--delete-config", "stratalog.broker.node")
    assert "  stratalog.broker.node=INFO sensitive=false" in configs("broker-loggers", "1", "--describe")


def test_scram_credentials_of_users(configs) -> None:
    """kafka-configs sets one; its iterations are shown, never the password."""
    configs("users", "alice", "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=alice-secret]")
    said = configs("users", "alice", "--describe")
    assert "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192" in said
    configs("users", "alice", "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in configs("users", "alice", "--describe")


def test_access_rules_are_added_listed_and_removed(kafka, serve) -> None:
    """kafka-acls, where Kafka's StandardAuthorizer decides; a denied client gets the error."""
    broker = serve(
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found=true",
    )
    where = ("--bootstrap-server", broker.address)
    kafka.run("TopicCommand", *where, "--create", "--topic", "closed").ok()
    rule = ("--deny-principal", "User:ANONYMOUS", "--operation", "Describe", "--topic", "closed")
    kafka.run("AclCommand", *where, "--add", *rule).ok()
    listed = kafka.run("AclCommand", *where, "--list", "--topic", "closed").ok()
    assert "ResourcePattern(resourceType=TOPIC, name=closed, patternType=LITERAL)" in listed
    assert "(principal=User:ANONYMOUS, host=*, operation=DESCRIBE, permissionType=DENY)" in listed
    assert "closed" not in kafka.run("TopicCommand", *where, "--list").ok().split()
    kafka.run("AclCommand", *where, "--remove", "--force", *rule).ok()
    assert "closed" in kafka.run("TopicCommand", *where, "--list").ok().split()
