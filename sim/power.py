"""The power goes at a named point: one story that passes every step of the archive, cut at one of them, told to its end.

The checks are those of every simulation: every acknowledged record once and in order, ranges that follow
each other, each object there, trash emptied, deleted topics gone. Then garbage is collected, and a verification of the
bucket has to find nothing: no object too few, none too many.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from sim.actors.admin import Admin
from sim.actors.link import LinkLost
from sim.actors.producers import IdempotentProducer
from sim.actors.readers import Reader
from sim.model import PartitionModel, TopicModel, Violation
from sim.plan import Plan
from sim.points import POINTS, trapped
from sim.trace import Trace
from sim.under.process import Process, current_process
from sim.under.remains import Mood
from sim.under.threads import Fiber
from sim.world import Outcome, World, run_seed
from stratalog.broker.settings.config import BrokerConfig
from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.leases import write_lease
from stratalog.tier.manifests.manifest import Manifest, claim
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.work.garbage_collection import GarbageOptions, collect, collect_leases
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

__all__ = ["NEVER_PASSED", "Story", "run_points"]

NEVER_PASSED: Final = "never passed"
_TOPIC: Final = 2
_HOUR_MS: Final = 3_600_000
_CACHE_BYTES: Final = 30_000
_MERGE_BYTES: Final = 12_000
_WAIT_SECONDS: Final = 60
_SMALL_PAGES: Final = {"INLINE_MAX": 4, "INLINE_KEPT": 2, "FANOUT": 3, "MERGED_ENTRIES_MAX": 18}
_EVER: Final = 1 << 62
_CONFIGS: Final = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "0",
    "internal.segment.bytes": "2000",
    "index.interval.bytes": "100",
    "retention.ms": "-1",
    "segment.ms": "1500",
}
_OFF: Final = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
_ON: Final = {"remote.storage.enable": "true", "remote.log.delete.on.disable": "false"}


class Story(Admin):
    """Four topics: ``kept`` is read and cut, ``aging`` expires, ``switched`` loses its archive, ``gone`` is deleted."""

    world: PowerWorld
    _writers = 0

    async def create_topics(self, count: int) -> None:
        """Make all four."""
        del count
        for name in ("kept", "aging", "switched", "gone"):
            retention = {"retention.ms": "4000"} if name == "aging" else {}
            await self.make_topic(name, 1, _CONFIGS | retention)

    async def run(self, changes: int) -> None:
        """Tell the story; power may go at any moment, every step is repeated until it is done."""
        del changes
        kept, aging, switched, gone = self.world.model.topics.values()
        for topic in (kept, switched, gone):
            while not self._manifest(topic).pages or self._manifest(topic).remote_end < 60:
                await self._write(topic)
        await self._restart(kept)
        await self._cut(kept, 0.3)
        await self._switch(switched, _OFF)
        await self._until(switched, lambda manifest: manifest.deleted_ms >= 0)
        await self._delete(gone)
        await self._until(switched, lambda manifest: not manifest.trash)
        await self._switch(switched, _ON)
        await self._write(switched)
        await self._until(switched, lambda manifest: manifest.deleted_ms < 0)
        self.world.clock.jump(2 * _HOUR_MS)  # what a dead merge protects is let go, and old enough for any clock
        await self._until(gone, lambda manifest: not manifest.seq)
        await asyncio.sleep(2)
        await self._restart(kept)
        self._leave_orphan(kept)
        await self._write(kept)
        await self._until(kept, lambda manifest: manifest.claimant.leader_epoch > 0)
        await self._collect_garbage()
        await self._cut(kept, 0.6)
        await self._until(aging, lambda manifest: manifest.log_start_offset > 0 or not manifest.totals.segments)
        await asyncio.sleep(3)
        await self._finish([kept, aging, switched])

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _manifest(self, topic: TopicModel) -> Manifest:
        return read_manifest(self.world.bucket.memory, PartitionId(topic.name, topic.topic_id, 0)).manifest

    async def _restart(self, topic: TopicModel) -> None:
        """Stop and start the broker, whose cache outlives that; the same of the archive is read before and after."""
        position = self._manifest(topic).remote_end // 2
        await self._read(topic, position)
        self.loop.trace.note(self.name, "has the broker restarted")
        self.world.stop_broker()
        await asyncio.sleep(1)
        await self._read(topic, position)
        await asyncio.sleep(1)

    async def _read(self, topic: TopicModel, position: int) -> None:
        (partition,) = topic.partitions
        reader = Reader(self.world, "story", self.dice)
        found: int | None = position
        while found is None or found == position:
            with suppress(LinkLost):
                found = await reader.fetch(partition, position)
            await asyncio.sleep(0.1)

    async def _until(self, topic: TopicModel, wanted: Callable[[Manifest], object]) -> None:
        until = self.loop.time() + _WAIT_SECONDS
        while not wanted(self._manifest(topic)):
            if self.loop.time() > until:
                raise Violation(f"{topic.name}: the archive does not get there: {self._manifest(topic)}")
            await asyncio.sleep(0.2)

    def _leave_orphan(self, topic: TopicModel) -> None:
        """Remains of an attempt of an earlier leadership."""
        partition = PartitionId(topic.name, topic.topic_id, 0)
        self.world.bucket.memory.put(partition.segment_key(0, 5, 0, bytes(15) + b"o"), b"an attempt")

    async def _cut(self, topic: TopicModel, share: float) -> None:
        """Delete records up to a share of what is archived."""
        (partition,) = topic.partitions
        offset = int(self._manifest(topic).remote_end * share)
        while partition.promised_start < offset:
            with suppress(LinkLost):
                await self.delete_records(partition, min(offset, partition.end))
            await asyncio.sleep(0.1)

    async def _delete(self, topic: TopicModel) -> None:
        while True:
            with suppress(LinkLost):
                await self.delete_topic(topic)
                return
            await asyncio.sleep(0.2)

    async def delete_topic(self, topic: TopicModel) -> None:
        """Ask again after a lost answer: the topic may be gone by then."""
        if not topic.deleting or await self._topic_id(topic.name) is not None:
            await super().delete_topic(topic)

    async def _switch(self, topic: TopicModel, configs: dict[str, str]) -> None:
        """Change settings; while the archive may go the log may begin where the local disk does."""
        (partition,) = topic.partitions
        topic.archive_may_go, partition.deleted_to = True, _EVER
        self.loop.trace.note(self.name, f"{topic.name}: {configs}")
        changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in configs.items()]
        resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=topic.name, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        while True:
            with suppress(LinkLost):
                code = ErrorCode((await self.call(request)).responses[0].error_code)
                if code is ErrorCode.NONE:
                    return
                if code is not ErrorCode.KAFKA_STORAGE_ERROR:
                    raise Violation(f"{self.name}: {topic.name} cannot be changed: {code.name}")
            await asyncio.sleep(0.2)

    async def _collect_garbage(self) -> None:
        """`stratalog tier gc --apply`, until it has come to its end; on the same machine, so the power is its, too."""
        now_ms = self.world.clock.wall_ms() + _HOUR_MS
        store = self.world.bucket.memory
        write_lease(store, bytes(16), 1, now_ms - 2 * _HOUR_MS)
        options = GarbageOptions(now_ms, 0, apply=True)
        while True:
            process = self.world.gc = Process("gc")
            self.world.buried.append(process)
            ended = asyncio.Event()
            process.on_death.append(ended.set)
            Fiber(
                self.loop,
                process,
                lambda: (list(collect(store, options)), collect_leases(store, options)),
                _told(ended),
            )
            await ended.wait()
            if process.alive:
                return

    async def _finish(self, topics: list[TopicModel]) -> None:
        """Every leader writes once more, so that each archive is claimed anew, and what is frozen gets there."""
        for topic in topics:
            await self._write(topic)
        for topic in topics:
            (partition,) = topic.partitions
            end = partition.end
            await self._until(topic, lambda manifest, end=end: manifest.remote_end >= end)  # type: ignore[misc]

    async def _write(self, topic: TopicModel) -> None:
        self._writers += 1
        await _Writer(self.world, f"w{self._writers}", self.dice, topic).run()


class _Writer(IdempotentProducer):
    """Writes a few bundles to one topic."""

    def __init__(self, world: World, name: str, dice: random.Random, topic: TopicModel) -> None:
        super().__init__(world, name, dice, rounds=4)
        self._topic = topic

    def pick(self) -> PartitionModel:
        """Always the same."""
        return self._topic.partitions[0]


def _told(ended: asyncio.Event) -> Callable[[Any, Exception | None], None]:
    def done(_: Any, error: Exception | None) -> None:
        if error is not None:
            raise error
        ended.set()

    return done


class PowerWorld(World):
    """A world without any fault but the one at the point."""

    admin_type = Story

    def __init__(self, seed: int, trace: Trace, directory: str, *, mood: Mood | None) -> None:
        super().__init__(seed, trace, directory)
        self.mood = mood
        self.gc: Process | None = None
        self.reached: list[str] = []

    def draw_plan(self, dice: random.Random) -> Plan:
        """The same for every seed, but for what happens when."""
        drawn = Plan.draw(dice)
        settings = drawn.settings | {
            "log.retention.check.interval.ms": "300",
            "log.flush.offset.checkpoint.interval.ms": "300",
            "log.segment.delete.delay.ms": "100",
            "remote.log.manager.task.retry.backoff.ms": "20",
            "stratalog.trash.grace.ms": "500",
            "stratalog.trash.check.interval.ms": "300",
            "stratalog.merge.interval.ms": "1000",
            "stratalog.merge.objects.min": "8",
        }
        return replace(
            drawn,
            topics=4,
            idempotent_producers=2,
            plain_producers=0,
            transactional_producers=0,
            classic_members=0,
            consumer_members=0,
            rounds=20,
            readers=1,
            unsynced=False,
            faults=0,
            settings=settings,
        )

    def config(self) -> BrokerConfig:
        """A cache of a few chunks, each smaller than the cache: less than settings allow."""
        config = super().config()
        values = {**config.values, "stratalog.merge.bytes.max": _MERGE_BYTES}
        return replace(config, cache_bytes_max=_CACHE_BYTES, values=values)

    def lose_power(self, name: str) -> None:
        """At the point: whatever runs on this machine is gone, and what was not synced."""
        self.reached.append(name)
        self.trace.note("power", f"is lost at {name}, {POINTS[name].what}")
        self.kill_broker()
        if self.gc is not None:
            self.gc.kill()
        if self.mood is not None:
            self.disk.cut_power(self.mood)
        current_process().check()

    def _claim_for_the_next(self, partition: PartitionId, now_ms: int) -> None:
        """Objects uploaded under the last claim and never committed are garbage from here on."""

        def claimed(manifest: Manifest) -> Manifest:
            mine = manifest.claimant._replace(leader_epoch=manifest.claimant.leader_epoch + 1, uuid=bytes(16))
            return claim(manifest, mine, now_ms=now_ms)

        change_manifest(self.bucket.memory, partition, claimed)

    def check_bucket(self) -> None:
        """After all, and after garbage was collected: no object too few, none too many. Raises `Violation`."""
        store, now_ms = self.bucket.memory, self.clock.wall_ms() + 24 * _HOUR_MS
        for topic in self.model.living():
            self._claim_for_the_next(PartitionId(topic.name, topic.topic_id, 0), now_ms)
        for found in collect(store, GarbageOptions(now_ms, 0, apply=True)):
            if found.problem:
                raise Violation(f"{found.partition} cannot be judged: {found.problem}")
        for report in verify_bucket(store, VerifyOptions(now_ms, 0, deep=True), threads=1):
            for anomaly in report.anomalies:
                raise Violation(f"the bucket is not clean: {anomaly}")


def run_points(
    names: Sequence[str],
    *,
    mood: Mood | None = Mood.DROP,
    seed: int = 1,
    nth: int = 0,
    out: Callable[[str], object] | None = None,
) -> Outcome:
    """Lose the power (without a ``mood``: only the processes) once at each of these points; ``nth`` as in `trapped`."""
    worlds: list[PowerWorld] = []

    def build(seed: int, trace: Trace, directory: str) -> World:
        worlds.append(PowerWorld(seed, trace, directory, mood=mood))
        return worlds[-1]

    with ExitStack() as stack:
        stack.enter_context(_small_pages())
        for name in names:
            stack.enter_context(trapped(name, lambda name=name: worlds[-1].lose_power(name), simulated=True, nth=nth))  # type: ignore[misc]
        outcome = run_seed(seed, out=out, build=build)
        if outcome.problem is None:
            outcome.problem = _problem(worlds[-1], names)
    return outcome


def _problem(world: PowerWorld, names: Sequence[str]) -> str | None:
    try:
        world.check_bucket()
    except Violation as error:
        return f"Violation: {error}"
    missed = [f"{name} ({POINTS[name].what})" for name in names if name not in world.reached]
    return f"{NEVER_PASSED}: {', '.join(missed)}" if missed else None


@contextmanager
def _small_pages() -> Iterator[None]:
    """Manifests that spill after a few entries."""
    before = {name: getattr(manifest_pages, name) for name in _SMALL_PAGES}
    undo = [partial(setattr, manifest_pages, name, value) for name, value in before.items()]
    for name, value in _SMALL_PAGES.items():
        setattr(manifest_pages, name, value)
    try:
        yield
    finally:
        for each in undo:
            each()
