"""Partitions without an archive yet: a topic has them by its ``topic.json``, and reading them gives no rows.

Only what a query names, and listing has not found, is looked for here, so a query over what is archived pays nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from stratalog.tier.bucket.partition_folders import WHOLE_NAME_MAX, is_topic_name
from stratalog.tier.bucket.view_names import parse_view_name
from stratalog.tier.bucket.walk import TopicFolder, iter_partitions, iter_topics, read_topic_document
from stratalog.tier.documents.keys import TOPICS_PREFIX
from stratalog.tier.planning.slices import PartitionArchive
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["partition_count", "similar_topic", "unarchived"]

_LIVE: Final = frozenset({"live", "detached"})
_TOPICS_LOOKED_AT_MAX: Final = 100
"""For a hint: each of them costs a LIST."""


def unarchived(
    store: ObjectStore, named: Iterable[TopicPartition], topic_ids: Mapping[str, Uuid]
) -> list[PartitionArchive]:
    """Those of ``named`` that are partitions of a topic, as archives without an offset; `load_partitions` lacks them.

    ``topic_ids`` are those of the topics that have an archive. Raises what the store raises.
    """
    topics: dict[str, list[TopicPartition]] = {}
    for partition in named:
        topics.setdefault(partition.topic, []).append(partition)
    found = []
    for topic, partitions in topics.items():
        topic_id = topic_ids.get(topic)
        count = partition_count(store, topic, topic_id)
        found += [
            PartitionArchive(each, 0, 0, (), *(() if topic_id is None else (topic_id,)))
            for each in sorted(partitions)
            if each.partition < count
        ]
    return found


def partition_count(store: ObjectStore, topic: str, topic_id: Uuid | None = None) -> int:
    """How many partitions a topic has, or the topic that a view shows; 0 if the bucket does not know it.

    By its ``topic.json``. Where that is missing or damaged, as many as have a folder. Among topics of one name the one
    with ``topic_id`` counts, if it is given. Raises what the store raises.
    """
    view = parse_view_name(topic)
    return max(_count_of(store, name, topic_id) for name in (topic, *([view.topic] if view else [])))


def _count_of(store: ObjectStore, name: str, topic_id: Uuid | None) -> int:
    if not is_topic_name(name):
        return 0
    cut_name = name[:WHOLE_NAME_MAX]
    folders = iter_topics(store, prefix=f"{TOPICS_PREFIX}{cut_name}-")
    mine = (each for each in folders if each.name == cut_name and topic_id in {None, each.topic_id})
    return max((_count(store, folder, name) for folder in mine), default=0)


def _count(store: ObjectStore, folder: TopicFolder, name: str) -> int:
    document = read_topic_document(store, folder)
    if document.found:
        return document.partition_count if document.name == name and document.state in _LIVE else 0
    return max((each.partition + 1 for each in iter_partitions(store, folder)), default=0)


def similar_topic(store: ObjectStore, name: str, known: Collection[str]) -> str | None:
    """A topic whose name is nearly ``name``, among ``known`` and some in the bucket that begin alike."""
    beginning = name[:1] if is_topic_name(name[:1]) else ""
    there = {
        folder.name for folder in islice(iter_topics(store, prefix=TOPICS_PREFIX + beginning), _TOPICS_LOOKED_AT_MAX)
    }
    return next(iter(difflib.get_close_matches(name, sorted(there | set(known)), n=1)), None)
