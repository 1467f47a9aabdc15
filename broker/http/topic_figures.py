"""The figures of topics' archives on ``/metrics``: sums over the partitions of this broker, made on demand.

Kafka's own names where Kafka has one: ``RemoteDeleteLag`` is what lies in the trash, ``RemoteCopyLag`` what is frozen and due
and not uploaded yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from stratalog.broker.archive.beyond_archive import Beyond, BeyondArchive
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.http.tier_rows import Trash
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP
from stratalog.broker.runtime.metrics import Metrics, TopicMetrics

if TYPE_CHECKING:
    from stratalog.broker.archive.partition_archive import Archive
    from stratalog.broker.views.mount import Mounted

__all__ = ["TopicFigures", "trash_of"]

_PARTITIONS_A_STEP: Final = 64
"""A refresh may pause after so many."""


class _Sums(Struct):
    """The gauges of `TopicMetrics` with these names."""

    remote_copy_lag_bytes: int = 0
    remote_copy_lag_segments: int = 0
    remote_log_metadata_count: int = 0
    remote_log_size_bytes: int = 0

    def add(self, remote: RemotePartition, beyond: Beyond) -> None:
        """Count the archive of one partition in."""
        self.remote_log_size_bytes += remote.size_bytes
        self.remote_log_metadata_count += remote.object_count
        self.remote_copy_lag_segments += beyond.waiting_segments
        self.remote_copy_lag_bytes += beyond.waiting_bytes


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

    def refresh(self) -> Iterator[None]:
        """Add up what is known now; the bucket is not asked. It yields where it may pause.

        The sums replace those before when all are there: two scrapes may be under way.
        """
        sums: defaultdict[str, _Sums] = defaultdict(_Sums)
        trash: defaultdict[str, Trash] = defaultdict(Trash)
        archives = list(self._archives())
        for number, archive in enumerate(archives):
            if number % _PARTITIONS_A_STEP == 0:
                yield
            unified, remote = archive.unified, archive.remote
            config, name = unified.log.config, unified.topic_partition.topic
            copying = config.remote_storage_enable and not config.remote_copy_disable
            beyond = self._beyond.of(unified, remote.end_offset, archive.due_end) if copying else Beyond()
            sums[name].add(remote, beyond)
            trash[name] = trash[name].plus(trash_of(archive))
        yield
        self._beyond.keep({archive.unified.topic_partition for archive in archives})
        for one in self._mounted():
            sums[one.unified.topic_partition.topic].add(one.remote, Beyond())
        self._trash = dict(trash)
        for number, (name, topic) in enumerate(list(self._metrics.topics.items())):
            if number % LOOKS_A_STEP == 0:
                yield
            _show(topic, sums.get(name, _NOTHING), trash.get(name, Trash()))


_NOTHING: Final = _Sums()


def _show(topic: TopicMetrics, sums: _Sums, trash: Trash) -> None:
    topic.remote_log_size_bytes = sums.remote_log_size_bytes
    topic.remote_log_metadata_count = sums.remote_log_metadata_count
    topic.remote_copy_lag_segments = sums.remote_copy_lag_segments
    topic.remote_copy_lag_bytes = sums.remote_copy_lag_bytes
    topic.remote_delete_lag_segments = trash.items
    topic.remote_delete_lag_bytes = trash.size_bytes
