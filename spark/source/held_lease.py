"""The lease of an opened archive: taken before the first manifest is read, renewed while rows are read, given back.

A lease that has run out protects nothing of what was planned under it, so the next plan takes a new one. Given back or
forgotten, it ends by time at the latest.
"""

from __future__ import annotations

import logging
import threading
import time

from stratalog.spark.source.read_lease import LeaseTicket, give_back, has_topics, take_lease
from stratalog.tier.manifests.leases import LeaseExpired, renew_lease
from stratalog.tier.stores.store import ObjectStore, StoreError

__all__ = ["HeldLease"]

_logger = logging.getLogger("stratalog.spark")


class HeldLease:
    """One lease for all reads of an opened archive, of ``duration_ms`` after each renewal; 0 is no lease at all.

    Any thread may call any method.
    """

    def __init__(self, store: ObjectStore, duration_ms: int) -> None:
        self._store = store
        self._duration_ms = duration_ms
        self._lock = threading.Lock()
        self._ticket: LeaseTicket | None = None
        self._expires_ms = self._look_ms = -1

    def take(self) -> None:
        """Make sure of a lease that is not half over; call it before a manifest is read. Raises what the store raises."""
        with self._lock:
            now_ms = _now_ms()
            self._renew(now_ms)
            if self._duration_ms and now_ms >= self._expires_ms and has_topics(self._store):
                self._ticket = take_lease(self._store, self._duration_ms, "stratalog.open")
                self._set(now_ms + self._duration_ms)

    def keep(self) -> None:
        """Renew the lease if half of it is over; else this looks at the clock and nothing more.

        A lease that cannot be renewed is reported, and tried again; whether its objects are still there, the reader sees.
        """
        with self._lock:
            self._renew(_now_ms())

    def give_back(self) -> None:
        """End the lease; one that cannot be removed ends by time, with a warning."""
        with self._lock:
            ticket, self._ticket, self._expires_ms = self._ticket, None, -1
            give_back(self._store, ticket)

    def _renew(self, now_ms: int) -> None:
        if self._ticket is None or now_ms < self._look_ms:
            return
        uuid, half_ms = self._ticket.uuid, self._duration_ms // 2
        try:
            self._set(renew_lease(self._store, uuid, self._duration_ms, now_ms, left_ms=half_ms).expires_ms)
        except LeaseExpired as error:
            self._ticket, self._expires_ms = None, -1  # the next plan takes another one
            _logger.warning("%s. Records that retention has removed since may be missing", error)
        except StoreError as error:
            self._look_ms = now_ms + self._duration_ms // 16
            _logger.warning("the lease of this read was not renewed: %s", error)

    def _set(self, expires_ms: int) -> None:
        self._expires_ms = expires_ms
        self._look_ms = expires_ms - self._duration_ms // 2


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
