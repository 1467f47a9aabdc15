"""Metadata answers whose topics are in bytes already: what is the same for every client is encoded once.

A topic looks the same in every answer of a version, so its bytes can be kept and joined. Everything around the topics
goes through the compiled encoder, as an answer without topics; the bytes are put in where the empty list stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final, cast

from stratalog.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from stratalog.wire.parts import Part
from stratalog.wire.primitives import unsigned_varint
from stratalog.wire.schema import encode_bytes, encoder

__all__ = ["EncodedTopics", "metadata_encoder", "topic_bytes"]

_FLEXIBLE_SINCE: Final = MetadataResponse.flexible_since
_OPERATIONS: Final = range(8, 11)
_ERROR_SINCE: Final = 13


class EncodedTopics(list[MetadataResponseTopic]):
    """The ``topics`` of an answer in one version, as bytes; as a list it is empty."""

    __slots__ = ("data", "topic_count")

    def __init__(self, topics: Iterable[bytes]) -> None:
        super().__init__()
        pieces = list(topics)
        self.topic_count = len(pieces)
        self.data = b"".join(pieces)


def _tail_bytes(version: int) -> int:
    """The bytes that follow the topics of an answer: operations, error code, tags."""
    return 4 * (version in _OPERATIONS) + 2 * (version >= _ERROR_SINCE) + (version >= _FLEXIBLE_SINCE)


def _prefix(count: int, version: int) -> bytes:
    return unsigned_varint(count + 1) if version >= _FLEXIBLE_SINCE else count.to_bytes(4, "big")


@cache
def _around_bytes(version: int) -> int:
    """The length of what stands before and behind the count of topics in an answer without anything else."""
    return len(encode_bytes(MetadataResponse(brokers=[], topics=[]), version))


def topic_bytes(topic: MetadataResponseTopic, version: int) -> bytes:
    """One topic as it stands in an answer. Raises `EncodeError`."""
    alone = encode_bytes(MetadataResponse(brokers=[], topics=[topic]), version)
    tail = _tail_bytes(version)
    return alone[_around_bytes(version) - tail : len(alone) - tail]


def metadata_encoder(version: int) -> Callable[[MetadataResponse], list[Part]]:
    """The encoder of answers of one version, with topics in either form."""
    plain = encoder(MetadataResponse, version)
    tail, empty = _tail_bytes(version), len(_prefix(0, version))

    def encode(response: MetadataResponse) -> list[Part]:
        parts = plain(response)
        topics = response.topics
        if not isinstance(topics, EncodedTopics) or not topics.topic_count:
            return parts
        around = cast("bytes", parts[0])
        border = len(around) - tail
        head = around[: border - empty] + _prefix(topics.topic_count, version)
        return [head, topics.data, around[border:]] if tail else [head, topics.data]

    return encode
