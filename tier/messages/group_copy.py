"""Committed offsets of consumer groups in the bucket: a copy for the day on which only the bucket is left. Pure.

One small JSON document a group, replaced when something has been committed. Only offsets in archived topics are in it:
of others the bucket knows nothing to apply them to. Brokers never read it; `stratalog restore` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from stratalog.tier.documents.json import LISTING_BYTES_MAX, parse_json
from stratalog.tier.documents.keys import group_key
from stratalog.tier.documents.unknown_fields import integer, text
from stratalog.tier.messages.commands import WriteProjection
from stratalog.tier.messages.projection import CoordinatorTerm, coordinator_fields
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid, topic_name_problem, uuid_parse, uuid_text

__all__ = [
    "GroupCopy",
    "OffsetCopy",
    "group_copy_from_bytes",
    "group_copy_projection",
    "groups_prefix",
    "offset_fields",
    "offset_from_fields",
]

FORMAT_NAME: Final = "stratalog-group-offsets"
FORMAT_VERSION: Final = 1
_HASH_CHARS: Final = 32


class OffsetCopy(NamedTuple):
    """A group's committed offset of one partition."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupCopy(NamedTuple):
    """The committed offsets of one group.

    ``left`` are those among them that a restore of some topics has left in the bucket: the cluster has not their topics.
    """

    group: str
    offsets: tuple[OffsetCopy, ...]
    left: tuple[OffsetCopy, ...] = ()


def groups_prefix(cluster_id: str) -> str:
    """Where the copies of a cluster's groups lie, with a slash at the end."""
    return group_key(cluster_id, "", 0).rpartition("//")[0] + "/"


def offset_fields(one: OffsetCopy) -> list[Any]:
    """One offset as it is written."""
    return [one.topic, uuid_text(one.topic_id), one.partition, one.offset, one.leader_epoch, one.metadata]


def offset_from_fields(row: Sequence[Any]) -> OffsetCopy:
    """The inverse of `offset_fields`. Raises `ValueError`, `TypeError`, `Invalid`."""
    topic, topic_id, partition, offset, epoch, metadata = row
    if (problem := topic_name_problem(str(topic))) is not None:
        raise Invalid(f"an offset is of no topic: {problem}")
    return OffsetCopy(str(topic), uuid_parse(topic_id), int(partition), int(offset), int(epoch), str(metadata))


def group_copy_projection(
    cluster_id: str,
    group: str,
    offsets: Iterable[OffsetCopy],
    incarnation: int = 0,
    coordinator: CoordinatorTerm | None = None,
    left: Iterable[OffsetCopy] | None = None,
) -> WriteProjection:
    """The document of one group; without offsets it says that there are none any more.

    A broker of an earlier ``incarnation`` of the cluster, which was cut off from the bucket, does not replace it, and
    neither does an earlier ``coordinator`` of the group whose command comes late. Without ``left`` the offsets stay that a
    restore of some topics has left there.
    """
    rows = [offset_fields(one) for one in sorted(offsets)]
    fields: dict[str, Any] = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "cluster_id": cluster_id,
        "incarnation": incarnation,
        "group": group,
        "offsets": rows,
    }
    if coordinator is not None:
        fields.update(coordinator_fields(coordinator))
    if left is not None:
        fields["left"] = [offset_fields(one) for one in sorted(left)]
    mark = hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return WriteProjection(group_key(cluster_id, mark, 0), fields)


def group_copy_from_bytes(data: bytes, key: str) -> GroupCopy:
    """The inverse of `group_copy_projection`; ``key`` is for messages. Raises `Corrupt`."""
    try:
        fields = parse_json(data, key, limit_bytes=LISTING_BYTES_MAX)
        if (fields["format"], integer(fields, "version")) != (FORMAT_NAME, FORMAT_VERSION):
            raise Corrupt(
                f"format {fields['format']!r} version {fields['version']!r} is not known, {FORMAT_NAME} {FORMAT_VERSION} is"
            )
        offsets = tuple(offset_from_fields(row) for row in fields["offsets"])
        held = {(one.topic_id, one.partition) for one in offsets}
        left = tuple(map(offset_from_fields, fields.get("left", ())))
        left = tuple(one for one in left if (one.topic_id, one.partition) not in held)
        return GroupCopy(text(fields, "group"), offsets + left, left)
    except (ValueError, TypeError, LookupError, AttributeError, Corrupt, Invalid) as error:
        raise Corrupt(f"the copy of a group's offsets {key} cannot be read: {error!r}") from error
