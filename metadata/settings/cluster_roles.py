"""The roles of a process, the quorum that it belongs to, and the rules that bind the two to listeners.

Kafka's rules hold for every node with peers, and for one with a single role. A process that is broker and controller
at once and names no other node is a cluster by itself, which needs no listener of a controller. Source of rules and
sentences: Kafka's ``KafkaConfig.validateValues``, ``QuorumConfig``; KIP-500, KIP-595, KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from stratalog.metadata.settings.catalogue.quorum_addresses import (
    QuorumServer,
    VoterAddress,
    parse_quorum_servers,
    parse_voter_addresses,
)
from stratalog.metadata.settings.catalogue.types import ConfigValue

__all__ = [
    "ClusterRoles",
    "ListenerNames",
    "ProcessRole",
    "QuorumSettings",
    "cluster_roles",
    "quorum_settings",
    "role_notices",
    "role_problems",
    "single_node_problems",
]

_UNROUTABLE = "0.0.0.0"  # noqa: S104 - refused, not bound


class ProcessRole(StrEnum):
    """A role of a process in the cluster; the words of ``process.roles``."""

    BROKER = "broker"
    CONTROLLER = "controller"


class QuorumSettings(Struct, frozen=True, kw_only=True):
    """The settings of the metadata quorum and of brokers' sessions in it, typed; the units are in the names."""

    voters: tuple[VoterAddress, ...]
    """The static voters; empty with a dynamic quorum (KIP-853), whose voters stand in the metadata log."""
    bootstrap_servers: tuple[QuorumServer, ...]
    auto_join: bool
    election_timeout_ms: int
    election_backoff_max_ms: int
    fetch_timeout_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    append_linger_ms: int
    fetch_max_bytes: int
    fetch_snapshot_max_bytes: int
    heartbeat_interval_ms: int
    session_timeout_ms: int
    registration_timeout_ms: int
    """How long a broker tries to register before it gives up."""
    directory_timeout_ms: int
    """How long the controller may not have heard of a failed directory before the broker ends."""
    idle_interval_ms: int
    """The silence after which the leader writes a NoOpRecord; 0 for never."""
    snapshot_bytes: int
    """Bytes of records after which a snapshot is written."""
    snapshot_interval_ms: int
    """The longest time without a snapshot while records come in; 0 for no limit."""
    segment_bytes: int
    segment_ms: int
    retention_bytes: int
    retention_ms: int

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """The ids of the static voters, ascending."""
        return tuple(sorted(voter.node_id for voter in self.voters))


class ClusterRoles(Struct, frozen=True, kw_only=True):
    """The place of a process in its cluster."""

    node_id: int
    roles: frozenset[ProcessRole]
    controller_listeners: tuple[str, ...]
    """The names of ``controller.listener.names`` in upper case; others reach a controller by the first."""
    inter_broker_listener: str
    """The name of the listener by which brokers reach each other."""
    quorum: QuorumSettings
    is_joinable: bool = False
    """Other nodes may join although the settings name none, or the one server that they name is another node."""

    @property
    def is_broker(self) -> bool:
        """Whether clients are served."""
        return ProcessRole.BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether the process may lead the metadata log."""
        return ProcessRole.CONTROLLER in self.roles

    @property
    def is_combined(self) -> bool:
        """Whether the process is broker and controller at once."""
        return self.is_broker and self.is_controller

    @property
    def has_peers(self) -> bool:
        """Whether there may be another node: a role that is missing here, a voter, a second server, one that joins."""
        others = set(self.quorum.voter_ids) - {self.node_id}
        return self.is_joinable or not self.is_combined or bool(others) or len(set(self.quorum.bootstrap_servers)) > 1


class ListenerNames(Struct, frozen=True, kw_only=True):
    """The names of a node's listeners, in upper case."""

    listeners: tuple[str, ...]
    advertised: tuple[str, ...]
    """Those of ``advertised.listeners``, or of ``listeners`` where that is not given."""
    with_protocol: frozenset[str]
    """Names that have a security protocol."""


def quorum_settings(values: Mapping[str, ConfigValue]) -> QuorumSettings:
    """The quorum of the broker settings ``values``, every one of them typed. Raises `ConfigError` for an address."""

    def number(name: str) -> int:
        value = values[name]
        assert isinstance(value, int), name
        return value

    def texts(name: str) -> tuple[str, ...]:
        value = values[name]
        assert isinstance(value, tuple), name
        return value

    quorum = "controller.quorum."
    return QuorumSettings(
        voters=parse_voter_addresses(texts(f"{quorum}voters")),
        bootstrap_servers=parse_quorum_servers(texts(f"{quorum}bootstrap.servers")),
        auto_join=bool(values[f"{quorum}auto.join.enable"]),
        election_timeout_ms=number(f"{quorum}election.timeout.ms"),
        election_backoff_max_ms=number(f"{quorum}election.backoff.max.ms"),
        fetch_timeout_ms=number(f"{quorum}fetch.timeout.ms"),
        request_timeout_ms=number(f"{quorum}request.timeout.ms"),
        retry_backoff_ms=number(f"{quorum}retry.backoff.ms"),
        append_linger_ms=number(f"{quorum}append.linger.ms"),
        fetch_max_bytes=number(f"{quorum}fetch.max.bytes"),
        fetch_snapshot_max_bytes=number(f"{quorum}fetch.snapshot.max.bytes"),
        heartbeat_interval_ms=number("broker.heartbeat.interval.ms"),
        session_timeout_ms=number("broker.session.timeout.ms"),
        registration_timeout_ms=number("initial.broker.registration.timeout.ms"),
        directory_timeout_ms=number("log.dir.failure.timeout.ms"),
        idle_interval_ms=number("metadata.max.idle.interval.ms"),
        snapshot_bytes=number("metadata.log.max.record.bytes.between.snapshots"),
        snapshot_interval_ms=number("metadata.log.max.snapshot.interval.ms"),
        segment_bytes=number("metadata.log.segment.bytes"),
        segment_ms=number("metadata.log.segment.ms"),
        retention_bytes=number("metadata.max.retention.bytes"),
        retention_ms=number("metadata.max.retention.ms"),
    )


