"""SaslAuthenticate (key 36): one token of a SASL exchange (KIP-152).

- 0: the whole of it. 1: the life of a session (KIP-368). 2: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int64, Message, field

__all__ = [
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
]


class SaslAuthenticateRequest(Message, api_key=36, versions=(0, 2), flexible=2):
    """The client's token."""

    auth_bytes: bytes


class SaslAuthenticateResponse(Message, api_key=36, versions=(0, 2), flexible=2):
    """The broker's token, or why there is none."""

    error_code: Int16 = field()
    error_message: str | None = field()
    auth_bytes: bytes
    session_lifetime_ms: Int64 = field(since=1)
