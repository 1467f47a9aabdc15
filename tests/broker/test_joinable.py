"""Which nodes others may join, by their settings and the directory of the metadata."""

import pytest

from stratalog.broker.joinable import joinable
from stratalog.broker.settings.config import ConfigRefused, load_config
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
        config = load_config(assignments=given, environment={}, host_name="a")
        return joinable(config, lambda: "a.internal").roles.has_peers

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


ANY = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093"
ADVERTISED = "advertised.listeners=PLAINTEXT://a:9092,CONTROLLER://a:9093"


@pytest.mark.parametrize(
    ("listeners", "server", "has_peers"),
    [
        (LISTENERS, "a:9093", False),
        (LISTENERS, "b:9093", True),
        (LISTENERS, "a:9094", True),
        ("listeners=PLAINTEXT://a:9092,CONTROLLER://a:0", "b:9093", False),
        ("listeners=PLAINTEXT://a:9092,CONTROLLER://127.0.0.1:9093", "LOCALHOST:9093", False),
        ("listeners=PLAINTEXT://a:9092,CONTROLLER://localhost:9093", "127.0.0.1:9093", False),
        ("listeners=PLAINTEXT://a:9092,CONTROLLER://localhost:9093", "b:9093", True),
        (ANY, "localhost:9093", False),
        (ANY, "127.0.0.1:9093", False),
        (ANY, "a:9093", False),
        (ANY, "a.example.com:9093", False),
        (ANY, "b:9093", True),
        (ANY, "10.0.0.2:9093", True),
        (ANY, "a:9095", True),
        (f"{ANY} {ADVERTISED}", "a:9093", False),
        (f"{ANY} {ADVERTISED}", "b:9093", True),
    ],
)
def test_a_node_whose_only_server_is_another_joins_that_one(node, listeners, server, has_peers):
    """It is no cluster by itself: it waited for itself, without a word, or began a second cluster."""
    assert node(*listeners.split(), f"controller.quorum.bootstrap.servers={server}") is has_peers


def test_a_node_without_a_controllers_listener_cannot_join_another(node):
    """It would begin a second cluster. Where the server is this host, it is a cluster by itself as before."""
    with pytest.raises(ConfigRefused, match=r"controller\.listener\.names"):
        node("listeners=PLAINTEXT://a:9092", "controller.quorum.bootstrap.servers=b:9093")
    for own in ("a:9093", "localhost:9093"):
        assert not node("listeners=PLAINTEXT://a:9092", f"controller.quorum.bootstrap.servers={own}")


def test_a_controllers_listener_that_cannot_be_served_joins_nothing(node):
    """The rules for nodes with peers hold for it."""
    with pytest.raises(ConfigRefused, match="needs SSL"):
        node(
            LISTENERS,
            "controller.quorum.bootstrap.servers=b:9093",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        )


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
