"""Which topics and partitions a bucket holds: one LIST for each folder, which skips to the next one.

Objects are not looked at one by one, so that an archive of millions is walked in as many requests as it has partitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from stratalog.tier.documents.keys import TOPICS_PREFIX, PartitionId, cluster_key
from stratalog.tier.documents.unknown_fields import integer, text, topic_name
from stratalog.tier.stores.checked_read import get_json
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid, uuid_parse

__all__ = [
    "ClusterDocument",
    "PartitionFolder",
    "TopicDocument",
    "TopicFolder",
    "iter_clusters",
    "iter_partitions",
    "iter_topics",
    "read_topic_document",
]

_TOPIC: Final = re.compile(r"topics/(?P<topic>[A-Za-z0-9._-]{1,200})-(?P<id>[A-Za-z0-9_-]{22})/")
_PARTITION: Final = re.compile(r"(\d{10})/")
_CLUSTER: Final = re.compile(r"clusters/([^/]+)/")
_DOCUMENT: Final = "topic.json"
_AFTER_SLASH: Final = "0"
"""The character that follows the slash: a folder with it for its slash sorts behind all that the folder holds."""

Report = Callable[[str], object]


class TopicFolder(NamedTuple):
    """Where everything of one topic lies. ``name`` is cut to 200 characters; `TopicDocument` has the whole one."""

    name: str
    topic_id: Uuid
    prefix: str


class PartitionFolder(NamedTuple):
    """Where everything of one partition lies."""

    topic: TopicFolder
    partition: int

    @property
    def prefix(self) -> str:
        """With a slash at the end."""
        return f"{self.topic.prefix}{self.partition:010}/"

    @property
    def manifest_key(self) -> str:
        """The commit point."""
        return self.prefix + "manifest.json"

    def identity(self, name: str) -> PartitionId:
        """The partition under its topic's whole ``name``."""
        return PartitionId(name, self.topic.topic_id, self.partition)


class TopicDocument(Struct, frozen=True):
    """Content of ``topic.json``. Without one: name as far as the folder has it, no settings."""

    name: str
    topic_id: Uuid
    cluster_id: str = ""
    partition_count: int = 0
    configs: dict[str, str] = field(default_factory=dict)
    state: str = "live"
    found: bool = True
    """Whether there was a readable document."""


class ClusterDocument(NamedTuple):
    """A cluster that writes to the bucket, and its incarnation; -1 if ``cluster.json`` cannot be read."""

    cluster_id: str
    incarnation: int


def iter_clusters(store: ObjectStore) -> Iterator[ClusterDocument]:
    """Every cluster that has a key."""
    after = ""
    while True:
        info = next(store.list("clusters/", after), None)
        if info is None:
            return
        match = _CLUSTER.match(info.key)
        after = info.key if match is None else _behind(match[0])
        if match is not None:
            try:
                fields = get_json(store, cluster_key(match[1]))[0]
                yield ClusterDocument(match[1], integer(fields, "incarnation"))
            except (NotFound, Corrupt, TypeError, AttributeError):
                yield ClusterDocument(match[1], -1)


def _behind(folder: str) -> str:
    """A key behind all keys of a folder, foreign ones too, and before those of any other folder."""
    return folder[:-1] + _AFTER_SLASH


def iter_topics(
    store: ObjectStore, foreign: Report | None = None, prefix: str = TOPICS_PREFIX
) -> Iterator[TopicFolder]:
    """Every topic that has a key below ``prefix``, in key order. ``foreign`` hears of keys that are no topic's."""
    after = ""
    while True:
        info = next(store.list(prefix, after), None)
        if info is None:
            return
        match = _TOPIC.match(info.key)
        folder = None if match is None else _folder(match)
        if folder is None:
            after = info.key
            if foreign is not None:
                foreign(info.key)
            continue
        after = _behind(folder.prefix)
        yield folder


def _folder(match: re.Match[str]) -> TopicFolder | None:
    try:
        return TopicFolder(match["topic"], uuid_parse(match["id"]), match[0])
    except Invalid:
        return None


def iter_partitions(store: ObjectStore, topic: TopicFolder, foreign: Report | None = None) -> Iterator[PartitionFolder]:
    """Every partition of a topic that has a key. ``foreign`` hears of keys that are neither its nor the document."""
    after = ""
    while True:
        info = next(store.list(topic.prefix, after), None)
        if info is None:
            return
        rest = info.key.removeprefix(topic.prefix)
        match = _PARTITION.match(rest)
        if match is None:
            after = info.key
            if rest != _DOCUMENT and foreign is not None:
                foreign(info.key)
            continue
        folder = PartitionFolder(topic, int(match[1]))
        after = _behind(folder.prefix)
        yield folder


def read_topic_document(store: ObjectStore, topic: TopicFolder) -> TopicDocument:
    """Read ``topic.json``; a document with ``found`` False if it is not there or cannot be read."""
    key = topic.prefix + _DOCUMENT
    try:
        fields: dict[str, Any] = get_json(store, key)[0]
        return TopicDocument(
            name=topic_name(fields),
            topic_id=uuid_parse(text(fields, "topic_id")),
            cluster_id=text(fields, "cluster_id", ""),
            partition_count=integer(fields, "partitions"),
            configs={str(name): str(value) for name, value in fields.get("configs", {}).items()},
            state=text(fields, "state", "live"),
        )
    except (NotFound, Corrupt, Invalid, ValueError, TypeError, AttributeError):
        return TopicDocument(topic.name, topic.topic_id, found=False)
