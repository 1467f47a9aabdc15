"""The addresses of a broker: ``NAME://host:port`` lists and the map from names to security protocols.

Sources of the texts: Kafka's ``SocketServerConfigs.listenerListToEndPoints`` and ``AbstractKafkaConfig``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from stratalog.metadata.config_types import ConfigError

__all__ = ["Endpoint", "SecurityProtocol", "parse_endpoints", "parse_protocol_map"]


class SecurityProtocol(IntEnum):
    """How a listener's bytes are protected; the numbers are those of registration records."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address with its listener's name. An empty ``host`` is every interface, port 0 any free port."""

    name: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


_ENDPOINT: Final = re.compile(r"([^:/]+)://(?:\[([0-9a-fA-F:.%]+)\]|([^:/\[\]]*)):([0-9]{1,5})")
_PORT_MAX: Final = 65_535


def parse_protocol_map(text: str) -> Mapping[str, SecurityProtocol]:
    """``NAME:PROTOCOL,…`` by upper-case name. Raises `ConfigError`."""
    protocols: dict[str, SecurityProtocol] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = pair.rpartition(":")
        if not colon or protocol.strip().upper() not in SecurityProtocol.__members__:
            why = f"{pair} is not NAME:PROTOCOL with one of {', '.join(SecurityProtocol.__members__)}"
            raise ConfigError.of("listener.security.protocol.map", text, why)
        if name.strip().upper() in protocols:
            raise ConfigError.of("listener.security.protocol.map", text, f"{name.strip()} is mapped twice")
        protocols[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return protocols


def parse_endpoints(
    setting: str, texts: Iterable[str], protocols: Mapping[str, SecurityProtocol], *, same_port_allowed: bool = False
) -> tuple[Endpoint, ...]:
    """The endpoints a list names, each with its protocol. Raises `ConfigError` with the list's ``setting``.

    Names must differ; ports too, unless ``same_port_allowed`` (advertised listeners may share one), the port is 0,
    or one of two hosts is an IPv4 and the other an IPv6 address (KIP-797).
    """
    endpoints = tuple(_parse(setting, text, protocols) for text in texts)
    shown = ",".join(map(str, endpoints))
    if len({endpoint.name for endpoint in endpoints}) != len(endpoints):
        raise ConfigError(f"Each listener must have a different name, {setting}: {shown}")
    if same_port_allowed:
        return endpoints
    taken: dict[int, Endpoint] = {}
    for endpoint in endpoints:
        other = taken.setdefault(endpoint.port, endpoint) if endpoint.port else endpoint
        if other is not endpoint and (":" in other.host) is (":" in endpoint.host):
            raise ConfigError(f"Each listener must have a different port, {setting}: {shown}")
    return endpoints


def _parse(setting: str, text: str, protocols: Mapping[str, SecurityProtocol]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text.strip())
    if match is None or int(match[4]) > _PORT_MAX:
        raise ConfigError.of(setting, text, "Unable to parse it as NAME://host:port")
    name = match[1].upper()
    if name not in protocols:
        raise ConfigError(f"No security protocol defined for listener {name}")
    return Endpoint(name, match[2] or match[3] or "", int(match[4]), protocols[name])
