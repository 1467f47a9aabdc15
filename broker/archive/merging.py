"""Orders merges of small archived objects: one partition at a time, and only if it has grown since the last look."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.workers.io_worker import Submit
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands

__all__ = ["Merging"]

_UUID_BYTES: Final = 16
_EXPIRY_MS: Final = 3_600_000
"""Age after which a merge without an end may be struck off."""

log = logging.getLogger(__name__)


class _Looked(NamedTuple):
    at_ms: int
    object_count: int


class Merging:
    """The knowledge about each partition's small objects: when they were
    looked for, and how many objects there were.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        *,
        cluster_id: str,
        submit: Submit,
        now_ms: Callable[[], int],
        elapsed_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._submit = submit
        self._now_ms = now_ms
        self._elapsed_ms = elapsed_ms
        self._looked: dict[RemotePartition, _Looked] = {}
        self._running: RemotePartition | None = None
        self.merged_objects = 0
        """How many objects were replaced by larger ones."""

    def look(
        self, remote: RemotePartition, partition: PartitionId, claimant: Claimant, *, storage_class: str = ""
    ) -> None:
        """Merge small objects of a partition whose archive is held by ``claimant``, if it is time and worth a look."""
        objects_min = self._config().integer("stratalog.merge.objects.min")
        facts = remote.facts
        if not objects_min or facts is None or self._running is not None:
            return
        now_ms = self._elapsed_ms()
        looked = self._looked.setdefault(remote, _Looked(now_ms, 0))
        due = now_ms - looked.at_ms >= self._config().integer("stratalog.merge.interval.ms")
        if due and facts.totals.segments - looked.object_count >= objects_min:
            self._merge(remote, partition, claimant, storage_class)

    def forget(self, remote: RemotePartition) -> None:
        """Forget a partition that is no longer led here."""
        self._looked.pop(remote, None)
        if self._running is remote:
            self._running = None

    def _merge(self, remote: RemotePartition, partition: PartitionId, claimant: Claimant, storage_class: str) -> None:
        self._running = remote
        command = commands.MergeObjects(
            partition,
            claimant,
            os.urandom(_UUID_BYTES),
            self._config().integer("stratalog.merge.objects.min"),
            self._config().integer("stratalog.merge.bytes.max"),
            self._now_ms(),
            self._now_ms() + _EXPIRY_MS,
            self._cluster_id,
            storage_class,
        )

        def answered(report: commands.Report) -> None:
            if self._running is not remote:
                return
            self._running = None
            if isinstance(report, commands.ObjectsMerged):
                remote.apply(report.view)
                if report.object_count:
                    self._merged(partition, report)
                    self._merge(remote, partition, claimant, storage_class)
                    return
            else:
                message = getattr(report, "message", report)
                log.warning("%s: small objects were not merged, this is tried again later: %s", partition, message)
            facts = remote.facts
            count = 0 if facts is None or not isinstance(report, commands.ObjectsMerged) else facts.totals.segments
            self._looked[remote] = _Looked(self._elapsed_ms(), count)

        self._submit(command, answered)

    def _merged(self, partition: PartitionId, report: commands.ObjectsMerged) -> None:
        self.merged_objects += report.object_count
        log.info(
            "%s: %d small objects were merged into one of %d bytes", partition, report.object_count, report.data_bytes
        )
