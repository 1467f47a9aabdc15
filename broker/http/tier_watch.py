"""Looks at every partition again and again while there are watchers, and remembers what is new for each of them.

The loop is never held for long: partitions are looked at in slices with a turn of the loop between them, only what has
changed is put into words and JSON, and rounds take at most a tenth of the loop's time however many partitions there
are. Without watchers it does not run.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct

from stratalog.broker.archive.beyond_archive import BeyondArchive
from stratalog.broker.archive.tiering import Tiering
from stratalog.broker.http.cluster_summary import ClusterSummary
from stratalog.broker.http.tier_rows import BrokerFacts, PartitionFacts, RunningUpload, Totals, row, summary
from stratalog.broker.http.topic_figures import trash_of
from stratalog.broker.http.verification import Verification
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.views.mount import Mounted
from stratalog.tier.stores.source import source_length
from stratalog.wire.topic import TopicPartition

__all__ = ["ROUND_SECONDS", "WATCHERS_MAX", "Event", "TierWatch", "TooManyWatchers", "WatchServices", "Watcher"]

ROUND_SECONDS: Final = 0.5
"""The minimum time between two looks at the partitions, and between two events of a watcher."""
WATCHERS_MAX: Final = 32
_SLICE: Final = 16
_SHARE_OF_LOOP: Final = 10
ROWS_AN_EVENT: Final = 500
_SILENCE_SECONDS: Final = 10.0
"""After so long the summary is sent again: ages grow, and a watcher that is gone is noticed."""

log = logging.getLogger(__name__)


class TooManyWatchers(Exception):
    """So many watch already that one more would cost the broker too much."""


class Event(NamedTuple):
    """One server-sent event: its name, and its data as JSON text on one line."""

    name: str
    data: str


class _Seen(NamedTuple):
    facts: PartitionFacts
    row: dict[str, Any]
    text: str


class Watcher:
    """One stream of events. Its unsent news are kept by partition, so that being slow costs no memory."""

    def __init__(self, news: set[TopicPartition]) -> None:
        self.news = news
        self.changed = asyncio.Event()
        self.changed.set()
        self.closed = False
        self.told = ""
        """The summary it was sent last, without its time."""
        self.told_at = 0.0


class WatchServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that are looked at: the partitions that it leads, and those that it serves from a bucket."""

    config: BrokerConfig
    clock: Clock
    metrics: Metrics
    tiering: Tiering
    led: Iterable[UnifiedLog]
    mounted: Iterable[Mounted]
    cluster: Callable[[], ClusterSummary | None]
    """The cluster of several nodes that the broker belongs to; None if it is one by itself."""


