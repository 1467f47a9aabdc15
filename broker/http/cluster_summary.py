"""The cluster as the page shows it: its nodes, and the state of each as this broker knows it. Pure."""

from __future__ import annotations

from typing import TypedDict

from stratalog.broker.http.replica_counts import ReplicaCounts
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.metadata.image.image import ClusterImage

__all__ = ["ClusterSummary", "NodeSummary", "cluster_summary"]


class NodeSummary(TypedDict):
    """One node."""

    node: int
    roles: list[str]
    """``broker``, ``controller`` or both."""
    state: str
    """``active``, ``stopping`` or ``fenced`` for a broker; empty for a controller alone, which only the quorum knows."""
    address: str
    """Where clients reach it, ``HOST:PORT``; empty for a controller alone."""
    rack: str | None


class ClusterSummary(TypedDict):
    """A cluster of several nodes."""

    cluster_id: str
    node: int
    """The node that answers."""
    controller: int | None
    """The active controller; None while this node knows of none."""
    controller_epoch: int
    nodes: list[NodeSummary]
    replicas: ReplicaCounts | None
    """None until the partitions of the cluster have been counted."""


def cluster_summary(
    image: ClusterImage, cluster_id: str, node_id: int, leader: LeaderAndEpoch, replicas: ReplicaCounts | None
) -> ClusterSummary:
    """The nodes of ``image``, by id. A node that has registered in neither role yet is missing."""
    brokers, controllers = image.brokers.brokers, image.brokers.controllers
    return ClusterSummary(
        cluster_id=cluster_id,
        node=node_id,
        controller=leader.leader_id if leader.leader_id >= 0 else None,
        controller_epoch=leader.epoch,
        nodes=[
            _node(one, brokers.get(one), is_controller=one in controllers) for one in sorted({*brokers, *controllers})
        ],
        replicas=replicas,
    )


def _node(node_id: int, broker: BrokerImage | None, *, is_controller: bool) -> NodeSummary:
    roles = [name for name, has in (("broker", broker is not None), ("controller", is_controller)) if has]
    if broker is None:
        return NodeSummary(node=node_id, roles=roles, state="", address="", rack=None)
    state = "fenced" if broker.is_fenced else "stopping" if broker.in_controlled_shutdown else "active"
    address = next((f"{at.host}:{at.port}" for at in broker.listeners.values()), "")
    return NodeSummary(node=node_id, roles=roles, state=state, address=address, rack=broker.rack)
