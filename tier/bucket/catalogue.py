"""Lists the topics of a bucket, read from the bucket alone: its folders, and what ``topic.json`` says of each topic.

A topic is there if a partition of it has a folder. Names come from ``topic.json``,
or, where that is missing or damaged, from a manifest: in keys they are cut to 200 characters. Among several topics of one
name, deleted and made again, the one claimed last has the name. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from stratalog.tier.bucket.partition_folders import WHOLE_NAME_MAX, partition_folders
from stratalog.tier.documents.keys import TOPICS_PREFIX, PartitionId, topic_key
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.stores.checked_read import get_checked, get_json
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid, topic_name_problem, uuid_text

__all__ = ["ArchivedTopic", "Catalogue", "read_catalogue"]

_THREADS: Final = 16
_GONE: Final = frozenset({"deleting", "deleted"})


class ArchivedTopic(Struct, frozen=True):
    """One topic. ``described`` says whether its ``topic.json`` could be read; without it ``configs`` is empty."""

    name: str
    topic_id: Uuid
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str = ""
    described: bool = True

    def partition(self, number: int) -> PartitionId:
        """One of its partitions; it need not have a manifest yet."""
        return PartitionId(self.name, self.topic_id, number)


class Catalogue(Struct, frozen=True):
    """The topics by name, and, a sentence each, what was left out or could not be read."""

    topics: tuple[ArchivedTopic, ...] = ()
    problems: tuple[str, ...] = ()

    def by_name(self, name: str) -> ArchivedTopic | None:
        """The topic called ``name``, if there is one."""
        return next((topic for topic in self.topics if topic.name == name), None)


class _Folder(NamedTuple):
    """A topic as its keys tell of it."""

    cut_name: str
    topic_id: Uuid
    partitions: set[int]


def read_catalogue(store: ObjectStore, prefix: str = TOPICS_PREFIX) -> Catalogue:
    """List what is below ``prefix`` and read what describes its topics. Raises what the store raises."""
    folders: dict[Uuid, _Folder] = {}
    for name, topic_id, number in partition_folders(store, prefix):
        folders.setdefault(topic_id, _Folder(name, topic_id, set())).partitions.add(number)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-catalogue") as pool:
        read = list(pool.map(lambda folder: _topic(store, folder), folders.values()))
    problems = [problem for _, problem in read if problem]
    topics: dict[str, list[ArchivedTopic]] = {}
    for topic, _ in read:
        if topic is not None:
            topics.setdefault(topic.name, []).append(topic)
    chosen = [_newest(store, same_name, problems) for same_name in topics.values()]
    return Catalogue(tuple(sorted(chosen, key=lambda topic: topic.name)), tuple(problems))


def _topic(store: ObjectStore, folder: _Folder) -> tuple[ArchivedTopic | None, str]:
    """The topic, if it is one to be served, and what is wrong with it, if anything."""
    key = topic_key(folder.cut_name, folder.topic_id)
    fields: dict[str, Any] = {}
    problem = ""
    try:
        fields = _document(get_json(store, key)[0], folder.cut_name, folder.topic_id)
    except NotFound:
        pass  # never written, or lost: the manifests say what there is
    except (Corrupt, Invalid) as error:
        problem = f"{key} is left aside, the manifests stand in for it: {error}"
    if fields.get("state") in _GONE:
        return None, f"topic {fields['topic']} ({uuid_text(folder.topic_id)}) was deleted: it is not served"
    if fields:
        count = _highest_left(store, folder, fields["topic"], int(fields["partitions"]))
        return (
            ArchivedTopic(
                fields["topic"], folder.topic_id, count, fields["configs"], str(fields.get("cluster_id", ""))
            ),
            problem,
        )
    topic = _from_manifests(store, folder, max(folder.partitions, default=-1) + 1)
    if topic is None:
        problem = problem or (
            f"topic {folder.cut_name} ({uuid_text(folder.topic_id)}) has no topic.json, and all its archives are on their way "
            "out: it is not served"
        )
    return topic, problem


def _document(fields: Any, cut_name: str, topic_id: Uuid) -> dict[str, Any]:
    """The fields of a ``topic.json``. Raises `Invalid` unless it describes this very topic."""
    try:
        if (fields["format"], fields["version"]) != ("stratalog-topic", 1):
            raise Invalid(f"it is of format {fields['format']!r} version {fields['version']!r}")
        if fields["topic_id"] != uuid_text(topic_id):
            raise Invalid(f"it describes topic id {fields['topic_id']}")
        whole = isinstance(fields["topic"], str) and isinstance(fields["configs"], dict) and fields["partitions"] >= 0
    except (Corrupt, LookupError, TypeError, AttributeError) as error:
        raise Invalid(f"it is not readable ({error!r})") from error
    if not whole:
        raise Invalid("its fields are of the wrong kind")
    if (problem := topic_name_problem(fields["topic"])) is not None:
        raise Invalid(f"its topic has a name that no topic may have: {problem}")
    if fields["topic"][:WHOLE_NAME_MAX] != cut_name:
        raise Invalid(f"it describes topic {fields['topic']}")
    return dict(fields)


def _from_manifests(store: ObjectStore, folder: _Folder, count: int) -> ArchivedTopic | None:
    """A topic without a description; None if every manifest says that its archive is deleted.

    One alone says little: a partition that is no longer archived says it, too, until it archives again. One that is damaged or
    missing says nothing; its readers report it, and a restore rebuilds it.
    """
    name, cluster_id, deleted = folder.cut_name, "", bool(folder.partitions)
    for number in sorted(folder.partitions):
        key = PartitionId(folder.cut_name, folder.topic_id, number).manifest_key
        try:
            manifest = get_checked(store, key, partial(from_bytes, key=key))[0]
        except (Corrupt, NotFound):
            deleted = False
            continue
        name, cluster_id = manifest.partition.topic, manifest.cluster_id
        if manifest.deleted_ms < 0:
            deleted = False
            break
    return None if deleted else ArchivedTopic(name, folder.topic_id, count, {}, cluster_id, described=False)


def _highest_left(store: ObjectStore, folder: _Folder, name: str, count: int) -> int:
    """The number of partitions by the folders: the description of the topic ``name``, which says ``count``, may lag behind.

    One that a restore of a cut has emptied, and that no leader has claimed since, was not added again.
    """
    for number in sorted(folder.partitions, reverse=True):
        if number < count:
            break
        try:
            manifest = read_manifest(store, PartitionId(name, folder.topic_id, number)).manifest
        except (Corrupt, Invalid):  # it cannot say
            return number + 1
        if manifest.deleted_ms < 0 or manifest.claimant.leader_epoch >= 0:
            return number + 1
    return count


def _newest(store: ObjectStore, topics: Iterable[ArchivedTopic], problems: list[str]) -> ArchivedTopic:
    """The one of several topics of a name that was claimed last."""
    ordered = list(topics)
    if len(ordered) > 1:
        ordered.sort(key=lambda topic: (_claimed_ms(store, topic), topic.topic_id))
        others = ", ".join(uuid_text(topic.topic_id) for topic in ordered[:-1])
        problems.append(
            f"{len(ordered)} topics are named {ordered[-1].name}: {uuid_text(ordered[-1].topic_id)} was claimed last "
            f"and is served, not {others}"
        )
    return ordered[-1]


def _claimed_ms(store: ObjectStore, topic: ArchivedTopic) -> int:
    claimed = -1
    for number in range(topic.partition_count):
        try:
            claimed = max(claimed, read_manifest(store, topic.partition(number)).manifest.claimed_ms)
        except Corrupt:
            continue  # it cannot say when it was claimed
    return claimed
