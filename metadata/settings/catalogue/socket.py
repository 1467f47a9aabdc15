"""Broker settings of listeners, sockets and connections."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    INT,
    INT_MAX,
    LIST,
    LONG,
    STRING,
    WIDE,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import AddressCounts, AnyList, OneOf, at_least

__all__ = ["SECURITY_PROTOCOLS", "SOCKET_SETTINGS"]

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_AS_BUILT: Final = "links to other nodes have bounds of their own"
_PLAIN: Final = "one broker or several, they talk in plain text in this release"
_PROTOCOL_MAP: Final = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"

# fmt: off
SOCKET_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("advertised.listeners", LIST, None, AnyList(empty_allowed=False, null_allowed=True),
            doc="Addresses that clients get, as NAME://host:port; not set, the listeners themselves. 0.0.0.0 "
                "cannot be advertised."),
    setting("connections.max.idle.ms", LONG, 600_000, at_least(-1),
            doc="A connection silent for longer than this is closed; -1: none is."),
    setting("inter.broker.listener.name", STRING, None,
            doc="Listener that brokers use among themselves."),
    setting("listener.security.protocol.map", STRING, _PROTOCOL_MAP,
            doc="Security protocol of each listener name, as NAME:PROTOCOL pairs; Kafka may change it while it runs."),
    setting("listeners", LIST, ("PLAINTEXT://:9092",), AnyList(empty_allowed=False),
            doc="Addresses to listen on, as NAME://host:port; an empty host is every interface, port 0 any free port. "
                "Those of controller.listener.names are bound where the settings name other nodes. Kafka may change them while it runs."),
    setting("max.connection.creation.rate", INT, INT_MAX, at_least(0), mode=WIDE,
            doc="New connections a second, of all listeners together but that of inter.broker.listener.name, where it is one of several."),
    setting("max.connections", INT, INT_MAX, at_least(0), mode=WIDE,
            doc="Connections at one time; never more than there are descriptors for. Not set, the last sixteenth is for "
                "addresses with fewer than 8. Where inter.broker.listener.name is one of several listeners, as many more may be there."),
    setting("max.connections.per.ip", INT, INT_MAX, at_least(0), mode=WIDE,
            doc="Connections at one time from one address; not set, a quarter of those that the process has descriptors "
                "for. 2147483647 in the file of settings is no limit."),
    setting("max.connections.per.ip.overrides", STRING, "", AddressCounts(), mode=WIDE,
            doc="Other bounds for some addresses, as address:count pairs."),
    setting("security.inter.broker.protocol", STRING, "PLAINTEXT", OneOf(SECURITY_PROTOCOLS), unused=_PLAIN,
            doc="Security protocol among brokers."),
    setting("socket.connection.setup.timeout.max.ms", LONG, 30_000, unused=_AS_BUILT,
            doc="Longest wait for a connection to another broker."),
    setting("socket.connection.setup.timeout.ms", LONG, 10_000, unused=_AS_BUILT,
            doc="First wait for a connection to another broker."),
    setting("socket.listen.backlog.size", INT, 50, at_least(1),
            doc="Connections that may wait to be accepted, 1,024 if not set; the kernel's somaxconn bounds it."),
    setting("socket.receive.buffer.bytes", INT, 102_400,
            doc="SO_RCVBUF of a client's socket; -1 leaves it to the kernel's own tuning."),
    setting("socket.request.max.bytes", INT, 104_857_600, at_least(1), doc="Largest request that is read."),
    setting("socket.send.buffer.bytes", INT, 102_400,
            doc="SO_SNDBUF of a client's socket; -1 leaves it to the kernel's own tuning."),
)
# fmt: on
