"""Names of things: topic partitions and topic ids."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from stratalog.wire.errors import Invalid

__all__ = ["ZERO_UUID", "TopicPartition", "Uuid", "uuid_parse", "uuid_text"]

Uuid = bytes
"""A Kafka uuid: 16 bytes, most significant first."""

ZERO_UUID: Uuid = bytes(16)
"""Kafka's "no topic id"."""

_UUID_BYTES = 16


class TopicPartition(NamedTuple):
    """One partition of one topic, printed as Kafka prints it: ``flights-3``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: Uuid) -> str:
    """The 22 characters in which Kafka prints a uuid: base64url without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_parse(text: str) -> Uuid:
    """The inverse of :func:`uuid_text`. Raises `Invalid` for anything that is not 22 characters of base64url."""
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"{text!r} is not a uuid: 22 characters of base64url are expected") from error
    if len(uuid) != _UUID_BYTES or uuid_text(uuid) != text:
        raise Invalid(f"{text!r} is not a uuid: 22 characters of base64url are expected")
    return uuid
