"""``stratalog cluster rebalance`` and ``decommission`` on four brokers in this process."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from stratalog.cli.cluster.rebalance import voter_sentences
from stratalog.cli.main import cli
from stratalog.client.admin import alter_topic_configs, create_topic, delete_topics
from stratalog.client.client import Client
from stratalog.client.quorum import Quorum, QuorumReplica
from stratalog.client.reassignments import list_reassignments
from stratalog.client.throttles import throttled_replicas
from stratalog.wire.topic import uuid_text
from tests.broker.nodes_of_a_cluster import RunningNodes

BROKERS = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A controller and four brokers, whose sessions last."""
    calm = {"broker.session.timeout.ms": "60000", "controller.quorum.fetch.timeout.ms": "60000"}
    made = RunningNodes(
        tmp_path_factory.mktemp("rebalance"), {100: "controller", **dict.fromkeys(BROKERS, "broker")}, **calm
    ).start()
    yield made
    made.stop()


class Cluster:
    """The brokers as commands see them."""

    def __init__(self, nodes):
        self.bootstrap = ",".join(f"127.0.0.1:{nodes[one].port}" for one in BROKERS)

    def run(self, *arguments, code=0):
        """Runs a command; its result."""
        found = CliRunner().invoke(cli, ["cluster", *arguments, "-b", self.bootstrap])
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        assert found.exit_code == code, found.output
        return found

    def counts(self):
        """Replicas, and leaders, of each broker."""
        with Client(self.bootstrap) as client:
            parts = [part for topic in client.refresh() for part in topic.partitions]
            assert all(set(part.in_sync) == set(part.replicas) for part in parts)
            return Counter(one for part in parts for one in part.replicas), Counter(part.leader for part in parts)

    def replicas(self):
        """How many in-sync replicas the partitions of each topic have."""
        counts = {}
        with Client(self.bootstrap) as client:
            for topic in client.refresh():
                counts[topic.name] = {len(part.in_sync) for part in topic.partitions}
                assert all(set(part.in_sync) == set(part.replicas) for part in topic.partitions)
        return counts

    def make(self, name, partitions, replicas):
        """A topic that all brokers know."""
        with Client(self.bootstrap) as client:
            create_topic(client, name, partition_count=partitions, replication_factor=replicas)
        deadline = time.monotonic() + 30
        while sum(self.counts()[0].values()) < partitions * replicas:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def cluster(nodes):
    """Its brokers, and the topic `t` of twelve partitions."""
    made = Cluster(nodes)
    with Client(made.bootstrap) as client:
        if not client.refresh(["t"], skip_missing=True):
            made.make("t", 12, 2)
    return made


def test_an_emptied_broker_that_is_a_voter_is_named_with_the_way_out():
    """A quorum of three with one that is gone for good has no second node to lose."""
    times = {"log_end_offset": 1, "fetched_at_ms": 1, "caught_up_at_ms": 1}
    voters = tuple(QuorumReplica(node_id=one, directory_id=bytes([one]) * 16, **times) for one in (1, 2))
    quorum = Quorum(leader_id=1, leader_epoch=1, high_watermark=1, voters=voters, observers=(), endpoints={})
    (sentence,) = voter_sentences(quorum, {2, 4})
    assert sentence.startswith("Node 2 is a voter of the metadata quorum, too")
    assert sentence.endswith(f"--controller-id 2 --controller-directory-id {uuid_text(bytes([2]) * 16)}")
    static = tuple(QuorumReplica(node_id=one, directory_id=None, **times) for one in (1, 2))
    quorum = Quorum(leader_id=1, leader_epoch=1, high_watermark=1, voters=static, observers=(), endpoints={})
    assert voter_sentences(quorum, {2}) == voter_sentences(None, {2}) == []


@pytest.mark.story
def test_a_broker_is_emptied_and_later_takes_its_share_again(cluster):
    """A dry run changes nothing. A run that has nothing to do says so. The throttle is gone in the end."""
    before = cluster.counts()
    plan = json.loads(cluster.run("decommission", "4", "--dry-run", "--json", "--throttle", "1MiB").stdout)["plan"]
    assert cluster.counts() == before
    assert plan["replicas"] == before[0][4] == len(plan["moves"])
    assert next(row for row in plan["brokers"] if row["broker"] == 4)["replicas_after"] == 0
    told = cluster.run("decommission", "4", "--execute", "--throttle", "10MiB")
    assert "Broker 4 holds no replica any more." in told.stderr
    assert cluster.counts()[0][4] == cluster.counts()[1][4] == 0
    assert "nothing to move" in cluster.run("decommission", "4", "--execute").stdout
    lines = cluster.run("rebalance", "--execute").stdout
    assert "another order" in lines or "each" in lines
    replicas, leaders = cluster.counts()
    assert max(replicas.values()) - min(replicas[one] for one in BROKERS) <= 1
    assert max(leaders.values()) - min(leaders[one] for one in BROKERS) <= 1
    assert "nothing to move" in cluster.run("rebalance", "--dry-run").stdout
    assert "Moved" not in cluster.run("rebalance", "--execute").stderr
    with Client(cluster.bootstrap) as client:
        assert throttled_replicas(client, ["t"]) == {}
    assert cluster.run().exit_code == 0


