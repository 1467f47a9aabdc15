"""DescribeCluster (key 60): the cluster's id, controller and nodes, without topics (KIP-700).

``endpoint_type``: 1 brokers, 2 controllers.

- 0: brokers. 1: the endpoint type (KIP-919). 2: fenced brokers, if asked for (KIP-1073).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "DescribeClusterBroker",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
]


class DescribeClusterRequest(Message, api_key=60, versions=(0, 2), flexible=0):
    """The details that are asked for."""

    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field(1, since=1)
    include_fenced_brokers: Bool = field(since=2)


class DescribeClusterBroker(Struct):
    """One node, at the listener that was asked."""

    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = field()
    is_fenced: Bool = field(since=2)


class DescribeClusterResponse(Message, api_key=60, versions=(0, 2), flexible=0):
    """The cluster. ``cluster_authorized_operations`` is a bit set, the smallest int32 if not asked for."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    endpoint_type: Int8 = field(1, since=1)
    cluster_id: str
    controller_id: Int32 = field(-1)
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = field(-(2**31))
