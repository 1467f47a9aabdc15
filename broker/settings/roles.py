"""The listeners of a node by role, and the address at which others reach its controller.

Source: Kafka's ``KafkaConfig.effectiveAdvertisedControllerListeners`` (KIP-853).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from stratalog.broker.settings.listeners import (
    Listener,
    SecurityProtocol,
    advertised_listeners,
    check_ports,
    parse_listeners,
    parse_protocol_map,
)
from stratalog.metadata.settings.cluster_roles import ClusterRoles, ListenerNames

__all__ = ["EVERY_INTERFACE", "NodeListeners", "controller_address", "node_listeners", "told_controllers"]

EVERY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


class NodeListeners(Struct, frozen=True, kw_only=True):
    """The addresses of a node: of its broker, as clients get them, and of its controller."""

    served: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    controllers: tuple[Listener, ...]
    advertised_controllers: tuple[Listener, ...]
    """Controller listeners that ``advertised.listeners`` names."""
    names: ListenerNames


def node_listeners(
    node: ClusterRoles,
    *,
    listeners: Sequence[str],
    advertised: Sequence[str],
    protocol_map: str,
    map_is_given: bool,
    host_name: str,
) -> NodeListeners:
    """The listeners of a node from its settings. Raises `ListenerError`."""
    controllers = set(node.controller_listeners)
    protocols: Mapping[str, SecurityProtocol] = parse_protocol_map(protocol_map)
    if not map_is_given:
        protocols = dict.fromkeys(sorted(controllers), SecurityProtocol.PLAINTEXT) | dict(protocols)
    every = parse_listeners(",".join(listeners), protocols)
    check_ports(every)
    told = ",".join(advertised) or None
    reached = advertised_listeners(told, every, protocols, host_name)
    return NodeListeners(
        served=tuple(one for one in every if one.name not in controllers),
        advertised=tuple(one for one in reached if one.name not in controllers),
        controllers=tuple(one for one in every if one.name in controllers),
        advertised_controllers=tuple(one for one in reached if told and one.name in controllers),
        names=ListenerNames(
            listeners=tuple(one.name for one in every),
            advertised=tuple(one.name for one in reached),
            with_protocol=frozenset(protocols),
        ),
    )


def told_controllers(node: ClusterRoles, listeners: NodeListeners) -> tuple[Listener, ...]:
    """The controller listeners of a node as other nodes reach them, in the order of ``controller.listener.names``.

    A listener on every interface that is not advertised has the address of this node in ``controller.quorum.voters``,
    and ``localhost`` without one, as in Kafka. Empty for a node that has none.
    """
    bound = {one.name: one for one in listeners.controllers}
    named = {one.name: one for one in listeners.advertised_controllers}
    mine = next((voter for voter in node.quorum.voters if voter.node_id == node.node_id), None)
    told = []
    for name in node.controller_listeners:
        one = named.get(name) or bound.get(name)
        if one is None:
            continue
        if one.host in EVERY_INTERFACE:
            host, port = ("localhost", one.port) if mine is None else (mine.host, mine.port)
            one = replace(one, host=host, port=port)
        told.append(one)
    return tuple(told)


def controller_address(node: ClusterRoles, listeners: NodeListeners) -> tuple[str, int] | None:
    """Host and port at which others reach the first controller listener; None for a node that has none."""
    first = next((one for one in told_controllers(node, listeners) if one.name == node.controller_listeners[0]), None)
    return None if first is None else (first.host, first.port)
