"""Names of things: topics, topic partitions and topic ids."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple

from stratalog.wire.errors import Invalid

__all__ = [
    "VIEW_ALIAS",
    "VIEW_MARK",
    "ZERO_UUID",
    "TopicPartition",
    "Uuid",
    "base_topic",
    "topic_name_problem",
    "uuid_parse",
    "uuid_text",
]

Uuid = bytes
"""A Kafka uuid: 16 bytes, most significant first."""

ZERO_UUID: Uuid = bytes(16)
"""Kafka's "no topic id"."""

_UUID_CHARACTERS = 22
_LAST_CHARACTERS = "AQgw"
"""The last character carries two bits: with any other the text would not be that of `uuid_text`."""
_STANDARD_ALPHABET = str.maketrans("-_", "+/")


_NAME_CHARACTERS_MAX: Final = 249
VIEW_MARK: Final = "@"
"""Stands between a topic and the cut or time of a read-only view; no topic of Kafka has it in its name."""

VIEW_ALIAS: Final = "..at.."
"""The same for clients that refuse the mark."""
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def base_topic(name: str) -> str:
    """The topic that a view shows, whose rules of access hold for it; any other name is its own."""
    if VIEW_MARK in name:
        return name.partition(VIEW_MARK)[0]
    return name.partition(VIEW_ALIAS)[0] if VIEW_ALIAS in name else name


def topic_name_problem(name: str) -> str | None:
    """Why no topic may have this name, in the words of Kafka's ``Topic``; None for a legal one.

    A topic's name becomes part of paths and keys: one that comes from a bucket is checked as one from a client is.
    """
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > _NAME_CHARACTERS_MAX:
        return f"the length of '{name[:300]}' is longer than the max allowed length {_NAME_CHARACTERS_MAX}"
    if not _LEGAL_NAME.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


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
    if len(text) != _UUID_CHARACTERS or text[-1] not in _LAST_CHARACTERS or "+" in text or "/" in text:
        raise Invalid(f"{text!r} is not a uuid: {_UUID_CHARACTERS} characters of base64url are expected")
    try:
        return binascii.a2b_base64(text.translate(_STANDARD_ALPHABET) + "==", strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"{text!r} is not a uuid: {_UUID_CHARACTERS} characters of base64url are expected") from error
