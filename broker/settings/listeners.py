"""Listener settings to addresses: `listeners`, `advertised.listeners` and `listener.security.protocol.map`. Pure text in, values out.

The rules are Kafka's: names in any case, unique; ports unique except for one IPv4 and one IPv6 address; no host means
every interface; 0.0.0.0 cannot be advertised; the names of `controller.listener.names` mean PLAINTEXT where no map is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from stratalog.wire.address import PORT_MAX
from stratalog.wire.errors import Invalid

__all__ = [
    "Listener",
    "ListenerError",
    "SecurityProtocol",
    "advertised_listeners",
    "parse_listeners",
    "parse_protocol_map",
]

_LISTENER = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<v6>[0-9a-fA-F:.%]+)\]|(?P<host>[0-9A-Za-z._%-]*)):(?P<port>-?[0-9]+)"
)


class ListenerError(Invalid):
    """A listener setting cannot be used; the message names the setting and the part of it."""


class SecurityProtocol(StrEnum):
    """How a listener protects its connections."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class Listener(Struct, frozen=True):
    """One named address of a broker. An empty host is every interface; port 0 is any free one."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """Upper-case listener names and their protocols from ``NAME:PROTOCOL,…``.

    Raises:
        ListenerError: an entry of another form, an unknown protocol, a name given twice.

    """
    setting = "listener.security.protocol.map"
    protocols: dict[str, SecurityProtocol] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not name or not colon or protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol)
            raise ListenerError(f"{setting}: {entry!r} is not NAME:PROTOCOL; the protocols are {known}")
        if name in protocols:
            raise ListenerError(f"{setting}: listener {name} stands there twice")
        protocols[name] = SecurityProtocol(protocol)
    return protocols


def parse_listeners(text: str, protocols: Mapping[str, SecurityProtocol], setting: str = "listeners") -> list[Listener]:
    """The listeners of ``NAME://HOST:PORT,…`` in the order given.

    Raises:
        ListenerError: nothing there, an entry of another form, a name without protocol, a name or port used twice.

    """
    listeners = [_parse_listener(entry, protocols, setting) for entry in filter(None, map(str.strip, text.split(",")))]
    if not listeners:
        raise ListenerError(f"{setting}: at least one listener is needed; for example PLAINTEXT://127.0.0.1:9092")
    _check_unique([listener.name for listener in listeners], setting, "name")
    return listeners


def _parse_listener(entry: str, protocols: Mapping[str, SecurityProtocol], setting: str) -> Listener:
    match = _LISTENER.fullmatch(entry)
    if match is None:
        raise ListenerError(f"{setting}: {entry!r} is not NAME://HOST:PORT; for example PLAINTEXT://127.0.0.1:9092")
    name, port = match["name"].strip().upper(), int(match["port"])
    if not 0 <= port <= PORT_MAX:
        raise ListenerError(f"{setting}: {entry!r} has port {port}; ports go from 0 (any free one) to {PORT_MAX}")
    if name not in protocols:
        raise ListenerError(
            f"{setting}: no security protocol is defined for listener {name}; add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    return Listener(name, protocols[name], match["v6"] or match["host"], port)


def check_ports(listeners: Iterable[Listener], setting: str = "listeners") -> None:
    """Each fixed port belongs to one listener, or to one IPv4 and one IPv6 address.

    Raises:
        ListenerError: a port is used twice.

    """
    ports: dict[int, list[bool]] = {}
    for listener in listeners:
        if listener.port:
            ports.setdefault(listener.port, []).append(":" in listener.host)
    for port, families in ports.items():
        if sorted(families) not in ([False], [True], [False, True]):
            raise ListenerError(f"{setting}: port {port} is used by {len(families)} listeners; give each its own")


def _check_unique(names: list[str], setting: str, what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ListenerError(f"{setting}: {what} {name} is used twice; give each listener its own")


def advertised_listeners(
    text: str | None, listeners: Iterable[Listener], protocols: Mapping[str, SecurityProtocol], host: str
) -> list[Listener]:
    """The addresses that clients get, one for each of `listeners` that is named in `text`, or for all of them when it
    is None.

    A listener on every interface is advertised under `host`, the name of this machine.

    Raises:
        ListenerError: a name that is no listener, or an address that no client can connect to.

    """
    setting = "advertised.listeners"
    if text is None or not text.strip():
        return [_named(listener, host) for listener in listeners]
    known = {listener.name for listener in listeners}
    advertised = parse_listeners(text, protocols, setting)
    for listener in advertised:
        if listener.name not in known:
            raise ListenerError(
                f"{setting}: {listener} has no listener of that name; listeners has {', '.join(sorted(known))}"
            )
        if listener.host in ("0.0.0.0", "::"):  # noqa: S104 - refused, not bound
            raise ListenerError(
                f"{setting}: {listener} is no address a client can connect to; name a host or an interface"
            )
    return [_named(listener, host) for listener in advertised]


def _named(listener: Listener, host: str) -> Listener:
    if listener.host in ("", "0.0.0.0", "::"):  # noqa: S104 - replaced, not bound
        return Listener(listener.name, listener.protocol, host, listener.port)
    return listener
