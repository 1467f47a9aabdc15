"""Every key of the bucket is made and taken apart here, and nowhere else.

Keys are relative to the store's prefix. ``end`` is exclusive everywhere. Numbers are zero-padded, so that a plain
LIST of ``seg/`` is an index in offset order. The layout is published in ``docs/format/bucket.md``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stratalog.wire.errors import Invalid
from stratalog.wire.topic import Uuid, uuid_parse, uuid_text

__all__ = [
    "AUDIT_PREFIX",
    "CLUSTERS_PREFIX",
    "FORMAT_KEY",
    "LEASES_PREFIX",
    "TOPICS_PREFIX",
    "HistoryKey",
    "PageKey",
    "PartitionId",
    "SegmentKey",
    "TopicKey",
    "audit_key",
    "cluster_key",
    "cut_groups_key",
    "cut_id_of",
    "cut_key",
    "cut_manifest_key",
    "cuts_prefix",
    "group_key",
    "is_cut_key",
    "lease_key",
    "parse_key",
    "topic_key",
    "topic_prefix",
]

FORMAT_KEY: Final = "format.json"
CLUSTERS_PREFIX: Final = "clusters/"
TOPICS_PREFIX: Final = "topics/"
LEASES_PREFIX: Final = "leases/"
AUDIT_PREFIX: Final = "audit/"
_TOPIC_CHARS_MAX: Final = 200
"""A topic name may have 249 characters; with its id it must fit a file name of 255 bytes. The id keeps it unique."""
_CUT_KEY_SLASHES: Final = 3
_UUID: Final = r"[A-Za-z0-9_-]{22}"

_TOPIC = re.compile(rf"topics/(?!\.{{1,2}}-{_UUID}/)(?P<topic>[A-Za-z0-9._-]{{1,200}})-(?P<id>{_UUID})/(?P<rest>.+)")
"""No topic is called ``.`` or ``..``."""
_PARTITION = re.compile(r"(?P<partition>\d{10})/(?P<rest>.+)")
_SEGMENT = re.compile(rf"seg/(\d{{20}})-(\d{{20}})-(\d{{10}})-({_UUID})\.seg")
_PAGE = re.compile(r"pages/(\d{20})-(\d{20})-(\d{10})\.json\.zst")
_HISTORY = re.compile(r"history/(\d{20})-([A-Za-z0-9_-]+)\.json\.zst")


class PartitionId(NamedTuple):
    """One partition for ever: a topic deleted and created again has another ``topic_id`` and other keys."""

    topic: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def prefix(self) -> str:
        """Where everything of this partition lies, with a slash at the end."""
        return f"{topic_prefix(self.topic, self.topic_id)}{self.partition:010}/"

    @property
    def manifest_key(self) -> str:
        """The commit point."""
        return self.prefix + "manifest.json"

    @property
    def segments_prefix(self) -> str:
        """Listed, it gives every object's base, end and leader epoch in offset order."""
        return self.prefix + "seg/"

    @property
    def history_prefix(self) -> str:
        """Where the copies of earlier manifests lie, in the order of their numbers."""
        return self.prefix + "history/"

    def segment_key(self, base: int, end: int, epoch: int, uuid: Uuid) -> str:
        """One upload attempt of the offsets ``[base, end)`` by the leader of ``epoch``; its uuid is its own."""
        return f"{self.prefix}seg/{base:020}-{end:020}-{epoch:010}-{uuid_text(uuid)}.seg"

    def page_key(self, first: int, last: int, seq: int) -> str:
        """Entries spilled from the manifest numbered ``seq``."""
        return f"{self.prefix}pages/{first:020}-{last:020}-{seq:010}.json.zst"

    def history_key(self, seq: int, writer: str) -> str:
        """A full copy of the manifest numbered ``seq``."""
        return f"{self.history_prefix}{seq:020}-{writer}.json.zst"


class TopicKey(NamedTuple):
    """``topic.json``, or a manifest when ``partition`` is given. ``topic`` is cut to 200 characters."""

    topic: str
    topic_id: Uuid
    partition: int | None


class SegmentKey(NamedTuple):
    """A ``.seg`` object. ``topic`` is cut to 200 characters; the whole name is in the object's footer."""

    topic: str
    topic_id: Uuid
    partition: int
    base: int
    end: int
    epoch: int
    uuid: Uuid


class PageKey(NamedTuple):
    """A page of older manifest entries."""

    topic: str
    topic_id: Uuid
    partition: int
    first: int
    last: int
    seq: int


