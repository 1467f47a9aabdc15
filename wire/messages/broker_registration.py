"""BrokerRegistration (key 62): a broker process asks the controller to be one of the cluster (KIP-631).

- 0: the whole of it. 1: brokers on their way from ZooKeeper (KIP-866). 2: log directories (KIP-858).
- 3: the broker epoch before a clean stop (KIP-966). 4: a feature may start at level 0 (KAFKA-17011).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, Uint16, Uuid, field

__all__ = [
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
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
    """The levels of a feature that the broker can run; before version 4 none may start at level 0."""

    name: str
    min_supported_version: Int16
    max_supported_version: Int16


class BrokerRegistrationRequest(Message, api_key=62, versions=(0, 4), flexible=0):
    """A broker process, told from others of its id by ``incarnation_id``.

    ``previous_broker_epoch`` is -1 unless the process before stopped cleanly.
    """

    broker_id: Int32
    cluster_id: str
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: str | None
    is_migrating_zk_broker: Bool = field(since=1)
    log_dirs: list[Uuid] = field(since=2)
    previous_broker_epoch: Int64 = field(-1, since=3)


class BrokerRegistrationResponse(Message, api_key=62, versions=(0, 4), flexible=0):
    """The epoch under which the broker is registered; -1 with an error."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    broker_epoch: Int64 = field(-1)
