"""The bucket's descriptions of itself, of the cluster and of each
topic: written once a run, and again when they change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.workers.io_worker import Submit
from stratalog.tier.messages import commands
from stratalog.tier.messages.projection import cluster_projection, format_projection

__all__ = ["Projections"]

log = logging.getLogger(__name__)


class Projections:
    """The descriptions that one run of a broker writes. ``topic`` makes that of a partition's topic."""

    def __init__(
        self,
        submit: Submit,
        cluster_id: str,
        incarnation: Callable[[], int],
        topic: Callable[[UnifiedLog], commands.WriteProjection],
    ) -> None:
        self._submit = submit
        self._cluster_id = cluster_id
        self._incarnation = incarnation
        self._topic = topic
        self._written: set[str] = set()

    def write(self, unified: UnifiedLog) -> None:
        """Write the missing descriptions for the topic of a partition that is archived."""
        topic = unified.topic_partition.topic
        if topic in self._written:
            return
        if not self._written:
            self._send(format_projection())
            self._send(cluster_projection(self._cluster_id, self._incarnation()))
        self._written.add(topic)
        self._send(self._topic(unified))

    def topic_changed(self, topic: str) -> None:
        """Write a topic's description again after its settings changed."""
        self._written.discard(topic)

    def _send(self, projection: commands.WriteProjection) -> None:
        def answered(report: commands.Report) -> None:
            if not isinstance(report, commands.Written):
                log.warning(
                    "%s was not written to the bucket; it is tried again later: %s",
                    projection.key,
                    getattr(report, "message", report),
                )
                self._written.clear()

        self._submit(projection, answered)
