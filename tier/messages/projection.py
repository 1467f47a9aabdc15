"""Small JSON documents that repeat for readers of the bucket what the cluster's image says: format, cluster, topics.

They are projections: never read back by brokers to decide anything, rewritten until equal. Fields of other writers
are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from stratalog.tier.documents.json import LISTING_BYTES_MAX, parse_json
from stratalog.tier.documents.keys import FORMAT_KEY, cluster_key, topic_key
from stratalog.tier.documents.unknown_fields import canonical_json
from stratalog.tier.messages.commands import WriteProjection, Written
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import AlreadyExists, NotFound, ObjectStore, PreconditionFailed
from stratalog.wire.errors import Corrupt, Fenced, Invalid, Retriable
from stratalog.wire.topic import Uuid, uuid_text

__all__ = [
    "CoordinatorTerm",
    "MetadataPosition",
    "cluster_projection",
    "coordinator_fields",
    "format_projection",
    "topic_projection",
    "write_projection",
]

_ATTEMPTS: Final = 16
_AS_OF: Final = "as_of"
_COORDINATOR: Final = "coordinator"
_SPEC: Final = "docs/format/bucket.md"


class MetadataPosition(NamedTuple):
    """How far an image of the cluster's metadata goes."""

    incarnation: int
    """The cluster's: one that took the bucket over begins a metadata log of its own."""
    metadata_offset: int
    """The offset of the last record of the metadata log that is in it."""


class CoordinatorTerm(NamedTuple):
    """A broker's time as the coordinator of the groups of one partition of ``__consumer_offsets``."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    """That of the partition: the higher one is the later time."""


def coordinator_fields(term: CoordinatorTerm) -> dict[str, object]:
    """The fields of a document that name the coordinator that wrote it, so that no earlier one replaces it."""
    return {_COORDINATOR: {**term._asdict(), "topic_id": uuid_text(term.topic_id)}}


def format_projection() -> WriteProjection:
    """``format.json``: what this prefix holds and which readers can read it."""
    return WriteProjection(
        FORMAT_KEY, {"format": "stratalog-archive", "version": 1, "min_reader_version": 1, "spec": _SPEC}
    )


def cluster_projection(cluster_id: str, incarnation: int) -> WriteProjection:
    """``cluster.json``: a cluster that writes here."""
    fields = {"format": "stratalog-cluster", "version": 1, "cluster_id": cluster_id, "incarnation": incarnation}
    return WriteProjection(cluster_key(cluster_id), fields)


def topic_projection(
    topic: str,
    topic_id: Uuid,
    *,
    partitions: int,
    configs: Mapping[str, str],
    cluster_id: str,
    state: str = "live",
    as_of: MetadataPosition | None = None,
) -> WriteProjection:
    """``topic.json``: whole name, id, number of partitions, configuration; ``state`` is live, deleting or detached.

    Each broker that leads a partition of the topic writes it, from its own image: with ``as_of``, one that is behind
    does not replace what another wrote from a later image.
    """
    fields: dict[str, Any] = {
        "format": "stratalog-topic",
        "version": 1,
        "cluster_id": cluster_id,
        "topic": topic,
        "topic_id": uuid_text(topic_id),
        "partitions": partitions,
        "configs": dict(sorted(configs.items())),
        "state": state,
    }
    if as_of is not None:
        fields[_AS_OF] = as_of._asdict()
    return WriteProjection(topic_key(topic, topic_id), fields)


def write_projection(store: ObjectStore, command: WriteProjection) -> Written:
    """Compare what the store holds with ``fields`` and replace it until they agree.

    Raises `Fenced` if a later incarnation of the cluster has written it, `Invalid` if it is of another format or of a
    newer version, `Retriable` after 16 lost races, and what the store raises.
    """
    for _ in range(_ATTEMPTS):
        try:
            held, version = get_checked(store, command.key, partial(_parse, command))
        except NotFound:
            held, version = {}, ""
        except Corrupt as error:
            raise Invalid(f"{error}") from error
        if all(name in held and held[name] == value for name, value in command.fields.items() if name != _AS_OF):
            return Written(command.key)
        if _is_behind(command, held) or _is_of_an_earlier_coordinator(command, held):
            return Written(command.key)
        _check_incarnation(command, held)
        data = canonical_json({**held, **command.fields}).encode("ascii")
        try:
            if version:
                store.compare_and_swap(command.key, data, version, crc32c=crc32c(data))
            else:
                store.put_if_absent(command.key, data, crc32c=crc32c(data))
        except (AlreadyExists, PreconditionFailed):
            continue
        return Written(command.key)
    raise Retriable(f"{command.key} was changed by others {_ATTEMPTS} times while it was written: try again")


def _check_incarnation(command: WriteProjection, held: Mapping[str, Any]) -> None:
    ours, theirs = command.fields.get("incarnation"), held.get("incarnation")
    if isinstance(ours, int) and isinstance(theirs, int) and ours < theirs:
        raise Fenced(
            f"{command.key} was written by incarnation {theirs} of the cluster, this broker is of incarnation {ours}"
        )


def _is_behind(command: WriteProjection, held: Mapping[str, Any]) -> bool:
    """Whether ``held`` is of a later image of the same cluster. Its writer knew all that ``command`` says."""
    ours, theirs = _position(command.fields), _position(held)
    if ours is None or theirs is None or held.get("cluster_id") != command.fields.get("cluster_id"):
        return False
    return ours < theirs


def _position(fields: Mapping[str, Any]) -> MetadataPosition | None:
    stated = fields.get(_AS_OF)
    if not isinstance(stated, Mapping):
        return None
    incarnation, metadata_offset = stated.get("incarnation"), stated.get("metadata_offset")
    if type(incarnation) is not int or type(metadata_offset) is not int:
        return None
    return MetadataPosition(incarnation, metadata_offset)


def _is_of_an_earlier_coordinator(command: WriteProjection, held: Mapping[str, Any]) -> bool:
    """Whether ``held`` is of a later coordinator of the same partition in the same incarnation of the cluster."""
    ours, theirs = command.fields.get(_COORDINATOR), held.get(_COORDINATOR)
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        return False
    own, other = (
        [fields.get("cluster_id"), fields.get("incarnation"), term.get("topic_id"), term.get("partition")]
        for fields, term in ((command.fields, ours), (held, theirs))
    )
    own_epoch, other_epoch = ours.get("leader_epoch"), theirs.get("leader_epoch")
    return own == other and type(own_epoch) is int and type(other_epoch) is int and own_epoch < other_epoch


def _parse(command: WriteProjection, raw: bytes) -> dict[str, Any]:
    try:
        held = parse_json(raw, command.key, limit_bytes=LISTING_BYTES_MAX)
    except Corrupt as error:
        raise Corrupt(f"{error}. Remove it, it will be written again") from error
    known = command.fields.get("format"), command.fields.get("version")
    if not isinstance(held, dict) or (held.get("format"), held.get("version")) != known:
        raise Corrupt(f"{command.key} is not of format {known[0]} version {known[1]}: it is left as it is")
    return held
