"""The leaders that an answer names beside an error, and where they are reached (KIP-951).

A client whose request has gone to a former leader goes on at the new one, without a request for metadata between. The
leader and its epoch are those of the image; the endpoint is that of the listener by which the client came. A leader that
is fenced, or has no such listener, is named without an endpoint, as in Kafka (``KafkaApis.getCurrentLeader``).
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

__all__ = ["CurrentLeader", "CurrentLeaders", "LeaderEndpoint"]


class CurrentLeader(NamedTuple):
    """The leader of a partition; ``leader_id`` is -1 while there is none."""

    leader_id: int
    leader_epoch: int


class LeaderEndpoint(NamedTuple):
    """Where a leader is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None


class CurrentLeaders:
    """The leaders for one answer."""

    __slots__ = ("_image", "_listener", "endpoints")

    def __init__(self, image: ClusterImage, listener: str) -> None:
        """``listener`` is the name of the one by which the client came."""
        self._image = image
        self._listener = listener
        self.endpoints: dict[int, LeaderEndpoint] = {}
        """The endpoints of all leaders that `of` has named, by node, in that order."""

    def of(self, name: str, topic_id: Uuid, partition: int) -> CurrentLeader | None:
        """The leader of a partition of the topic with this name, or with this id where there is no name.

        None for a partition that is not, or no longer, in the image.
        """
        image = self._image
        topic = image.topics.by_name.get(name) if name else image.topics.by_id.get(topic_id)
        state = None if topic is None else topic.partitions.get(partition)
        if state is None:
            return None
        broker = image.brokers.brokers.get(state.leader)
        if broker is not None and not broker.is_fenced:
            at = broker.listeners.get(self._listener)
            if at is not None:
                self.endpoints[state.leader] = LeaderEndpoint(state.leader, at.host, at.port, broker.rack)
        return CurrentLeader(state.leader, state.leader_epoch)
