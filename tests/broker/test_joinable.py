"""Which nodes others may join, by their settings and the directory of the metadata."""

import pytest

from stratalog.broker.joinable import joinable
from stratalog.broker.settings.config import load_config
from stratalog.metadata.formatting.node_format import BOOTSTRAP_SNAPSHOT
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT
from stratalog.metadata.quorum.quorum_state import QuorumState

LISTENERS = "listeners=PLAINTEXT://a:9092,CONTROLLER://a:9093"
NAMED = "controller.quorum.bootstrap.servers=a:9093"
LISTED = "controller.quorum.voters=1@a:9093"
STATE = BOOTSTRAP_SNAPSHOT.rpartition("/")[0] + "/quorum-state"


@pytest.fixture
def node(tmp_path):
    """The settings of a node that is broker and controller, with a file in its directory; whether others may join it."""

    def made(*assignments, file="", content=b""):
        if file:
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_bytes(content)
        given = [
            "process.roles=broker,controller",
            "node.id=1",
            f"log.dirs={tmp_path}",
            "controller.listener.names=CONTROLLER",
            *assignments,
        ]
        return joinable(load_config(assignments=given, environment={}, host_name="a")).roles.has_peers

    return made


@pytest.mark.parametrize(
    ("quorum", "file", "content", "may_join"),
    [
        (NAMED, "", b"", False),
        (NAMED, BOOTSTRAP_CHECKPOINT, b"", False),
        (NAMED, BOOTSTRAP_SNAPSHOT, b"", True),
        (NAMED, STATE, QuorumState(leader_epoch=3, data_version=1).to_bytes(), True),
        (NAMED, STATE, QuorumState(leader_epoch=3).to_bytes(), False),
        (NAMED, STATE, b"{", False),
        (LISTED, "", b"", False),
        (LISTED, BOOTSTRAP_CHECKPOINT, b"", True),
    ],
)
def test_a_voters_directory_lets_others_join(node, quorum, file, content, may_join):
    """An empty directory, or one that a cluster of one has begun, is that of a cluster by itself."""
    assert node(LISTENERS, quorum, file=file, content=content) is may_join


def test_without_a_controllers_listener_no_node_can_join(node):
    """The directory was formatted for more."""
    assert not node("listeners=PLAINTEXT://a:9092", file=BOOTSTRAP_SNAPSHOT)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("controller.quorum.bootstrap.servers=", "controller.quorum.bootstrap.servers must contain"),
        ("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL", "needs SSL"),
    ],
)
def test_the_rules_for_nodes_with_peers_hold(node, more, said, caplog):
    """Kafka's: a quorum is named, and its listener can be served. Else the node stays the cluster that it was."""
    assignments = [LISTENERS, more] if "bootstrap" in more else [LISTENERS, NAMED, more]
    assert not node(*assignments, file=BOOTSTRAP_SNAPSHOT)
    assert "no other node can join this one" in caplog.text
    assert said in caplog.text
