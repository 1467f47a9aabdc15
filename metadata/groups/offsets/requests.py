"""The questions to a shard about committed offsets where they are not the request itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from stratalog.metadata.coordination import CoordinatorRecord, Producer
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["Expired", "FetchOffsets", "TransactionEnded", "WantedTopic"]


class WantedTopic(NamedTuple):
    """Partitions of one topic whose offsets are wanted. The id is zero when the client asked by name."""

    name: str
    partitions: Sequence[int]
    topic_id: Uuid = ZERO_UUID


class FetchOffsets(Struct, kw_only=True):
    """The part of an OffsetFetch request that is about one group.

    ``topics`` None are all that the group has offsets of. ``require_stable``: an offset that an open transaction may
    change is an error. ``member_id`` None and epoch -1 come from clients that are no members.
    """

    group_id: str
    topics: Sequence[WantedTopic] | None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


class TransactionEnded(Struct):
    """The marker of a producer's transaction is committed in the shard's log."""

    producer: Producer
    commit: bool


class Expired(NamedTuple):
    """The result of a look for expired offsets."""

    records: list[CoordinatorRecord]
    """Tombstones, already applied."""
    empty: list[str]
    """Groups that hold no offset, not even in an open transaction."""
    more: bool
    """There is more to look at; `expire` is to be called again soon."""
