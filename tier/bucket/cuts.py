"""The document of a cut: up to which offset each partition belongs to it. Pure.

A cut is a name for what an archive held at one time, over many partitions. While it exists nothing that it holds leaves
the bucket, whatever retention says: each manifest has a pin of it (``stratalog.tier.manifests.pins``), and beside the
document lie copies of the pinned manifests, which still name what the live ones have dropped since. The document is
there first, in state ``creating``; a cut is one only in state ``complete``. Published in ``docs/format/bucket.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from stratalog.tier.documents.json import LISTING_BYTES_MAX, parse_json
from stratalog.tier.documents.keys import PartitionId, cut_groups_key, cut_key, cut_manifest_key
from stratalog.tier.documents.unknown_fields import (
    UnknownFields,
    canonical_json,
    integer,
    keep_unknown,
    restore_unknown,
    text,
    topic_name,
)
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid, uuid_parse, uuid_text

__all__ = [
    "CUT_NAME",
    "Cut",
    "CutPartition",
    "CutState",
    "CutTopic",
    "check_cut_name",
    "cut_from_bytes",
    "cut_to_bytes",
]

CUT_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
"""It stands in names of topics (``orders@NAME``) and in keys; a digit at its beginning would look like a time."""
_FORMAT: Final = "stratalog-cut"
_VERSION: Final = 1
_KNOWN: Final = (
    "format",
    "version",
    "cluster_id",
    "name",
    "created_ms",
    "state",
    "writer",
    "topics",
    "partitions",
    "groups",
)


class CutState(StrEnum):
    """How far the cut is. Only a complete one may be read."""

    CREATING = "creating"
    COMPLETE = "complete"
    DELETING = "deleting"


class CutTopic(NamedTuple):
    """One topic as it was: ``partition_count`` counts those without any object, too."""

    name: str
    topic_id: Uuid
    partition_count: int
    configs: Mapping[str, str]


class CutPartition(NamedTuple):
    """One partition: the offsets ``[log_start_offset, end_offset)`` belong to the cut.

    ``seq`` and ``sha256`` (hex) are those of the pinned manifest, whose copy lies beside the document; ``seq`` 0 stands
    for a partition that had no manifest, and none of them is known while the cut is being created (-1).
    """

    partition: PartitionId
    log_start_offset: int = 0
    end_offset: int = 0
    seq: int = -1
    sha256: str = ""


class Cut(Struct, frozen=True):
    """A cut. ``cluster_id`` is that of its topics.

    ``groups_sha256`` (hex) is that of the document with the offsets of ``group_count`` groups, empty if there is none.
    """

    cluster_id: str
    name: str
    created_ms: int
    state: CutState
    topics: tuple[CutTopic, ...]
    partitions: tuple[CutPartition, ...]
    writer: str = ""
    group_count: int = 0
    groups_sha256: str = ""
    unknown: UnknownFields = field(default=())

    @property
    def cut_id(self) -> str:
        """Name of the cut in pins and keys."""
        return f"{self.created_ms:013}-{self.name}"

    @property
    def key(self) -> str:
        """Key of the document."""
        return cut_key(self.cluster_id, self.created_ms, self.name)

    @property
    def groups_key(self) -> str:
        """Key of the committed offsets of groups."""
        return cut_groups_key(self.cluster_id, self.created_ms, self.name)

    def manifest_key(self, partition: PartitionId) -> str:
        """Key of the copy of a partition's pinned manifest."""
        return cut_manifest_key(self.cluster_id, self.created_ms, self.name, partition)

    def topic(self, name: str) -> CutTopic | None:
        """The topic called ``name``, if it belongs to the cut."""
        return next((topic for topic in self.topics if topic.name == name), None)


def check_cut_name(name: str) -> None:
    """Raise `Invalid` for a name that no cut may have."""
    if not CUT_NAME.fullmatch(name):
        raise Invalid(f"{name!r} cannot be the name of a cut: a letter, then up to 62 letters, digits, - and _")


def cut_to_bytes(cut: Cut) -> bytes:
    """The document."""
    fields: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "cluster_id": cut.cluster_id,
        "name": cut.name,
        "created_ms": cut.created_ms,
        "state": str(cut.state),
        "writer": cut.writer,
        "topics": [
            {
                "topic": topic.name,
                "topic_id": uuid_text(topic.topic_id),
                "partitions": topic.partition_count,
                "configs": dict(sorted(topic.configs.items())),
            }
            for topic in cut.topics
        ],
        "partitions": [
            {
                "topic_id": uuid_text(one.partition.topic_id),
                "partition": one.partition.partition,
                "log_start": one.log_start_offset,
                "end": one.end_offset,
                "seq": one.seq,
                "sha256": one.sha256,
            }
            for one in cut.partitions
        ],
    }
    if cut.groups_sha256:
        fields["groups"] = {"count": cut.group_count, "sha256": cut.groups_sha256}
    return canonical_json(restore_unknown(fields, cut.unknown)).encode("ascii")


def cut_from_bytes(raw: bytes, key: str) -> Cut:
    """The cut that the document ``key`` describes. Raises `Corrupt` unless it is one of ours, under its own key."""
    try:
        fields = parse_json(raw, key, limit_bytes=LISTING_BYTES_MAX)
        if fields["format"] != _FORMAT or integer(fields, "version") != _VERSION:
            raise Corrupt(f"it is of format {fields['format']!r} version {fields.get('version')!r}")
        cut = _cut(fields)
    except (ValueError, LookupError, TypeError, AttributeError, Corrupt, Invalid) as error:
        raise Corrupt(f"the cut {key} cannot be read: {error}") from error
    if cut.key != key:
        raise Corrupt(f"the cut {key} says that it is {cut.key}: it was copied or renamed")
    return cut


def _cut(fields: dict[str, Any]) -> Cut:
    topics = tuple(
        CutTopic(
            topic_name(each),
            uuid_parse(text(each, "topic_id")),
            integer(each, "partitions"),
            {str(name): str(value) for name, value in each["configs"].items()},
        )
        for each in fields["topics"]
    )
    names = {topic.topic_id: topic.name for topic in topics}
    groups = fields.get("groups", {"count": 0, "sha256": ""})
    return Cut(
        cluster_id=text(fields, "cluster_id"),
        name=text(fields, "name"),
        created_ms=integer(fields, "created_ms"),
        state=CutState(text(fields, "state")),
        topics=topics,
        partitions=tuple(_partition(each, names) for each in fields["partitions"]),
        writer=text(fields, "writer", ""),
        group_count=integer(groups, "count"),
        groups_sha256=text(groups, "sha256"),
        unknown=keep_unknown(fields, _KNOWN),
    )


def _partition(fields: dict[str, Any], names: Mapping[Uuid, str]) -> CutPartition:
    topic_id = uuid_parse(text(fields, "topic_id"))
    return CutPartition(
        PartitionId(names[topic_id], topic_id, integer(fields, "partition")),
        integer(fields, "log_start"),
        integer(fields, "end"),
        integer(fields, "seq"),
        text(fields, "sha256"),
    )
