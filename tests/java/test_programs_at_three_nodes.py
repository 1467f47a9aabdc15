"""Kafka's administrative programs at a cluster of three nodes of ours, by brokers and by controllers; a spare broker leaves."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator

import pytest

from tests.java.mixed_nodes import CLUSTER, MixedCluster, directory_id

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

CONFIGS = "kafka.admin.ConfigCommand"
QUORUM = "MetadataQuorumCommand"
SPARE = 4


@pytest.fixture(scope="module")
def three(tools, tmp_path_factory) -> Iterator[MixedCluster]:
    """Nodes that are broker and controller. One was formatted by Kafka's program, with levels that only Kafka runs."""
    made = MixedCluster(tools, tmp_path_factory.mktemp("three"))
    for node_id in (1, 2, 3):
        made.add("ours", node_id, "broker,controller")
    made.add("ours", SPARE, "broker")
    made.format(by_kafka=(2,))
    made.start()
    yield made
    made.kill()


@pytest.fixture(params=["--bootstrap-server", "--bootstrap-controller"])
def at(three, request) -> tuple[str, str]:
    """The way to ask: brokers, and controllers (KIP-919)."""
    return request.param, three.servers if request.param == "--bootstrap-controller" else three.brokers


def test_the_quorum_is_described(tools, three, at) -> None:
    """All voters with their directories and addresses; the leader, and who follows it."""
    status = tools.run(QUORUM, *at, "describe", "--status").ok()
    assert f"ClusterId:              {CLUSTER}\n" in status
    assert re.search(r"LeaderId: +[123]\n", status)
    for node in three.controllers:
        assert f'"directoryId": "{directory_id(node.node_id)}"' in status
        assert f"CONTROLLER://{node.controller}" in status
    rows = [line.split() for line in tools.run(QUORUM, *at, "describe", "--replication").ok().splitlines()[1:]]
    states = {int(row[0]): row[-1] for row in rows}
    assert sorted(states) == [1, 2, 3, SPARE]
    assert sorted(states.values()) == ["Follower", "Follower", "Leader", "Observer"]
    assert states[SPARE] == "Observer"


def test_levels_are_described(tools, at) -> None:
    """kraft.version too, which has no record among the features; nothing of what only Kafka runs is in use."""
    said = tools.run("FeatureCommand", *at, "describe").ok()
    rows = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", said))
    assert (rows["metadata.version"], rows["kraft.version"]) == ("4.3-IV0", "1")
    assert (rows["group.version"], rows["transaction.version"]) == ("1", "2")
    assert "share.version" not in rows


def test_the_cluster_is_described(tools, three, at) -> None:
    """Its id, and the brokers or controllers at their addresses."""
    assert tools.run("ClusterTool", "cluster-id", *at).ok() == f"Cluster ID: {CLUSTER}\n"
    kind = "controller" if at[0] == "--bootstrap-controller" else "broker"
    rows = [line.split() for line in tools.run("ClusterTool", "list-endpoints", *at).ok().splitlines()[1:]]
    assert {(row[0], row[2], row[-1]) for row in rows} == {
        (str(node.node_id), str(node.controller_port if kind == "controller" else node.port), kind)
        for node in three.nodes.values()
        if kind in node.roles
    }


def test_versions_are_described(tools, three) -> None:
    """Describe those of each broker; the program asks no controllers."""
    said = tools.run("BrokerApiVersionsCommand", "--bootstrap-server", three.brokers).ok()
    assert len(re.findall(r"^127\.0\.0\.1:\d+ \(id: \d", said, re.MULTILINE)) == len(three.nodes)
    assert said.count("DescribeQuorum(55): 0 to 2 [usable: 2]") == len(three.nodes)


def test_settings_are_changed(tools, at) -> None:
    """Change settings of one broker and of all, and take them back."""
    for entity in (("--entity-name", "3"), ("--entity-default",)):
        named = ("--entity-type", "brokers", *entity)
        tools.run(CONFIGS, *at, "--alter", *named, "--add-config", "log.retention.ms=123456").ok()
        assert "log.retention.ms=123456" in tools.run(CONFIGS, *at, "--describe", *named).ok()
        tools.run(CONFIGS, *at, "--alter", *named, "--delete-config", "log.retention.ms").ok()
        assert "log.retention.ms=" not in tools.run(CONFIGS, *at, "--describe", *named).ok()


