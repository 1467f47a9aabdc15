"""The difference of two images whose records in between are not known: a snapshot took the place of the log."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from typing import Final, Protocol

from msgspec import Struct

from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

__all__ = ["ImageChange", "difference", "differing"]

_TOPICS_PER_PAUSE: Final = 100


class ImageChange(Protocol):
    """The change from one image to the next, as those see it who follow images. `ImageDelta` is one."""

    @property
    def changed_topic_ids(self) -> frozenset[Uuid]:
        """Topics that are new or changed."""

    @property
    def changed_partitions(self) -> Mapping[Uuid, Collection[int]]:
        """The partitions that are new or changed, by topic."""

    @property
    def removed_topics(self) -> Mapping[Uuid, str]:
        """Topics of the earlier image that are gone: id to name."""

    @property
    def changed_resources(self) -> frozenset[ConfigResource]:
        """Holders of settings that may have changed."""


class _Difference(Struct, frozen=True):
    changed_topic_ids: frozenset[Uuid]
    changed_partitions: Mapping[Uuid, Collection[int]]
    removed_topics: Mapping[Uuid, str]
    changed_resources: frozenset[ConfigResource]


def differing(before: ClusterImage, after: ClusterImage) -> Generator[None, None, ImageChange]:
    """The change from ``before`` to ``after``, found by a look at all topics and settings of both, in steps."""
    partitions: dict[Uuid, list[int]] = {}
    for count, (topic_id, topic) in enumerate(after.topics.by_id.items(), 1):
        if count % _TOPICS_PER_PAUSE == 0:
            yield
        known = before.topics.by_id.get(topic_id)
        if known is None:
            partitions[topic_id] = list(topic.partitions)
        elif known is not topic:
            changed = [one for one, state in topic.partitions.items() if known.partitions.get(one) != state]
            if changed:
                partitions[topic_id] = changed
    removed = {
        topic_id: topic.name for topic_id, topic in before.topics.by_id.items() if topic_id not in after.topics.by_id
    }
    old, new = before.configs.by_resource, after.configs.by_resource
    return _Difference(
        changed_topic_ids=frozenset(partitions),
        changed_partitions=partitions,
        removed_topics=removed,
        changed_resources=frozenset(one for one in {*old, *new} if old.get(one) != new.get(one)),
    )


difference = at_once(differing)
