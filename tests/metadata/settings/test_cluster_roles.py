"""Roles, quorum and listeners of a node: Kafka's rules, and a node that is a cluster by itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.metadata.settings.by_name import definitions
from stratalog.metadata.settings.catalogue.quorum_addresses import QuorumServer, VoterAddress
from stratalog.metadata.settings.cluster_roles import (
    ListenerNames,
    ProcessRole,
    cluster_roles,
    quorum_settings,
    role_notices,
    role_problems,
    single_node_problems,
)

THREE = "1@a:9093,2@b:9093,3@c:9093"
BOTH = ListenerNames(
    listeners=("PLAINTEXT", "CONTROLLER"),
    advertised=("PLAINTEXT", "CONTROLLER"),
    with_protocol=frozenset({"PLAINTEXT", "CONTROLLER"}),
)
BROKER = replace(BOTH, listeners=("PLAINTEXT",), advertised=("PLAINTEXT",))
CONTROLLER = replace(BOTH, listeners=("CONTROLLER",), advertised=("CONTROLLER",))


def values(**texts):
    """Every broker setting typed; the names that are given have dots for underscores."""
    found = {name: row.default for name, row in definitions().items()}
    for name, text in texts.items():
        dotted = name.replace("_", ".")
        found[dotted] = definitions()[dotted].parse(text)
    return found


def node(node_id=1, **texts):
    """A node with these settings."""
    return cluster_roles(values(**texts), node_id)


def test_a_node_without_settings_is_a_cluster_by_itself():
    """Broker and controller, no voters named: it keeps every rule, whichever listeners it has."""
    alone = node()
    assert alone.roles == {ProcessRole.BROKER, ProcessRole.CONTROLLER}
    assert not alone.has_peers
    assert role_problems(alone, replace(BROKER, with_protocol=frozenset())) == []
    assert single_node_problems(alone) == []


@pytest.mark.parametrize(
    "texts", [{"controller_quorum_voters": "1@a:9093"}, {"controller_quorum_bootstrap_servers": "z:1"}]
)
def test_a_node_that_names_itself_is_one_too(texts):
    """The stock file of Kafka 4.3 does; one server may be any name of this machine."""
    assert single_node_problems(node(**texts)) == []
    assert role_problems(node(**texts), BROKER) == []


def test_the_quorum_is_typed():
    """Every number of the quorum is Kafka's default unless it is given."""
    quorum = quorum_settings(
        values(
            controller_quorum_voters=THREE,
            controller_quorum_bootstrap_servers="a:9093,b:9093",
            controller_quorum_fetch_timeout_ms="1500",
        )
    )
    assert quorum.voters[1] == VoterAddress(2, "b", 9093)
    assert quorum.voter_ids == (1, 2, 3)
    assert quorum.bootstrap_servers == (QuorumServer("a", 9093), QuorumServer("b", 9093))
    assert (quorum.election_timeout_ms, quorum.election_backoff_max_ms, quorum.fetch_timeout_ms) == (1000, 1000, 1500)
    assert (quorum.request_timeout_ms, quorum.retry_backoff_ms, quorum.append_linger_ms) == (2000, 20, 25)
    assert (quorum.heartbeat_interval_ms, quorum.session_timeout_ms, quorum.registration_timeout_ms) == (
        2000,
        9000,
        60_000,
    )
    assert quorum.directory_timeout_ms == 30_000
    assert (quorum.fetch_max_bytes, quorum.fetch_snapshot_max_bytes, quorum.auto_join) == (1 << 20, 1 << 20, False)
    assert (quorum.idle_interval_ms, quorum.snapshot_bytes, quorum.snapshot_interval_ms) == (500, 20 << 20, 3_600_000)
    assert (quorum.segment_bytes, quorum.segment_ms) == (1 << 30, 604_800_000)
    assert (quorum.retention_bytes, quorum.retention_ms) == (100 << 20, 604_800_000)


@pytest.mark.parametrize(
    ("roles", "node_id", "names"),
    [("broker,controller", 1, BOTH), ("controller", 2, CONTROLLER), ("broker", 4, BROKER)],
)
@pytest.mark.parametrize(
    "quorum", [{"controller_quorum_voters": THREE}, {"controller_quorum_bootstrap_servers": "a:1,b:1"}]
)
def test_the_nodes_of_a_cluster_of_several_keep_the_rules(roles, node_id, names, quorum):
    """Static and dynamic quorum; serve of this release says that it cannot run them."""
    one = node(node_id, process_roles=roles, **quorum)
    assert role_problems(one, names) == []
    assert one.has_peers
    assert single_node_problems(one)