class HistoryKey(NamedTuple):
    """A copy of a replaced manifest."""

    topic: str
    topic_id: Uuid
    partition: int
    seq: int
    writer: str


def topic_prefix(topic: str, topic_id: Uuid) -> str:
    """Where everything of one topic lies, with a slash at the end."""
    return f"{TOPICS_PREFIX}{topic[:_TOPIC_CHARS_MAX]}-{uuid_text(topic_id)}/"


def topic_key(topic: str, topic_id: Uuid) -> str:
    """The topic's projection: name, id, partitions, configuration."""
    return topic_prefix(topic, topic_id) + "topic.json"


def cluster_key(cluster_id: str) -> str:
    """The cluster's projection."""
    return f"clusters/{cluster_id}/cluster.json"


def cut_key(cluster_id: str, created_ms: int, cut_id: str) -> str:
    """The document of a cut: what many partitions held at one time."""
    return f"{cuts_prefix(cluster_id)}{created_ms:013}-{cut_id}.json"


def cut_manifest_key(cluster_id: str, created_ms: int, cut_id: str, partition: PartitionId) -> str:
    """The copy of a partition's manifest as the cut has pinned it."""
    folder = cut_key(cluster_id, created_ms, cut_id).removesuffix(".json")
    return f"{folder}/{uuid_text(partition.topic_id)}-{partition.partition:010}.json"


def cut_groups_key(cluster_id: str, created_ms: int, cut_id: str) -> str:
    """The committed offsets of groups when the cut was made."""
    return f"{cut_key(cluster_id, created_ms, cut_id).removesuffix('.json')}/groups.json"


def cuts_prefix(cluster_id: str) -> str:
    """Where the cuts of a cluster lie."""
    return f"{CLUSTERS_PREFIX}{cluster_id}/cuts/"


def cut_id_of(key: str) -> str:
    """``{created_ms}-{name}``: what pins call the cut with this document."""
    return key.rpartition("/")[2].removesuffix(".json")


def is_cut_key(key: str) -> bool:
    """Whether a key below `cuts_prefix` is that of a document, not of a copied manifest."""
    return key.endswith(".json") and key.count("/") == _CUT_KEY_SLASHES


def group_key(cluster_id: str, group_hash: str, seq: int) -> str:
    """Reserved: a copy of one group's committed offsets."""
    return f"clusters/{cluster_id}/groups/{group_hash}/{seq}.json"


def lease_key(uuid: Uuid) -> str:
    """A reader's lease: the only keys that a reader writes."""
    return f"{LEASES_PREFIX}{uuid_text(uuid)}.json"


def audit_key(started_ms: int, uuid: Uuid) -> str:
    """The record of an erasure; keys sort by when it began."""
    return f"{AUDIT_PREFIX}{started_ms:013}-{uuid_text(uuid)}.json"


def parse_key(key: str) -> TopicKey | SegmentKey | PageKey | HistoryKey:
    """Take a key under ``topics/`` apart. Raises `Invalid` for any other: what we do not know is never touched."""
    topic = _TOPIC.fullmatch(key)
    if topic is not None:
        name, topic_id, rest = topic["topic"], uuid_parse(topic["id"]), topic["rest"]
        if rest == "topic.json":
            return TopicKey(name, topic_id, None)
        partition = _PARTITION.fullmatch(rest)
        if partition is not None:
            parsed = _parse_in_partition(name, topic_id, int(partition["partition"]), partition["rest"])
            if parsed is not None:
                return parsed
    raise Invalid(f"{key!r} is not a key of this format: leave it alone")


def _parse_in_partition(
    topic: str, topic_id: Uuid, partition: int, rest: str
) -> TopicKey | SegmentKey | PageKey | HistoryKey | None:
    if rest == "manifest.json":
        return TopicKey(topic, topic_id, partition)
    if match := _SEGMENT.fullmatch(rest):
        base, end, epoch, uuid = match.groups()
        return SegmentKey(topic, topic_id, partition, int(base), int(end), int(epoch), uuid_parse(uuid))
    if match := _PAGE.fullmatch(rest):
        first, last, seq = match.groups()
        return PageKey(topic, topic_id, partition, int(first), int(last), int(seq))
    if match := _HISTORY.fullmatch(rest):
        return HistoryKey(topic, topic_id, partition, int(match[1]), match[2])
    return None