def cluster_roles(values: Mapping[str, ConfigValue], node_id: int) -> ClusterRoles:
    """The place of the node ``node_id`` with the broker settings ``values``. Raises `ConfigError` for an address."""

    def names(name: str) -> tuple[str, ...]:
        value = values[name]
        return value if isinstance(value, tuple) else ()

    inter_broker = values["inter.broker.listener.name"] or values["security.inter.broker.protocol"]
    return ClusterRoles(
        node_id=node_id,
        roles=frozenset(map(ProcessRole, names("process.roles"))),
        controller_listeners=tuple(name.upper() for name in names("controller.listener.names")),
        inter_broker_listener=str(inter_broker).upper(),
        quorum=quorum_settings(values),
    )


def role_problems(node: ClusterRoles, names: ListenerNames) -> list[str]:
    """The rules that a node breaks, a sentence each; empty if it keeps all of them."""
    if not node.has_peers:
        return []
    problems = list(_quorum_problems(node))
    problems += _broker_only_problems(node, names) if not node.is_controller else _controller_problems(node, names)
    if node.is_broker:
        problems += _broker_problems(node, names)
    return problems


def _quorum_problems(node: ClusterRoles) -> Iterator[str]:
    voters = node.quorum.voter_ids
    if not voters and not node.quorum.bootstrap_servers:
        yield (
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            "controllers or controller.quorum.voters must contain a parseable set of controllers."
        )
    for voter in node.quorum.voters:
        if voter.host == _UNROUTABLE:
            yield f"controller.quorum.voters: Host string ({voter.host}) is not routeable"
    listed = f"the set of voters controller.quorum.voters={{{', '.join(map(str, voters))}}}"
    if node.is_controller and voters and node.node_id not in voters:
        yield (
            f"If process.roles contains the 'controller' role, the node id {node.node_id} must be included in {listed}"
        )
    if not node.is_controller and node.node_id in voters:
        yield (
            f"If process.roles contains just the 'broker' role, the node id {node.node_id} must not be included in {listed}"
        )


def _broker_only_problems(node: ClusterRoles, names: ListenerNames) -> Iterator[str]:
    if set(node.controller_listeners) & set(names.listeners):
        yield (
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running "
            "KRaft with just the broker role"
        )
    for name in node.controller_listeners:
        if name not in names.with_protocol:
            yield (
                f"Controller listener with name {name} defined in controller.listener.names not found in "
                "listener.security.protocol.map (an explicit security mapping for each controller listener is required "
                "if listener.security.protocol.map is non-empty, or if there are security protocols other than PLAINTEXT "
                "in use)"
            )
    if node.quorum.auto_join:
        yield (
            "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role."
        )


def _controller_problems(node: ClusterRoles, names: ListenerNames) -> Iterator[str]:
    if not node.is_broker and set(names.listeners) - set(node.controller_listeners):
        yield (
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller"
        )
    if not set(node.controller_listeners) & set(names.listeners):
        yield (
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role"
        )
    elif set(node.controller_listeners) - set(names.listeners):
        yield (
            "controller.listener.names must only contain values appearing in the 'listeners' configuration when running "
            "the KRaft controller role"
        )


def _broker_problems(node: ClusterRoles, names: ListenerNames) -> Iterator[str]:
    advertised = [name for name in names.advertised if name not in node.controller_listeners]
    if not advertised:
        yield (
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?"
        )
    elif node.inter_broker_listener not in advertised:
        yield (
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based "
            f"on currently configured listeners are {','.join(advertised)}"
        )


def role_notices(node: ClusterRoles) -> list[str]:
    """The things that a node with these settings may stumble over, a sentence each."""
    quorum, found = node.quorum, []
    if node.has_peers and quorum.heartbeat_interval_ms * 2 > quorum.session_timeout_ms:
        found.append(
            f"broker.heartbeat.interval.ms ({quorum.heartbeat_interval_ms} ms) must be less than or equal to half of the "
            f"broker.session.timeout.ms ({quorum.session_timeout_ms} ms), or the broker loses its lease. Please increase "
            "broker.session.timeout.ms or decrease broker.heartbeat.interval.ms."
        )
    if not node.is_controller and len(node.controller_listeners) > 1:
        found.append(
            "controller.listener.names has multiple entries; only the first will be used since process.roles=broker: "
            f"{','.join(node.controller_listeners)}"
        )
    return found


def single_node_problems(node: ClusterRoles) -> list[str]:
    """The reasons why this release cannot run the node, which must be a cluster by itself; empty if it is one."""
    only = "in this release one process is the whole cluster, its broker and its only controller"
    found = []
    if not node.is_combined:
        found.append(
            f"process.roles={','.join(sorted(node.roles))} cannot run: {only}; set process.roles=broker,controller"
        )
    others = sorted(set(node.quorum.voter_ids) - {node.node_id})
    if others:
        found.append(
            f"controller.quorum.voters names the other voters {', '.join(map(str, others))}: {only}; remove the setting"
        )
    if len(set(node.quorum.bootstrap_servers)) > 1:
        found.append(f"controller.quorum.bootstrap.servers names several controllers: {only}; name one, or remove it")
    return found