@pytest.mark.parametrize(
    ("node_id", "texts", "names", "why"),
    [
        (
            4,
            {"process_roles": "broker"},
            BROKER,
            "If using process.roles, either controller.quorum.bootstrap.servers must",
        ),
        (
            1,
            {"process_roles": "broker", "controller_quorum_voters": THREE},
            BROKER,
            "the node id 1 must not be included in the set of voters controller.quorum.voters={1, 2, 3}",
        ),
        (
            4,
            {"process_roles": "controller", "controller_quorum_voters": THREE},
            CONTROLLER,
            "the node id 4 must be included in the set of voters controller.quorum.voters={1, 2, 3}",
        ),
        (
            4,
            {"controller_quorum_voters": THREE},
            BOTH,
            "If process.roles contains the 'controller' role, the node id 4",
        ),
        (
            4,
            {"process_roles": "broker", "controller_quorum_voters": THREE},
            BOTH,
            (
                "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running "
                "KRaft with just the broker role"
            ),
        ),
        (
            4,
            {"process_roles": "broker", "controller_quorum_voters": THREE},
            replace(BROKER, with_protocol=frozenset({"PLAINTEXT"})),
            "Controller listener with name CONTROLLER defined in controller.listener.names not found in",
        ),
        (
            4,
            {
                "process_roles": "broker",
                "controller_quorum_voters": THREE,
                "controller_quorum_auto_join_enable": "true",
            },
            BROKER,
            "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
        ),
        (
            1,
            {"process_roles": "controller", "controller_quorum_voters": THREE},
            BOTH,
            "The listeners config must only contain KRaft controller listeners from controller.listener.names",
        ),
        (
            1,
            {"controller_quorum_voters": THREE},
            BROKER,
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration",
        ),
        (
            1,
            {"controller_quorum_voters": THREE, "controller_listener_names": "CONTROLLER,SECOND"},
            BOTH,
            "controller.listener.names must only contain values appearing in the 'listeners' configuration",
        ),
        (
            1,
            {"controller_quorum_voters": THREE},
            replace(BOTH, advertised=("CONTROLLER",)),
            "There must be at least one broker advertised listener. Perhaps all listeners appear in",
        ),
        (
            1,
            {"controller_quorum_voters": THREE, "inter_broker_listener_name": "INTERNAL"},
            BOTH,
            (
                "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based "
                "on currently configured listeners are PLAINTEXT"
            ),
        ),
        (1, {"controller_quorum_voters": "1@0.0.0.0:1,2@b:1"}, BOTH, "Host string (0.0.0.0) is not routeable"),
    ],
)
def test_a_broken_rule_is_said_in_kafkas_words(node_id, texts, names, why):
    """Each case breaks exactly one rule."""
    found = role_problems(node(node_id, **texts), names)
    assert len(found) == 1
    assert why in found[0]


@pytest.mark.parametrize(
    ("node_id", "texts", "why"),
    [
        (1, {"process_roles": "controller"}, "process.roles=controller cannot run: in this release one process is"),
        (1, {"process_roles": "broker"}, "process.roles=broker cannot run"),
        (1, {"controller_quorum_voters": THREE}, "controller.quorum.voters names the other voters 2, 3"),
        (
            1,
            {"controller_quorum_bootstrap_servers": "a:1,b:1"},
            "controller.quorum.bootstrap.servers names several controllers",
        ),
    ],
)
def test_a_node_with_peers_is_no_single_node(node_id, texts, why):
    """One sentence says which setting it is, and what to do."""
    (found,) = single_node_problems(node(node_id, **texts))
    assert why in found


def test_a_lease_that_two_heartbeats_do_not_fit_into_is_noticed():
    """Kafka logs it as an error and goes on."""
    slow = {"controller_quorum_voters": THREE, "broker_heartbeat_interval_ms": "5000"}
    (found,) = role_notices(node(**slow))
    assert "broker.heartbeat.interval.ms (5000 ms) must be less than or equal to half of the" in found
    assert role_notices(node(broker_heartbeat_interval_ms="5000")) == []


def test_a_broker_uses_the_first_controller_listener_only():
    """Kafka warns of the others."""
    two = node(4, process_roles="broker", controller_quorum_voters=THREE, controller_listener_names="A,b")
    assert two.controller_listeners == ("A", "B")
    assert "only the first will be used" in role_notices(two)[0]


def test_brokers_reach_each_other_by_the_listener_that_is_named():
    """Without a name it is the one of the protocol between brokers."""
    assert node().inter_broker_listener == "PLAINTEXT"
    assert node(inter_broker_listener_name="internal").inter_broker_listener == "INTERNAL"
