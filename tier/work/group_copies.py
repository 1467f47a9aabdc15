"""The copies of a cluster's groups that its brokers keep in the bucket (`tier.messages.group_copy`), as a restore takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from stratalog.tier.messages.group_copy import (
    GroupCopy,
    group_copy_from_bytes,
    group_copy_projection,
    groups_prefix,
)
from stratalog.tier.messages.projection import write_projection
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import Uuid

__all__ = ["leave_offsets", "read_group_copies"]

_THREADS: Final = 16


def read_group_copies(
    store: ObjectStore, cluster_id: str, on_problem: Callable[[str], object]
) -> tuple[GroupCopy, ...]:
    """The copies that hold any offsets. ``on_problem`` gets each one that cannot be read. Raises what the store raises."""

    def read(key: str) -> GroupCopy | str:
        try:
            return get_checked(store, key, partial(group_copy_from_bytes, key=key))[0]
        except (Corrupt, NotFound) as error:
            return str(error)

    found = []
    with ThreadPoolExecutor(_THREADS, "groups") as threads:
        for copy in threads.map(read, [info.key for info in store.list(groups_prefix(cluster_id))]):
            if isinstance(copy, str):
                on_problem(copy)
            elif copy.offsets:
                found.append(copy)
    return tuple(found)


def leave_offsets(
    store: ObjectStore,
    cluster_id: str,
    copies: Iterable[GroupCopy],
    restored: Collection[Uuid] | None,
    incarnation: int,
) -> int:
    """Leave the offsets in the bucket that a takeover does not restore; the number of groups that have some.

    ``restored`` are the ids of topics, None for all. The cluster that goes on has no other topics, and replaces the copies of
    its groups: without this a later restore of the others would find no offset of them. A partition that a restored topic lacks, as
    it was added after the cut, is another one when it is added again. Raises as `write_projection`.
    """

    def leave(copy: GroupCopy) -> bool:
        left = tuple(one for one in copy.offsets if restored is not None and one.topic_id not in restored)
        if left != copy.left:
            taken = [one for one in copy.offsets if one not in left]
            write_projection(store, group_copy_projection(cluster_id, copy.group, taken, incarnation, left=left))
        return bool(left)

    with ThreadPoolExecutor(_THREADS, "groups") as threads:
        return sum(threads.map(leave, copies))
