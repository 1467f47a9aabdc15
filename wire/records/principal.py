"""The principal of a client as bytes, inside of an Envelope request (KIP-590).

The value begins with its version, int16, and is then the message. Source: Kafka's ``DefaultKafkaPrincipalBuilder``.
"""

from __future__ import annotations

from typing import Final

from stratalog.wire.schema import Bool, Buffer, DecodeError, Message, decode, encode_bytes

__all__ = ["DefaultPrincipalData", "decode_principal", "encode_principal"]

_VERSION: Final = 0
_VERSION_BYTES: Final = 2


class DefaultPrincipalData(Message, versions=(0, 0), flexible=0):
    """A principal like ``User:a`` in two parts, and whether a delegation token was its proof."""

    type: str
    name: str
    token_authenticated: Bool


def encode_principal(principal: DefaultPrincipalData) -> bytes:
    """``principal`` as an Envelope carries it. Raises `EncodeError`."""
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + encode_bytes(principal, _VERSION)


def decode_principal(data: Buffer) -> DefaultPrincipalData:
    """The inverse of :func:`encode_principal`. Raises `DecodeError`, also for a version that is not known."""
    if len(data) < _VERSION_BYTES:
        raise DecodeError(f"a principal is cut off after {len(data)} bytes")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version != _VERSION:
        raise DecodeError(f"a principal has version {version}; only {_VERSION} is known")
    return decode(DefaultPrincipalData, version, data, _VERSION_BYTES)
