"""The lease of one planned read: written before any manifest is read, renewed by its tasks, ended by the last of them.

Spark tells a Python source neither when a query ends nor when it is given up. So each task notes in the lease that it
has read all of its rows, and the last one ends it; that of a query of many tasks, or of one that stopped early, runs out by
itself. Tasks of a long query renew it when half of it is over. A bucket that this job may only read gets no lease: then
objects that retention removes are kept for no longer than the broker's grace, and a warning says so.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from stratalog.tier.documents.keys import TOPICS_PREFIX
from stratalog.tier.manifests.leases import LeaseExpired, end_lease, expire_lease, finish_part, renew_lease, write_lease
from stratalog.tier.stores.store import ObjectStore, StoreDenied, StoreError, UnsupportedOperation
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import Uuid

__all__ = [
    "PARTS_MAX",
    "LeaseTicket",
    "finish_task",
    "give_back",
    "has_topics",
    "keep_lease",
    "lease_if_needed",
    "leased",
    "take_lease",
]

PARTS_MAX: Final = 64
"""The lease of a query with more tasks runs out: each that ends costs two requests, and two that end at once race."""
_UUID_BYTES: Final = 16

_logger = logging.getLogger("stratalog.spark")


class LeaseTicket(NamedTuple):
    """Facts for a task to renew the lease of its query; times by the driver's clock, in ms since 1970."""

    uuid: Uuid
    created_ms: int
    duration_ms: int


def take_lease(store: ObjectStore, duration_ms: int, reader: str = "spark") -> LeaseTicket | None:
    """Write a lease that names its `reader`; None, with a warning, where the bucket may only be read. Raises what else the store raises."""
    uuid, now_ms = os.urandom(_UUID_BYTES), _now_ms()
    try:
        write_lease(store, uuid, duration_ms, now_ms, f"{reader}, {socket.gethostname()}, process {os.getpid()}")
    except (StoreDenied, UnsupportedOperation) as error:
        _logger.warning(
            "no lease was written, %s may only be read: objects that retention removes while this query runs are kept "
            "for the broker's stratalog.trash.grace.ms (a day by default) and no longer. Allow writing under leases/, "
            "or set option 'lease' to 'false' if that is enough (%s)",
            store.url,
            error.reason,
        )
        return None
    return LeaseTicket(uuid, now_ms, duration_ms)


def has_topics(store: ObjectStore) -> bool:
    """Whether there is anything to read: looked at before anything is written, which some servers make a bucket for.

    Raises what the store raises, above all for a bucket that is not there.
    """
    return next(iter(store.list(TOPICS_PREFIX)), None) is not None


def lease_if_needed(store: ObjectStore, duration_ms: int, reader: str = "spark") -> LeaseTicket | None:
    """A lease of ``duration_ms`` if that is not 0 and there is anything to read; raises what the store raises."""
    return take_lease(store, duration_ms, reader) if duration_ms and has_topics(store) else None


@contextmanager
def leased(store: ObjectStore, duration_ms: int, reader: str = "spark") -> Iterator[LeaseTicket | None]:
    """A lease from before the first manifest is read, ended with the read; that of a killed one runs out."""
    ticket = lease_if_needed(store, duration_ms, reader)
    try:
        yield ticket
    finally:
        give_back(store, ticket)


def give_back(store: ObjectStore, ticket: LeaseTicket | None) -> None:
    """End a lease. One that may not be removed is made to run out now; if that fails, it runs out when it would have."""
    if ticket is None:
        return
    try:
        try:
            end_lease(store, ticket.uuid)
        except StoreDenied:
            expire_lease(store, ticket.uuid, _now_ms())
    except (StoreError, Corrupt) as error:
        _logger.warning("the lease of %s was not given back, it runs out by itself: %s", store.url, error)


def finish_task(store: ObjectStore, ticket: LeaseTicket, part: int, part_count: int) -> None:
    """Note that one of ``part_count`` tasks has read all of its rows; the last one ends the lease.

    A task that Spark runs again notes the same. Its objects stay for the broker's grace, as without a lease.
    """
    try:
        if finish_part(store, ticket.uuid, part, part_count):
            give_back(store, ticket)
    except (StoreError, Corrupt) as error:
        _logger.info("a lease of this query is left to run out: %s", error)


def keep_lease(store: ObjectStore, ticket: LeaseTicket | None) -> None:
    """Renew the query's lease if half of it is over; a task of a short query asks nothing of the bucket.

    A lease that has run out or cannot be renewed is reported and the task goes on: whether its objects are still there,
    it will see.
    """
    if ticket is None or _now_ms() < ticket.created_ms + ticket.duration_ms // 2:
        return
    try:
        renew_lease(store, ticket.uuid, ticket.duration_ms, _now_ms(), left_ms=ticket.duration_ms // 2)
    except LeaseExpired as error:
        _logger.warning(
            "%s. Records that retention has removed since may be missing; a longer option 'leaseSeconds' helps", error
        )
    except StoreError as error:
        _logger.warning("the lease of this query was not renewed: %s", error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
