"""Whether a decision that was made on one image would be the same on a later one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource, ResourceType
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topic_names import collision_key

__all__ = ["Same", "same_everywhere", "same_to_resources", "same_to_topics"]

Same = Callable[[ClusterImage, ClusterImage], bool]
"""Called with the image of the decision and a later one. True only if the decision would be the same on both."""


def same_everywhere(before: ClusterImage, now: ClusterImage) -> bool:
    """Whether the two images are equal in every part."""
    return (
        _same_brokers(before, now)
        and before.topics is now.topics
        and before.configs is now.configs
        and before.next_producer_id == now.next_producer_id
        and before.scram is now.scram
        and before.acls is now.acls
        and before.quotas is now.quotas
        and before.tokens is now.tokens
    )


def same_to_topics(names: Collection[str]) -> Same:
    """For commands that create topics with these names, or change them."""
    resources = [ConfigResource.topic(name) for name in names]
    collide = any(collision_key(name) is not None for name in names)
    same = same_to_resources(resources)

    def same_topics(before: ClusterImage, now: ClusterImage) -> bool:
        # A name with a dot or an underscore may collide with any other one.
        return same(before, now) and (not collide or before.topics is now.topics)

    return same_topics


def same_to_resources(resources: Iterable[ConfigResource]) -> Same:
    """For commands that change the settings of resources: neither these have changed nor what holds for all.

    Where the settings of all brokers are among them, no topic has changed either.
    """
    named = dict.fromkeys(resources)
    # Another min.insync.replicas of the cluster names the partitions without a leader, whichever topic they are of.
    of_all = CLUSTER_DEFAULT in named

    def same(before: ClusterImage, now: ClusterImage) -> bool:
        shared = [CLUSTER_DEFAULT, *(ConfigResource.broker(each) for each in now.brokers.brokers)]
        return (
            _same_brokers(before, now)
            and (not of_all or before.topics is now.topics)
            and all(before.configs.of(each) is now.configs.of(each) for each in (*shared, *named))
            and all(
                before.topics.by_name.get(name) is now.topics.by_name.get(name)
                for kind, name in named
                if kind == ResourceType.TOPIC
            )
        )

    return same


def _same_brokers(before: ClusterImage, now: ClusterImage) -> bool:
    return before.brokers is now.brokers and before.features is now.features
