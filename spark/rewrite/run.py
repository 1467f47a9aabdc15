"""The driver's side of a rewriting run: listed in every partition before anything is read, kept listed, and ended.

As long as it is listed, nothing that its tasks read leaves the bucket, no objects are merged, and no other run begins.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection
from types import TracebackType
from typing import Final, Self

from stratalog.spark.rewrite.part import changed
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.jobs import JobRefused
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import Job
from stratalog.tier.manifests.runs import RunStruckOff, begin_run, end_run, renew_run
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import StratalogError
from stratalog.wire.topic import Uuid

__all__ = ["RUN_MS", "RewriteRun"]

RUN_MS: Final = 30 * 60 * 1000
"""A run that was not renewed for so long, and the skew of clocks, is dead."""
_LOOK_SECONDS: Final = 60.0

_logger = logging.getLogger("stratalog.spark")


class RewriteRun:
    """One run over some partitions. Leaving the context ends it wherever it is still listed."""

    def __init__(
        self, store: ObjectStore, kind: str, *, take_over: bool = False, look_seconds: float = _LOOK_SECONDS
    ) -> None:
        self.uuid: Uuid = os.urandom(16)
        self._store = store
        self._kind = kind
        self._take_over = take_over
        self._look_seconds = look_seconds
        self._lock = threading.Lock()
        self._listed: dict[PartitionId, int] = {}  # when it is to be renewed
        self._over = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="stratalog-run", daemon=True)

    def __enter__(self) -> Self:
        self._renewing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._renewing.join()
        for partition in list(self._listed):
            try:
                self.finish(partition)
            except RunStruckOff:
                continue
            except StratalogError as problem:
                _logger.warning("%s: the run was not ended, it runs out by itself: %s", partition, problem)

    def begin(self, partition: PartitionId) -> Manifest:
        """List the run; the manifest then. Raises `RunUnderWay`, `JobRefused`, and what the store raises."""
        now_ms = _now_ms()
        job = Job(self.uuid, self._kind, now_ms, now_ms + RUN_MS)
        stored = changed(
            self._store,
            partition,
            lambda manifest: begin_run(manifest, job, now_ms=now_ms, take_over=self._take_over),
            self.uuid,
        )
        with self._lock:
            self._listed[partition] = now_ms + RUN_MS // 3
        return stored.manifest

    def finish(self, partition: PartitionId, clean_offset: int = 0, clean: Collection[Uuid] = ()) -> None:
        """End the run in a partition, which is compacted up to ``clean_offset`` if the ``clean`` objects are all below it.

        Raises `JobRefused` if they are not, `RunStruckOff`, and what the store raises.
        """
        changed(
            self._store,
            partition,
            lambda manifest: end_run(
                manifest,
                self.uuid,
                now_ms=_now_ms(),
                clean_offset=clean_offset,
                live=_live_below(self._store, manifest, clean_offset),
                clean=clean,
            ),
            self.uuid,
        )
        with self._lock:
            self._listed.pop(partition, None)

    def _renew(self) -> None:
        while not self._over.wait(self._look_seconds):
            now_ms = _now_ms()
            with self._lock:
                due = [partition for partition, at_ms in self._listed.items() if at_ms <= now_ms]
            for partition in due:
                self._renew_one(partition, now_ms)

    def _renew_one(self, partition: PartitionId, now_ms: int) -> None:
        try:
            changed(
                self._store,
                partition,
                lambda manifest: renew_run(manifest, self.uuid, now_ms + RUN_MS, now_ms=now_ms),
                self.uuid,
            )
        except JobRefused as error:
            _logger.warning("%s", error)
            with self._lock:
                self._listed.pop(partition, None)
            return
        except StratalogError as error:
            _logger.warning("%s: the run was not renewed, this is tried again: %s", partition, error)
            return
        with self._lock:
            if partition in self._listed:
                self._listed[partition] = now_ms + RUN_MS // 3


def _live_below(store: ObjectStore, manifest: Manifest, offset: int) -> list[Entry]:
    """The live entries below an offset; none are read where none are asked for."""
    found: list[Entry] = []
    for entry in iter_entries(store, manifest) if offset > manifest.archive_clean_offset else ():
        if entry.base >= offset:
            break
        found.append(entry)
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
