"""The lease of one planned read: written before any manifest is read, renewed by its tasks, ended by time.

Spark tells a Python source neither when a query ends nor when it is given up, so a lease runs out by itself. Tasks
of a long query renew it when half of it is over. A bucket that this job may only read gets no lease: then objects
that retention removes are kept for no longer than the broker's grace, and a warning says so.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import Final, NamedTuple

from stratalog.tier.leases import LeaseExpired, renew_lease, write_lease
from stratalog.tier.store import ObjectStore, StoreDenied, StoreError, UnsupportedOperation
from stratalog.wire.topic import Uuid

__all__ = ["LeaseTicket", "keep_lease", "take_lease"]

_UUID_BYTES: Final = 16

_logger = logging.getLogger("stratalog.spark")


class LeaseTicket(NamedTuple):
    """What a task needs to renew the lease of its query; times by the driver's clock, in ms since 1970."""

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


def keep_lease(store: ObjectStore, ticket: LeaseTicket | None) -> None:
    """Renew the query's lease if half of it is over; a task of a short query asks nothing of the bucket.

    A lease that has run out or cannot be renewed is told and the task goes on: whether its objects are still there,
    it will see.
    """
    if ticket is None or _now_ms() < ticket.created_ms + ticket.duration_ms // 2:
        return
    try:
        renew_lease(store, ticket.uuid, ticket.duration_ms, _now_ms(), left_ms=ticket.duration_ms // 2)
    except LeaseExpired as error:
        _logger.warning(
            "%s. What retention has removed since may be missing; a longer option 'leaseSeconds' helps", error
        )
    except StoreError as error:
        _logger.warning("the lease of this query was not renewed: %s", error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