@pytest.mark.story
def test_a_run_that_was_interrupted_goes_on_with_the_next_one(cluster, monkeypatch):
    """Moves that have begun end by themselves; the throttle of the first run goes with the second."""
    looks = iter(range(1))

    def interrupted(_seconds):
        if next(looks, None) is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("stratalog.cli.cluster.rebalance.time", SimpleNamespace(sleep=interrupted))
        told = cluster.run("decommission", "1", "--execute", "--at-once", "1", "--throttle", "10MiB", code=1)
    assert "Interrupted: " in told.stderr
    assert "Until then their throttle stays." in told.stderr
    with Client(cluster.bootstrap) as client:
        assert list(throttled_replicas(client, ["t"])) == ["t"]
    cluster.run("decommission", "1", "--execute", "--throttle", "10MiB")
    assert cluster.counts()[0][1] == 0
    with Client(cluster.bootstrap) as client:
        assert (throttled_replicas(client, ["t"]), list_reassignments(client)) == ({}, {})
    cluster.run("rebalance", "--execute")


@pytest.mark.story
def test_a_broker_that_got_replicas_meanwhile_is_not_called_empty(cluster, monkeypatch):
    """A topic was made during the run: an administrator would stop and wipe the broker."""
    real, made = time.sleep, []

    def sleep(seconds):
        if not made:
            made.append("meanwhile")
            with Client(cluster.bootstrap) as client:
                create_topic(client, "meanwhile", partition_count=8, replication_factor=2)
        real(seconds)

    with monkeypatch.context() as patched:
        patched.setattr("stratalog.cli.cluster.rebalance.time", SimpleNamespace(sleep=sleep))
        told = cluster.run("decommission", "4", "--execute", code=4)
    assert re.search(
        r"Broker 4 holds replicas of \d partitions that were placed there meanwhile: meanwhile-", told.stderr
    )
    assert "Broker 4 holds no replica any more." in cluster.run("decommission", "4", "--execute").stderr
    with Client(cluster.bootstrap) as client:
        delete_topics(client, made)
    cluster.run("rebalance", "--execute")


def test_with_brokers_given_all_others_are_emptied(cluster):
    """Exit code 3 for an id that no broker has."""
    cluster.run("rebalance", "--brokers", "2,3", "--execute")
    assert set(cluster.counts()[0]) == {2, 3}
    assert "no broker 9 is registered" in cluster.run("rebalance", "--brokers", "2,9", "--dry-run", code=3).stderr
    assert "more than there are brokers" in cluster.run("rebalance", "--brokers", "2", "--dry-run", code=2).stderr
    cluster.run("rebalance", "--execute")
    assert set(cluster.counts()[0]) == set(BROKERS)


@pytest.mark.story
def test_partitions_get_more_replicas_and_fewer(cluster):
    """Those of the named topics, or all. More replicas than there are brokers are refused."""
    cluster.make("u", 3, 1)
    cluster.run("rebalance", "--replication-factor", "3", "--topic", "u", "--execute")
    assert cluster.replicas() == {"t": {2}, "u": {3}}
    with Client(cluster.bootstrap) as client:
        alter_topic_configs(client, "u", set_to={"min.insync.replicas": "2"})
    short = cluster.run("rebalance", "-r", "2", "--topic", "u", "--dry-run").stderr
    assert "acks=all to u are refused while a replica is away: min.insync.replicas is 2 of 2 for u" in short
    with Client(cluster.bootstrap) as client:
        alter_topic_configs(client, "u", set_to={}, delete=["min.insync.replicas"])
    assert "are refused" not in cluster.run("rebalance", "-r", "2", "--topic", "u", "--dry-run").stderr
    cluster.run("rebalance", "--replication-factor", "1", "--execute")
    assert cluster.replicas() == {"t": {1}, "u": {1}}
    refused = cluster.run("rebalance", "-r", "5", "--dry-run", code=2).stderr
    assert "t-0 cannot have 5 replicas: there are 4 brokers to hold them" in refused
    assert "topic 'x' does not exist" in cluster.run("rebalance", "-r", "2", "-t", "x", "--dry-run", code=3).stderr
    cluster.run("rebalance", "-r", "2", "--execute")
    assert cluster.replicas() == {"t": {2}, "u": {2}}


@pytest.mark.parametrize(
    "arguments",
    [("rebalance",), ("rebalance", "--dry-run", "--topic", "t"), ("rebalance", "--dry-run", "-r", "0"), ("rebalance", "--dry-run", "--execute"), ("decommission", "--dry-run"),
     ("rebalance", "--dry-run", "--brokers", "a"), ("rebalance", "--execute", "--throttle", "0")],
)  # fmt: skip
def test_senseless_options_are_a_usage_error(arguments):
    """Before anything is asked."""
    assert CliRunner().invoke(cli, ["cluster", *arguments]).exit_code == 2
    told = CliRunner().invoke(cli, ["cluster", "--json", "rebalance", "--dry-run"])
    assert told.exit_code == 2
    assert "Options go behind the command: stratalog cluster rebalance" in told.stderr
