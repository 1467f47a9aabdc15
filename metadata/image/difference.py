"""The difference of two images whose records in between are not known: a snapshot took the place of the log."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from itertools import chain
from typing import Final, Protocol

from msgspec import Struct

from stratalog.metadata.image.configs_image import ConfigResource, ConfigsImage
from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import TopicsImage
from stratalog.wire.topic import Uuid

__all__ = ["ImageChange", "difference", "differing"]

_PARTITIONS_PER_PAUSE: Final = 100
_KEYS_PER_PAUSE: Final = 1000


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
    partitions = yield from _changed_partitions(before.topics, after.topics)
    return _Difference(
        changed_topic_ids=frozenset(partitions),
        changed_partitions=partitions,
        removed_topics=(yield from _removed_topics(before.topics, after.topics)),
        changed_resources=(yield from _changed_resources(before.configs, after.configs)),
    )


def _changed_partitions(before: TopicsImage, after: TopicsImage) -> Generator[None, None, dict[Uuid, list[int]]]:
    found: dict[Uuid, list[int]] = {}
    looked_at = 0
    for topic_id, topic in after.by_id.items():
        known = before.by_id.get(topic_id)
        if known is not topic:
            held = {} if known is None else known.partitions
            changed = []
            for one, state in topic.partitions.items():
                looked_at += 1
                if looked_at % _PARTITIONS_PER_PAUSE == 0:
                    yield
                if held.get(one) != state:
                    changed.append(one)
            if changed or known is None:
                found[topic_id] = changed
        looked_at += 1
        if looked_at % _PARTITIONS_PER_PAUSE == 0:
            yield
    return found


def _removed_topics(before: TopicsImage, after: TopicsImage) -> Generator[None, None, dict[Uuid, str]]:
    removed: dict[Uuid, str] = {}
    for looked_at, (topic_id, topic) in enumerate(before.by_id.items(), 1):
        if looked_at % _KEYS_PER_PAUSE == 0:
            yield
        if topic_id not in after.by_id:
            removed[topic_id] = topic.name
    return removed


def _changed_resources(before: ConfigsImage, after: ConfigsImage) -> Generator[None, None, frozenset[ConfigResource]]:
    changed: set[ConfigResource] = set()
    for looked_at, resource in enumerate(chain(before.by_resource, after.by_resource), 1):
        if looked_at % _KEYS_PER_PAUSE == 0:
            yield
        if before.of(resource) != after.of(resource):
            changed.add(resource)
    return frozenset(changed)


difference = at_once(differing)
