"""The files of a cluster on one machine: a directory and a properties file for each node. Pure: values in, texts out.

Every node is broker and controller; all of them are the first voters of a dynamic quorum (KIP-853), under directory ids
that are fixed before the directories exist. The files are Kafka's own: `stratalog serve --config` runs each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from stratalog.wire.errors import Invalid
from stratalog.wire.topic import Uuid, uuid_text

__all__ = ["HOST", "NODES_MAX", "ClusterLayout", "NodeLayout", "NodePorts", "cluster_layout", "properties_name"]

HOST: Final = "127.0.0.1"
NODES_MAX: Final = 9
"""More voters than this make elections slower and no cluster safer; one machine has to run them all."""
REPLICAS_MAX: Final = 3
"""Kafka's advice for copies of a partition; two of them have to be in sync."""
_CONTROLLER: Final = "CONTROLLER"
_CLIENTS: Final = "PLAINTEXT"
_BROKERS: Final = "BROKERS"


class NodePorts(Struct, frozen=True, kw_only=True):
    """The ports of a node on `HOST`."""

    clients: int
    controller: int
    http: int
    brokers: int | None = None
    """The listener by which brokers reach each other; None for that of clients."""
    told_controller: int | None = None
    """The port at which others reach the controller; None for its own. A proxy may stand there."""
    told_brokers: int | None = None
    """The same for the listener of brokers."""


class NodeLayout(Struct, frozen=True, kw_only=True):
    """One node: its directories, and the settings of its properties file."""

    node_id: int
    properties_path: str
    settings: Mapping[str, str]

    @property
    def properties(self) -> str:
        """The properties file."""
        lines = [f"{name}={_escaped(value)}" for name, value in self.settings.items()]
        return "\n".join([f"# Node {self.node_id} of a cluster on one machine.", *lines, ""])


class ClusterLayout(Struct, frozen=True, kw_only=True):
    """The nodes of a cluster by id, and the values with which all of their directories are formatted."""

    cluster_id: str
    initial_controllers: str
    """As `stratalog format --initial-controllers` takes it."""
    bucket_url: str
    nodes: tuple[NodeLayout, ...]


def properties_name(node_id: int) -> str:
    """The name of a node's properties file in the directory of its cluster."""
    return f"node-{node_id}.properties"


def cluster_layout(
    ports: Sequence[NodePorts],
    directory: str,
    *,
    cluster_id: str,
    directory_ids: Sequence[Uuid],
    bucket_url: str,
    replicas: int = REPLICAS_MAX,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> ClusterLayout:
    """The files of a cluster below ``directory``, an absolute path; node ids count from 1 in the order of ``ports``.

    ``directory_ids`` are new ids, one a node. Topics get ``replicas`` where there are as many nodes. ``settings`` stand in the file of every node and win over those made here.
    Raises `Invalid` for a number of nodes that cannot be.
    """
    if not 1 <= len(ports) <= NODES_MAX:
        raise Invalid(f"{len(ports)} nodes cannot be: a cluster on one machine has 1 to {NODES_MAX}")
    assert len(directory_ids) == len(set(directory_ids)) == len(ports), "a directory id for each node"
    voters = [
        f"{node_id}@{HOST}:{each.told_controller or each.controller}:{uuid_text(directory_id)}"
        for node_id, (each, directory_id) in enumerate(zip(ports, directory_ids, strict=True), 1)
    ]
    bootstrap = ",".join(f"{HOST}:{each.told_controller or each.controller}" for each in ports)
    nodes = tuple(
        NodeLayout(
            node_id=node_id,
            properties_path=f"{directory}/{properties_name(node_id)}",
            settings=MappingProxyType(
                {
                    "process.roles": "broker,controller",
                    "node.id": str(node_id),
                    "controller.quorum.bootstrap.servers": bootstrap,
                    **_listeners(each),
                    "log.dirs": f"{directory}/node-{node_id}",
                    "stratalog.bucket.url": bucket_url,
                    "stratalog.cache.dir": f"{directory}/node-{node_id}-cache",
                    "stratalog.http.listener": f"{HOST}:{each.http}",
                    **_copies(min(len(ports), replicas)),
                    **settings,
                }
            ),
        )
        for node_id, each in enumerate(ports, 1)
    )
    return ClusterLayout(
        cluster_id=cluster_id, initial_controllers=",".join(voters), bucket_url=bucket_url, nodes=nodes
    )


def _copies(replicas: int) -> dict[str, str]:
    """The replicas of every topic. One of three nodes may be killed, and clients go on; with two nodes, one in sync is enough."""
    in_sync = str(max(replicas - 1, 1))
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
    }


def _listeners(ports: NodePorts) -> dict[str, str]:
    """The listeners of a node and their advertised addresses: for clients, for brokers if they have one, for controllers."""
    bound = {_CLIENTS: ports.clients}
    told = {_CLIENTS: ports.clients}
    if ports.brokers is not None:
        bound[_BROKERS] = ports.brokers
        told[_BROKERS] = ports.told_brokers or ports.brokers
    bound[_CONTROLLER] = ports.controller
    told[_CONTROLLER] = ports.told_controller or ports.controller
    return {
        "listeners": _addresses(bound),
        "advertised.listeners": _addresses(told),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in bound),
        "inter.broker.listener.name": _CLIENTS if ports.brokers is None else _BROKERS,
        "controller.listener.names": _CONTROLLER,
    }


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())


def _escaped(value: str) -> str:
    """A value as a properties file spells it: a backslash doubled, a line end and a leading blank escaped."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped[:1] in {" ", "\t", "\f"} else escaped
