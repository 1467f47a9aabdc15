"""A shard that is a dictionary, and a partition to keep it in."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stratalog.broker.coordinators.shard_driver import DriverServices, ShardDriver
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.tick import Tick
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.coordination import CoordinatorRecord, Reply, Write
from stratalog.wire.topic import TopicPartition


@dataclass
class Token:
    """A request that remembers its answers."""

    answers: list[Any] = field(default_factory=list)

    def respond(self, response: Any) -> None:
        self.answers.append(response)

    def fail(self, error: Any) -> None:
        self.answers.append(error.code)


@dataclass
class Put:
    """Set keys and answer when they are safe."""

    token: Token
    values: dict[bytes, bytes]
    producer: Any = None
    then: tuple = ()
    divisible: bool = False


@dataclass
class Get:
    """Answer with everything; ``durable`` as in `Reply`."""

    token: Token
    durable: bool = False


@dataclass
class Park:
    """Wait until the shard is dropped, or the deadline comes."""

    token: Token
    deadline_ms: int | None = None


class Keys:
    """The shard."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.pending: dict[Any, dict[bytes, bytes]] = {}
        self.heard: list[Any] = []
        self.waiting: list[Park] = []
        self.is_loaded = False

    def replay(self, key, value, *, offset, producer) -> None:
        target = self.values if producer is None else self.pending.setdefault(producer, {})
        if value is None:
            target.pop(key, None)
        else:
            target[key] = value

    def replay_marker(self, producer, *, commit, offset) -> None:
        values = self.pending.pop(producer, {})
        if commit:
            self.values.update(values)

    def loaded(self, now):
        self.is_loaded = True
        return []

    def step(self, event, now):
        if isinstance(event, Put):
            for key, value in event.values.items():
                self.replay(key, value, offset=-1, producer=event.producer)
            records = [CoordinatorRecord(key, value) for key, value in event.values.items()]
            return [Write(records, [Reply(event.token, "done")], event.producer, event.then, divisible=event.divisible)]
        if isinstance(event, Get):
            return [Reply(event.token, dict(self.values), event.durable)]
        if isinstance(event, Park):
            self.waiting.append(event)
            return []
        self.heard.append(event)
        if isinstance(event, tuple) and event[0] == "ended":
            self.replay_marker(event[1], commit=event[2], offset=-1)
        return []

    def deadline(self):
        return min((one.deadline_ms for one in self.waiting if one.deadline_ms is not None), default=None)

    def due(self, now):
        late = [one for one in self.waiting if one.deadline_ms is not None and one.deadline_ms <= now.monotonic_ms]
        self.waiting = [one for one in self.waiting if one not in late]
        return [Reply(one.token, "late") for one in late]

    def parked(self):
        return [one.token for one in self.waiting]


class Rig:
    """A driver over a real log in a folder."""

    def __init__(self, folder, files) -> None:
        self.folder = str(folder)
        self.files = files
        self.threads = ThreadPoolExecutor(1)
        self.open()

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        tick = Tick(loop)
        clock = SystemClock()
        writer = DirectoryWriter(
            self.folder, loop=loop, tick=tick, sync_threads=self.threads, on_failed=lambda *_: None
        )
        log = Log.open(
            f"{self.folder}/keys-0",
            TopicPartition("keys", 0),
            bytes(16),
            LogConfig(flush_messages=1 << 60),
            files=self.files,
            now_ms=clock.wall_ms(),
            clean=True,
        )
        self.partition = Partition(
            log,
            directory=writer,
            high_watermark=log.log_end_offset,
            clock=clock,
            rework=lambda *_: None,
        )
        self.partition.lead(0, 3, replicas=[0], in_sync=[0])
        self.performed = []
        self.active = []
        services = DriverServices(
            clock=clock,
            tick=tick,
            perform=lambda driver, action: self.performed.append(action),
            on_active=self.active.append,
        )
        unified = SimpleNamespace(topic_partition=log.topic_partition, partition=self.partition, log=log)
        self.unified = unified
        self.driver = ShardDriver(unified, lambda _: Keys(), services, asyncio.Semaphore(1))

    async def loaded(self) -> ShardDriver:
        self.driver.load()
        await self.until(lambda: self.driver.active)
        return self.driver

    async def until(self, condition) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - conditions of all kinds
                await asyncio.sleep(0.001)

    async def reopen(self) -> ShardDriver:
        self.driver.close()
        self.partition.close()
        self.partition.log.close()
        self.open()
        return await self.loaded()


@pytest.fixture
async def rig(tmp_path):
    """A driver whose shard is not loaded yet."""
    made = Rig(tmp_path, RealFilesystem())
    yield made
    made.driver.close()
    made.partition.close()
    made.threads.shutdown()


@pytest.fixture
def events():
    """The events and tokens of the shard that is a dictionary."""
    return SimpleNamespace(Put=Put, Get=Get, Park=Park, Token=Token, Keys=Keys)


@pytest.fixture
def scraped():
    """The figures that ``add`` shows of some shards, as a scrape at each of these moments has them; the last."""

    def look(add, shards, *times, wall_ms=0):
        metrics, clock = Metrics(), SimpleNamespace(now=0.0, wall_ms=lambda: wall_ms)
        clock.monotonic = lambda: clock.now
        drivers = [SimpleNamespace(shard=shard) for shard in shards]
        ceiling = SimpleNamespace(name="some.max", refused=0)
        add(metrics, SimpleNamespace(drivers=lambda: drivers, ceilings=(ceiling,), ceiling=ceiling), clock)
        for clock.now in times:
            text = metrics.render().decode()
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    return look
