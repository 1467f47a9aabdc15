"""The replicas on one broker that a topic's setting names as throttled (KIP-73)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from stratalog.metadata.image.image import ClusterImage

__all__ = ["ThrottledReplicas"]

_ALL: Final = "*"


class ThrottledReplicas:
    """Reads ``leader.replication.throttled.replicas`` or its neighbour from the newest image, once for each change."""

    __slots__ = ("_image", "_name", "_node_id", "_read")

    def __init__(self, name: str, node_id: int, image: Callable[[], ClusterImage]) -> None:
        """``name``: of the topic setting."""
        self._name = name
        self._node_id = str(node_id)
        self._image = image
        self._read: dict[str, tuple[Mapping[str, str], frozenset[str] | None]] = {}
        """By topic, for those that have the setting: its settings as they were read, and the numbers of its throttled
        partitions; None for all.
        """

    def __contains__(self, partition: tuple[str, int]) -> bool:
        topic, number = partition
        configs = self._image().topic_configs(topic)
        text = configs.get(self._name)
        if not text:
            self._read.pop(topic, None)
            return False
        known = self._read.get(topic)
        if known is None or known[0] is not configs:
            known = self._read[topic] = configs, self._numbers(text)
        return known[1] is None or str(number) in known[1]

    def _numbers(self, text: str) -> frozenset[str] | None:
        """The partitions of a list of ``partition:broker`` whose broker is this one; None for ``*``."""
        if text.strip() == _ALL:
            return None
        pairs = (pair.strip().partition(":") for pair in text.split(","))
        return frozenset(_plain(number) for number, _, broker in pairs if broker and _plain(broker) == self._node_id)


def _plain(number: str) -> str:
    """The number without leading zeros, however long it is."""
    return number.lstrip("0") or "0"
