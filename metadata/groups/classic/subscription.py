"""The broker's reading of the otherwise opaque subscriptions: the topics that consumers want."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error
from typing import Final

__all__ = ["CONSUMER", "subscribed_topics"]

CONSUMER: Final = "consumer"
"""The protocol type of consumers; others (Connect's workers, say) have subscriptions of their own making."""

_INT16: Final = Struct(">h")
_COUNT: Final = Struct(">hi")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics in consumers' subscriptions together; None if one of them cannot be read.

    Every version of the consumer protocol begins as version 0 does: version, int16, and the list of topics.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(_topics(subscription))
    except (error, ValueError):
        return None
    return frozenset(topics)


def _topics(subscription: bytes) -> list[str]:
    version, count = _COUNT.unpack_from(subscription)
    if version < 0 or not 0 <= count <= len(subscription):
        raise ValueError(f"{count} topics in version {version}")
    position = _COUNT.size
    topics = []
    for _ in range(count):
        (length,) = _INT16.unpack_from(subscription, position)
        position += _INT16.size
        end = position + length
        if length < 0 or end > len(subscription):
            raise ValueError(f"a topic name of {length} bytes")
        topics.append(subscription[position:end].decode())
        position = end
    return topics
