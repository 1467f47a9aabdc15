"""The figures of topics' archives on ``/metrics``: sums over the partitions of this broker, made on demand.

Kafka's own names where Kafka has one: ``RemoteDeleteLag`` is what lies in the trash, ``RemoteCopyLag`` what is frozen and due
and not uploaded yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from stratalog.broker.archive.beyond_archive import Beyond, BeyondArchive
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.http.tier_rows import Trash
from stratalog.broker.runtime.metrics import Metrics, TopicMetrics

if TYPE_CHECKING:
    from stratalog.broker.archive.partition_archive import Archive
    from stratalog.broker.views.mount import Mounted

__all__ = ["TopicFigures", "trash_of"]

_GAUGES = (
    "remote_copy_lag_bytes",
    "remote_copy_lag_segments",
    "remote_delete_lag_bytes",
    "remote_delete_lag_segments",
    "remote_log_metadata_count",
    "remote_log_size_bytes",
)


def trash_of(archive: Archive) -> Trash:
    """The trash of one partition's archive, and its jobs, as far as is known."""
    facts = archive.remote.facts
    if facts is None:
        return Trash()
    return Trash(
        facts.trash_count, facts.trash_bytes, min(archive.removal.leased_count, facts.trash_count), facts.job_count
    )


class TopicFigures:
    """``archives`` are those of partitions that are led here, ``mounted`` those that are only read."""

    def __init__(
        self,
        metrics: Metrics,
        archives: Callable[[], Collection[Archive]],
        mounted: Callable[[], Iterable[Mounted]],
    ) -> None:
        self._metrics = metrics
        self._archives = archives
        self._mounted = mounted
        self._beyond = BeyondArchive()
        self._trash: dict[str, Trash] = {}
        metrics.before_collecting(self.refresh)
        for name, text, value in (
            (
                "leased_trash_items",
                "Items of the trash that may go but for leases of readers",
                lambda one: one.leased_items,
            ),
            ("jobs", "Jobs listed in manifests: merges, and what repairs have set aside", lambda one: one.jobs),
        ):
            metrics.add_gauge(f"stratalog_tier_{name}", f"{text}, by topic.", self._samples(value))

    def _samples(self, value: Callable[[Trash], int]) -> Callable[[], list[tuple[dict[str, str], float]]]:
        return lambda: [({"topic": topic}, value(trash)) for topic, trash in self._trash.items()]

    def refresh(self) -> None:
        """Add up what is known now; the bucket is not asked."""
        trash: defaultdict[str, Trash] = defaultdict(Trash)
        for topic in self._metrics.topics.values():
            for name in _GAUGES:
                setattr(topic, name, 0)
        for archive in self._archives():
            unified, remote = archive.unified, archive.remote
            name = unified.topic_partition.topic
            mine = trash_of(archive)
            trash[name] = trash[name].plus(mine)
            beyond = self._beyond.of(unified, remote.end_offset, archive.due_end)
            config = unified.log.config
            copying = config.remote_storage_enable and not config.remote_copy_disable
            _add(unified.metrics, remote, mine, beyond if copying else Beyond())
        self._beyond.keep({archive.unified.topic_partition for archive in self._archives()})
        for one in self._mounted():
            _add(one.unified.metrics, one.remote, Trash(), Beyond())
        self._trash = dict(trash)


def _add(metrics: TopicMetrics, remote: RemotePartition, trash: Trash, beyond: Beyond) -> None:
    metrics.remote_log_size_bytes += remote.size_bytes
    metrics.remote_log_metadata_count += remote.object_count
    metrics.remote_delete_lag_segments += trash.items
    metrics.remote_delete_lag_bytes += trash.size_bytes
    metrics.remote_copy_lag_segments += beyond.waiting_segments
    metrics.remote_copy_lag_bytes += beyond.waiting_bytes
