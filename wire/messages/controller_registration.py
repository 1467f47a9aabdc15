"""ControllerRegistration (key 70): a controller process tells the active one of itself (KIP-919).

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Message, Struct, Uint16, Uuid, field

__all__ = [
    "ControllerRegistrationRequest",
    "ControllerRegistrationResponse",
    "Feature",
    "Listener",
]


class Listener(Struct):
    """One listener. ``security_protocol``: 0 plaintext, 1 TLS, 2 SASL, 3 SASL over TLS."""

    name: str
    host: str
    port: Uint16
    security_protocol: Int16


class Feature(Struct):
    """The levels of a feature that the controller can run."""

    name: str
    min_supported_version: Int16
    max_supported_version: Int16


class ControllerRegistrationRequest(Message, api_key=70, versions=(0, 0), flexible=0):
    """A controller process, told from others of its id by ``incarnation_id``."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    listeners: list[Listener]
    features: list[Feature]


class ControllerRegistrationResponse(Message, api_key=70, versions=(0, 0), flexible=0):
    """The outcome."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None
