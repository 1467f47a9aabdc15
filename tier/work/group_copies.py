"""Reads the copies of a cluster's groups that its brokers keep in the bucket (`tier.messages.group_copy`)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from stratalog.tier.messages.group_copy import GroupCopy, group_copy_from_bytes, groups_prefix
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt

__all__ = ["read_group_copies"]

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
