"""The broker's reading of the otherwise opaque subscriptions: the topics that consumers want."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error
from typing import Final

__all__ = ["CONSUMER", "NAMES_MAX", "same_topics", "subscribed_topics"]

CONSUMER: Final = "consumer"
"""The protocol type of consumers; others (Connect's workers, say) have subscriptions of their own making."""

NAMES_MAX: Final = 50_000
"""Names that are read at once, of all members of a group: they take some 15 to 40 ms. Equal lists count once."""
_NAME_BYTES_MAX: Final = 249
"""No topic has a longer name; such a one is passed over."""
_INT16: Final = Struct(">h")
_COUNT: Final = Struct(">hi")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics in consumers' subscriptions together; None if one cannot be read, or there are more than `NAMES_MAX`.

    Every version of the consumer protocol begins as version 0 does: version, int16, and the list of topics.
    """
    topics: set[str] = set()
    left = NAMES_MAX
    list_before = b""
    try:
        for subscription in subscriptions:
            version, count = _COUNT.unpack_from(subscription)
            if version < 0:
                raise ValueError(f"version {version}")
            if list_before and subscription.startswith(list_before, _INT16.size):
                continue
            if not 0 <= count <= left:
                raise ValueError(f"{count} topics, of {left} that may be read")
            left -= count
            list_before = subscription[_INT16.size : _read(subscription, count, topics)]
    except (error, ValueError):
        return None
    return frozenset(topics)


def same_topics(one: bytes, other: bytes) -> bool:
    """Whether two subscriptions want the same topics; those that cannot be read are the same if they are equal."""
    topics = subscribed_topics([one])
    return one == other if topics is None else topics == subscribed_topics([other])


def _read(subscription: bytes, count: int, topics: set[str]) -> int:
    """Add the topics of a subscription to ``topics``; the position behind them."""
    position = _COUNT.size
    for _ in range(count):
        (length,) = _INT16.unpack_from(subscription, position)
        position += _INT16.size
        end = position + length
        if length < 0 or end > len(subscription):
            raise ValueError(f"a topic name of {length} bytes")
        if length <= _NAME_BYTES_MAX:
            topics.add(subscription[position:end].decode())
        position = end
    return position