def test_a_topic_lives_on_all_brokers(tools, three) -> None:
    """Created at one broker, described at the next, its settings changed there, deleted at the third."""
    addresses = [("--bootstrap-server", three.nodes[number].address) for number in (1, 2, 3)]
    wanted = ("--topic", "spread", "--partitions", "8", "--replication-factor", "1")
    tools.run("TopicCommand", *addresses[0], "--create", *wanted).ok()
    said = tools.run("TopicCommand", *addresses[1], "--describe", "--topic", "spread").ok()
    assert sorted(map(int, re.findall(r"Leader: (\d)", said))) == [1, 1, 2, 2, 3, 3, 4, 4]
    named = ("--entity-type", "topics", "--entity-name", "spread")
    tools.run(CONFIGS, *addresses[2], "--alter", *named, "--add-config", "segment.bytes=2097152").ok()
    assert "segment.bytes=2097152" in tools.run(CONFIGS, *addresses[0], "--describe", *named).ok()
    tools.run("TopicCommand", *addresses[1], "--alter", "--topic", "spread", "--partitions", "9").ok()
    tools.run("TopicCommand", *addresses[2], "--delete", "--topic", "spread").ok()
    assert "spread" not in tools.run("TopicCommand", *addresses[0], "--list").ok().split()


def test_preferred_leaders_are_elected(tools, three) -> None:
    """They lead already: nothing is to do, and nothing fails. The program asks no controllers."""
    at = ("--bootstrap-server", three.brokers)
    wanted = ("--topic", "elect", "--partitions", "2", "--replication-factor", "1")
    tools.run("TopicCommand", *at, "--create", *wanted).ok()
    said = tools.run("LeaderElectionCommand", *at, "--election-type", "preferred", "--all-topic-partitions").ok()
    assert "Error" not in said


def test_no_partition_is_being_moved(tools, at) -> None:
    """Asked of brokers and of controllers."""
    said = tools.run("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *at, "--list").ok()
    assert said == "No partition reassignments found.\n"


def test_a_controller_leaves_and_joins(tools, three, at) -> None:
    """A voter that does not lead is removed, follows as an observer, and is added again from its own settings."""
    status = tools.run(QUORUM, *at, "describe", "--status").ok()
    leader = int(re.search(r"LeaderId: +(\d)", status)[1])
    other = next(node for node in three.controllers if node.node_id != leader)
    named = ("--controller-id", str(other.node_id), "--controller-directory-id", directory_id(other.node_id))
    assert "Removed" in tools.run(QUORUM, *at, "remove-controller", *named).ok()
    status = tools.run(QUORUM, *at, "describe", "--status").ok()
    assert directory_id(other.node_id) in status.partition("CurrentObservers")[2]
    assert "Added" in tools.run(QUORUM, *at, "--command-config", str(other.config), "add-controller").ok()
    status = tools.run(QUORUM, *at, "describe", "--status").ok()
    assert directory_id(other.node_id) in status.partition("CurrentObservers")[0]


def test_a_controller_that_runs_does_not_leave_while_another_is_silent(tools, three, tmp_path) -> None:
    """The quorum could not commit that, and the program shows why (decision 0070). The silent one may leave."""
    servers = ("--bootstrap-controller", three.servers)
    leader = int(re.search(r"LeaderId: +(\d)", tools.run(QUORUM, *servers, "describe", "--status").ok())[1])
    silent, well = (node for node in three.controllers if node.node_id != leader)
    at = ("--bootstrap-controller", three.nodes[leader].controller)
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=5000\nrequest.timeout.ms=2000\n")

    def remove(node):
        named = ("--controller-id", str(node.node_id), "--controller-directory-id", directory_id(node.node_id))
        return tools.run(QUORUM, *at, "--command-config", str(config), "remove-controller", *named)

    silent.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(4)
        refused = remove(well)
        assert refused.code == 1
        assert f"[{silent.node_id}] have not fetched for 3000 ms" in refused.err
        voters = tools.run(QUORUM, *at, "describe", "--status").ok().partition("CurrentObservers")[0]
        assert directory_id(well.node_id) in voters
        assert "Removed" in remove(silent).ok()
    finally:
        silent.process.send_signal(signal.SIGCONT)
    assert "Added" in tools.run(QUORUM, *at, "--command-config", str(silent.config), "add-controller").ok()


def test_kafka_decodes_the_metadata_of_every_node(tools, three, until) -> None:
    """Log and snapshots of controllers and of the spare broker."""
    for node in three.nodes.values():
        dumped = tools.dump(node.metadata_files(), "--cluster-metadata-decoder", "--deep-iteration").clean()
        assert "REGISTER_BROKER_RECORD" in dumped.text


def test_a_broker_that_has_left_is_unregistered(tools, three, until) -> None:
    """It stays in the list as fenced until it is unregistered; the last test, since it does not come back."""
    three.stop(SPARE)
    ask = ("ClusterTool", "list-endpoints", "--bootstrap-server", three.nodes[1].address, "--include-fenced-brokers")
    until(lambda: re.search(rf"^{SPARE}\s.*\sfenced\s", tools.run(*ask).ok(), re.MULTILINE))
    tools.run("ClusterTool", "unregister", "--bootstrap-server", three.nodes[1].address, "--id", str(SPARE)).ok()
    until(lambda: not re.search(rf"^{SPARE}\s", tools.run(*ask).ok(), re.MULTILINE))
