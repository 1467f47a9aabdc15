"""Envelope (key 58): a broker forwards a client's request to the controller (KIP-590).

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Message, field

__all__ = [
    "EnvelopeRequest",
    "EnvelopeResponse",
]


class EnvelopeRequest(Message, api_key=58, versions=(0, 0), flexible=0):
    """``request_data`` is the client's request from its header on. `stratalog.wire.records.principal` reads and makes the
    ``request_principal``; ``client_host_address`` is the four or sixteen bytes of an IP address.
    """

    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes


class EnvelopeResponse(Message, api_key=58, versions=(0, 0), flexible=0):
    """``response_data`` is the answer for the client from its header on; the code is about the envelope only."""

    response_data: bytes | None = field()
    error_code: Int16 = field()
