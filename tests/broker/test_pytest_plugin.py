"""The fixture ``stratalog_broker``, as anybody's tests get it."""

import os
import subprocess
import sys

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import Client

SUITE = """
import sys

import pytest

names = []


def test_the_plugin_imports_no_node_before_a_test_uses_one():
    assert "stratalog.broker.node" not in sys.modules
    assert "stratalog.broker.pytest_plugin" in sys.modules


def test_a_broker_with_the_settings_of_the_ini_file(stratalog_broker):
    names.append(stratalog_broker.bootstrap_servers)
    assert stratalog_broker.create_topic("t", partitions=-1).partition_count == 4


@pytest.mark.stratalog_settings({"num.partitions": 2})
class TestMarked:
    def test_the_marker_of_the_class(self, stratalog_broker):
        assert stratalog_broker.create_topic("t", partitions=-1).partition_count == 2

    @pytest.mark.stratalog_settings({"num.partitions": 3})
    def test_the_nearer_marker_wins(self, stratalog_broker):
        names.append(stratalog_broker.bootstrap_servers)
        assert stratalog_broker.create_topic("t", partitions=-1).partition_count == 3


def test_each_test_had_its_own():
    assert len(set(names)) == 2
"""


@pytest.mark.story
def test_a_suite_that_uses_it(tmp_path):
    """Found by its entry point, with strict markers, in a process of its own."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-markers\nstratalog_settings =\n    num.partitions=4\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "5 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("turn", [1, 2])
def test_a_broker_is_fresh_for_each_test(stratalog_broker, turn):
    """Topics, settings and faults of one test are gone in the next."""
    with Client(stratalog_broker.bootstrap_servers) as client:
        assert list(client.refresh()) == []
    stratalog_broker.create_topic("t")
    assert stratalog_broker.store.injected == []


@pytest.mark.cluster
def test_a_cluster_of_real_nodes_elects_another_controller(stratalog_cluster):
    """When the active one is cut off, and when it is killed; topics outlive both."""
    cluster = stratalog_cluster(nodes=3)
    first = cluster.active_controller()
    with Client(cluster.address(first)) as client:
        create_topic(client, "t", partition_count=3)
    cluster.isolate(first)
    while (second := cluster.active_controller()) == first:
        pass
    cluster.heal()
    cluster.kill(second)
    third = cluster.active_controller()
    assert third != second
    cluster.start(second)
    cluster.wait_ready()
    with Client(cluster.address(second)) as client:
        assert [len(topic.partitions) for topic in client.refresh(["t"])] == [3]
    cluster.stop(third)
    assert cluster.active_controller() != third