class TierWatch:
    """Shared by all watchers."""

    def __init__(self, services: WatchServices) -> None:
        self._services = services
        self._seen: dict[TopicPartition, _Seen] = {}
        self._beyond = BeyondArchive()
        self._said: dict[str, Any] = {}
        self._watchers: set[Watcher] = set()
        self._looking: asyncio.Task[None] | None = None
        self._rounds: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._used_seconds = 0.0
        self._closed = False
        self.verification: Verification | None = None
        """The latest one that was reported to the broker."""

    # -- for the routes -------------------------------------------------------------------------------------------

    async def snapshot(self, topic: str | None = None) -> tuple[dict[str, Any], Iterator[str]]:
        """The summary, and the JSON of every partition (of one topic) in order; not older than one round."""
        await self._fresh()
        keys = sorted(key for key in self._seen if topic is None or key.topic == topic)
        return self._said, (self._seen[key].text for key in keys if key in self._seen)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of a watcher: first everything, then what changes. Raises `TooManyWatchers`.

        ``begin`` comes first and voids what was known; ``summary`` whenever it changes; ``rows`` with at most
        `ROWS_AN_EVENT` rows that are new or different (``rows``) and partitions that are no more (``gone``).
        """
        if self._closed or len(self._watchers) >= WATCHERS_MAX:
            raise TooManyWatchers(f"{WATCHERS_MAX} watch already")
        await self._fresh()
        watcher = Watcher(set(self._seen))
        self._watchers.add(watcher)
        try:
            yield Event("begin", json.dumps({"partitions": len(self._seen)}))
            if self._rounds is None:
                self._rounds = asyncio.get_running_loop().create_task(self._run())
            while not watcher.closed:
                await watcher.changed.wait()
                watcher.changed.clear()
                for event in self._news(watcher):
                    yield event
        finally:
            self._watchers.discard(watcher)

    def close(self) -> None:
        """End every stream, begin no other and look no more."""
        self._closed = True
        for task in (self._rounds, self._looking):
            if task is not None:
                task.cancel()
        for watcher in self._watchers:
            watcher.closed = True
            watcher.changed.set()

    # -- telling --------------------------------------------------------------------------------------------------

    def _news(self, watcher: Watcher) -> Iterator[Event]:
        now = self._services.clock.monotonic()
        text = json.dumps({**self._said, "now_ms": 0})
        if text != watcher.told or watcher.news or now - watcher.told_at >= _SILENCE_SECONDS:
            watcher.told, watcher.told_at = text, now
            yield Event("summary", json.dumps(self._said))
        news, watcher.news = sorted(watcher.news), set()
        for first in range(0, len(news), ROWS_AN_EVENT):
            some = news[first : first + ROWS_AN_EVENT]
            rows = ",".join(self._seen[key].text for key in some if key in self._seen)
            gone = [[key.topic, key.partition] for key in some if key not in self._seen]
            yield Event("rows", f'{{"rows":[{rows}],"gone":{json.dumps(gone)}}}')

    def _summary(self, totals: Totals) -> dict[str, Any]:
        services = self._services
        tiering, topics = services.tiering, services.metrics.topics.values()
        health, bucket, books = tiering.health, tiering.bucket_state, tiering.chunks.books
        running = tuple(
            RunningUpload(
                command.request.partition.topic,
                command.request.partition.partition,
                command.request.base,
                command.request.end,
                source_length(command.request.source),
                command.request.uploaded_ms,
            )
            for command in tiering.uploads.running
        )
        facts = BrokerFacts(
            now_ms=services.clock.wall_ms(),
            bucket_url=services.config.bucket_url,
            failing_since_ms=bucket.failing_since_ms,
            answered_ms=health.answered_ms,
            last_error=bucket.error,
            worker=tiering.worker,
            cache_used_bytes=books.used_bytes,
            cache_limit_bytes=books.limit_bytes,
            cache_hits=books.hits,
            cache_misses=books.misses,
            copy_errors=sum(one.remote_copy_errors for one in topics),
            fetch_errors=sum(one.remote_fetch_errors for one in topics),
            delete_errors=sum(one.remote_delete_errors for one in topics),
            read_back_ms=health.read_back_ms,
            uploads=running,
            uploads_waiting=tiering.uploads.waiting_count,
            verification=None if self.verification is None else self.verification._asdict(),
            read_only=services.config.boolean("stratalog.read.only"),
        )
        return {**summary(facts, totals), "cluster": services.cluster()}

    # -- looking --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """One round after the other while there are watchers."""
        try:
            while self._watchers:
                try:
                    await self._fresh()
                except Exception:
                    log.exception("the page of the tier could not be brought up to date; it is tried again")
                for watcher in self._watchers:
                    watcher.changed.set()
                await asyncio.sleep(max(ROUND_SECONDS, _SHARE_OF_LOOP * self._used_seconds))
        finally:
            self._rounds = None

    async def _fresh(self) -> None:
        """Look, unless another task just has or does."""
        if self._looking is None and self._services.clock.monotonic() - self._looked_at >= ROUND_SECONDS:
            self._looking = asyncio.get_running_loop().create_task(self._look())
            self._looking.add_done_callback(self._looked)
        if self._looking is not None:
            await asyncio.shield(self._looking)

    def _looked(self, _: asyncio.Task[None]) -> None:
        self._looking = None

    async def _look(self) -> None:
        totals, present = Totals(), set()
        now = self._services.clock.monotonic
        used, began = 0.0, now()
        for number, facts in enumerate(self._all_facts(), 1):
            key = TopicPartition(facts.topic, facts.partition)
            present.add(key)
            seen = self._seen.get(key)
            if seen is None or seen.facts != facts:
                said = row(facts)
                seen = self._seen[key] = _Seen(facts, said, json.dumps(said, separators=(",", ":")))
                self._tell(key)
            totals.add(seen.row)
            if number % _SLICE == 0:
                used += now() - began
                await asyncio.sleep(0)
                began = now()
        for key in self._seen.keys() - present:
            del self._seen[key]
            self._tell(key)
        self._beyond.keep(present)
        self._said = self._summary(totals)
        self._looked_at = now()
        self._used_seconds = used + self._looked_at - began

    def _tell(self, key: TopicPartition) -> None:
        for watcher in self._watchers:
            watcher.news.add(key)

    def _all_facts(self) -> Iterator[PartitionFacts]:
        """The facts of every partition that is led here, and of every one that is served from a mounted bucket."""
        yield from map(self._facts, self._services.led)
        yield from map(_mounted_facts, self._services.mounted)

    def _facts(self, unified: UnifiedLog) -> PartitionFacts:
        log_, (topic, partition) = unified.log, unified.topic_partition
        facts = PartitionFacts(
            topic,
            partition,
            tiered=False,
            state="local",
            log_start=log_.log_start_offset,
            local_start=log_.local_log_start_offset,
            remote_start=0,
            remote_end=0,
            active_start=log_.active_base_offset,
            log_end=log_.log_end_offset,
            local_bytes=log_.size_bytes,
            remote_bytes=0,
            objects=0,
            trouble=_trouble(unified),
        )
        facts = facts._replace(**self._role(unified))
        watched = self._services.tiering.watched(unified)
        if watched is None:
            return facts
        archive, state = watched
        if facts.state == "copy":
            return facts
        remote = archive.remote
        beyond = self._beyond.of(unified, remote.end_offset, archive.due_end)
        return facts._replace(
            tiered=True,
            state=state,
            remote_start=remote.start_offset,
            remote_end=remote.end_offset,
            remote_bytes=remote.size_bytes,
            objects=remote.object_count,
            waiting_bytes=beyond.waiting_bytes,
            waiting_since_ms=beyond.waiting_since_ms,
            risk_since_ms=beyond.risk_since_ms,
            read_back=archive.evictable_offset,
            due_end=archive.due_end,
            trash=trash_of(archive),
            copying=log_.config.remote_storage_enable and not log_.config.remote_copy_disable,
            trouble=facts.trouble or (archive.corrupt or ""),
        )

    def _role(self, unified: UnifiedLog) -> dict[str, Any]:
        """Leader or copy. A copy lets go only of what is in the bucket: that is where the offsets before its local start are."""
        partition, log_ = unified.partition, unified.log
        if partition.follower is not None:
            return {
                "state": "copy",
                "leader": partition.follower.leader_id,
                "tiered": log_.config.remote_storage_enable,
                "copying": False,
                "remote_start": log_.log_start_offset,
                "remote_end": log_.local_log_start_offset,
            }
        if partition.leader is None:
            return {}
        state = partition.leader.state
        replicas, in_sync = tuple(sorted(state.replicas)), tuple(sorted(state.in_sync))
        return {"leader": self._services.config.node_id, "replicas": replicas, "in_sync": in_sync}


def _mounted_facts(mounted: Mounted) -> PartitionFacts:
    """All of it is in the bucket, and nothing is to go there."""
    log_, remote, (topic, partition) = mounted.unified.log, mounted.remote, mounted.unified.topic_partition
    end, held_back = log_.log_end_offset, mounted.partition.held_back
    return PartitionFacts(
        topic,
        partition,
        tiered=True,
        state="mounted",
        log_start=log_.log_start_offset,
        local_start=end,
        remote_start=remote.start_offset,
        remote_end=remote.end_offset,
        active_start=end,
        log_end=end,
        local_bytes=0,
        remote_bytes=remote.size_bytes,
        objects=remote.object_count,
        copying=False,
        trouble="" if held_back is None else f"it cannot be served: {held_back}",
    )


def _trouble(unified: UnifiedLog) -> str:
    offline = unified.partition.directory.offline
    return "" if offline is None else f"its log directory is offline: {offline}"
