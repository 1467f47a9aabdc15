"""SaslHandshake (key 17): choose a SASL mechanism.

- 0: the tokens follow without frames of their own. 1: they follow as SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Message, field

__all__ = [
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
]


class SaslHandshakeRequest(Message, api_key=17, versions=(0, 1)):
    """The mechanism that the client would use."""

    mechanism: str


class SaslHandshakeResponse(Message, api_key=17, versions=(0, 1)):
    """Whether it may, and those that the broker has."""

    error_code: Int16 = field()
    mechanisms: list[str]
