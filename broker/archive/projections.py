"""The bucket's descriptions of itself, of the cluster and of each
topic: written once a run, and again when they change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.workers.io_worker import Submit
from stratalog.tier.messages import commands
from stratalog.tier.messages.projection import cluster_projection, format_projection
from stratalog.tier.stores.backoff import Backoff, BackoffSettings

__all__ = ["Projections"]

_FORMAT: Final = "/format"
_CLUSTER: Final = "/cluster"
"""No topic has such a name."""
_PAUSES: Final = BackoffSettings(5_000, 600_000)

log = logging.getLogger(__name__)


class _Failed(Struct):
    """A description that could not be written, and what was logged about it last."""

    pause: Backoff
    told: str = ""


class Projections:
    """The descriptions that one run of a broker writes. ``topic`` makes that of a partition's topic."""

    def __init__(
        self,
        submit: Submit,
        cluster_id: str,
        incarnation: Callable[[], int],
        topic: Callable[[UnifiedLog], commands.WriteProjection],
        elapsed_ms: Callable[[], int],
    ) -> None:
        self._submit = submit
        self._cluster_id = cluster_id
        self._incarnation = incarnation
        self._topic = topic
        self._elapsed_ms = elapsed_ms
        self._written: set[str] = set()
        self._failed: dict[str, _Failed] = {}

    def write(self, unified: UnifiedLog) -> None:
        """Write the missing descriptions for the topic of a partition that is archived; called a few times a second."""
        topic = unified.topic_partition.topic
        if self._written.issuperset((_FORMAT, _CLUSTER, topic)):
            return
        self._write(_FORMAT, format_projection)
        self._write(_CLUSTER, lambda: cluster_projection(self._cluster_id, self._incarnation()))
        self._write(topic, lambda: self._topic(unified))

    def topic_changed(self, topic: str) -> None:
        """Write a topic's description again after its settings changed."""
        self._written.discard(topic)
        self._failed.pop(topic, None)

    def _write(self, name: str, made: Callable[[], commands.WriteProjection]) -> None:
        if name in self._written:
            return
        failed = self._failed.get(name)
        if failed is not None and not failed.pause.may_start(self._elapsed_ms()):
            return
        self._written.add(name)
        projection = made()

        def answered(report: commands.Report) -> None:
            if isinstance(report, commands.Written):
                self._failed.pop(name, None)
            else:
                self._again_later(name, projection.key, getattr(report, "message", str(report)))

        self._submit(projection, answered)

    def _again_later(self, name: str, key: str, message: str) -> None:
        """Only this description, and after a pause: it may be damaged for good in a bucket that is sound."""
        self._written.discard(name)
        failed = self._failed.setdefault(name, _Failed(Backoff()))
        failed.pause.fail(_PAUSES, 1.0, self._elapsed_ms())
        if message != failed.told:
            failed.told = message
            log.warning("%s was not written to the bucket; it is tried again later: %s", key, message)
