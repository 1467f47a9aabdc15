"""UnregisterBroker (key 64): forget a broker that is gone for good (KIP-631).

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, field

__all__ = [
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
]


class UnregisterBrokerRequest(Message, api_key=64, versions=(0, 0), flexible=0):
    """Which broker."""

    broker_id: Int32


class UnregisterBrokerResponse(Message, api_key=64, versions=(0, 0), flexible=0):
    """The outcome."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
