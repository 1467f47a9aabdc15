"""The listeners of a node by role, and the address at which others reach its controller.

Source: Kafka's ``KafkaConfig.effectiveAdvertisedControllerListeners`` (KIP-853).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stratalog.broker.settings.listeners import (
    Listener,
    SecurityProtocol,
    advertised_listeners,
    check_ports,
    parse_listeners,
    parse_protocol_map,
)
from stratalog.metadata.settings.cluster_roles import ClusterRoles, ListenerNames

__all__ = ["NodeListeners", "controller_address", "node_listeners"]

_EVERY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeListeners:
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


def controller_address(node: ClusterRoles, listeners: NodeListeners) -> tuple[str, int] | None:
    """Host and port at which others reach the first controller listener; None for a node that has none.

    A listener on every interface that is not advertised has the address of this node in ``controller.quorum.voters``,
    and ``localhost`` without one, as in Kafka.
    """
    name = node.controller_listeners[0]
    for one in listeners.advertised_controllers:
        if one.name == name:
            return one.host, one.port
    found = next((one for one in listeners.controllers if one.name == name), None)
    if found is None:
        return None
    if found.host not in _EVERY_INTERFACE:
        return found.host, found.port
    mine = next((voter for voter in node.quorum.voters if voter.node_id == node.node_id), None)
    return ("localhost", found.port) if mine is None else (mine.host, mine.port)
