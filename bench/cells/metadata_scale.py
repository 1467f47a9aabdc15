"""A cluster of 100,000 partitions: what a change of one topic costs, what the image takes, and the longest step of all.

The broker runs in this process and is its own controller. The partitions are other brokers', who never come: it knows them and
opens none of them, as each broker of a large cluster does with most. Times are CPU time of its event loop.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, TypeVar

from bench.cell import Cell, Line
from bench.cells.loop_turns import LoopTurns
from bench.outcome import Bound, Outcome, median
from bench.processes import pss_megabytes_of_tree
from bench.settings import Settings
from stratalog.broker.control.cluster_index import ClusterIndex
from stratalog.broker.embedded import EmbeddedBroker, LoopThread
from stratalog.client.admin import alter_topic_configs, create_topic, delete_topics
from stratalog.client.client import Client
from stratalog.metadata.controller.broker_changes import fencing_brokers
from stratalog.metadata.image.image import ClusterImage, ImageDelta, Provenance
from stratalog.metadata.image.snapshot import SnapshotId, read_snapshot, snapshot_steps
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.records.metadata import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from stratalog.wire.schema import Message

__all__ = ["CELL", "topics_of_others"]

SIZES: Final = (1_000, 10_000, 100_000)
PARTITIONS_A_TOPIC: Final = 10
_BROKERS: Final = (2, 3, 4)
_ROUNDS: Final = 20
_TOPICS_TOGETHER: Final = 100
_VALUES: Final = {False: "1000", True: "2000"}

_CHANGE = Line("metadata-change", "CPU of a change at 100,000 partitions / at 1,000, worst of four", Bound("<=", 1.5))
_INDEX = Line(
    "metadata-index", "us of CPU that the worst of four changes adds at a controller of 100,000", Bound("<=", 1000)
)
_LOAD = Line("metadata-load", "s of CPU to load and index a snapshot of 100,000 partitions", Bound("<=", 10))
_MEMORY = Line("metadata-memory", "bytes of PSS for each of 100,000 partitions, with the index", Bound("<=", 1024))
_STEP = Line("metadata-step", "ms of CPU in the longest step: load, snapshot, fence, publish", Bound("<=", 50))

T = TypeVar("T")


def topics_of_others(first: int, count: int) -> Iterator[Message]:
    """The records of ``count`` topics that other brokers lead."""
    for number in range(first, first + count):
        topic_id = os.urandom(16)
        yield TopicRecord(name=f"topic-{number:06}", topic_id=topic_id)
        for partition in range(PARTITIONS_A_TOPIC):
            leader = _BROKERS[(number + partition) % len(_BROKERS)]
            yield PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=[leader],
                isr=[leader],
                leader=leader,
                directories=[bytes([leader]) * 16],
            )


def _registrations() -> Iterator[Message]:
    for broker in _BROKERS:
        yield RegisterBrokerRecord(
            broker_id=broker,
            incarnation_id=bytes(16),
            broker_epoch=broker,
            end_points=[],
            features=[],
            rack=None,
            is_migrating_zk_broker=False,
            in_controlled_shutdown=False,
            fenced=False,
            log_dirs=[bytes([broker]) * 16],
        )


# -- the broker's way: a request, records, the log, the image, all who follow it ----------------------------------------------


class _Changes:
    """Changes of one topic at a running broker, each timed by the CPU time of its loop."""

    def __init__(self, broker: EmbeddedBroker, thread: LoopThread, turns: LoopTurns) -> None:
        self._broker = broker
        self._thread = thread
        self._turns = turns
        self._count = 0

    def grow(self, total: int) -> None:
        """Give the cluster topics of others until it has ``total`` partitions."""
        have = self._broker.node.image.topics.partition_count // PARTITIONS_A_TOPIC
        for first in range(have, total // PARTITIONS_A_TOPIC, _TOPICS_TOGETHER):
            self._write(*topics_of_others(first, _TOPICS_TOGETHER))

    def _write(self, *records: Message) -> None:
        self._thread.run(lambda: self._broker.node.control.write(records))

    def measure(self, client: Client) -> dict[str, float]:
        """Milliseconds of CPU for each kind of change, the median of some."""
        kinds: dict[str, Callable[[int], object]] = {
            "create": lambda number: create_topic(client, f"new-{number}", partition_count=1),
            "config": lambda number: alter_topic_configs(
                client, "topic-000001", set_to={"retention.ms": _VALUES[number % 2 == 0]}
            ),
            "leader": lambda number: self._write(self._moved(number)),
            "delete": lambda number: delete_topics(client, [f"new-{number}"]),
        }
        taken: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(_ROUNDS):
            self._count += 1
            for name, change in kinds.items():
                self._turns.reset()
                change(self._count)
                taken[name].append(self._turns.total_ms)
        return {name: median(times) for name, times in taken.items()}

    def _moved(self, number: int) -> PartitionChangeRecord:
        topic = self._broker.node.image.topics.by_name[f"topic-{number % 50:06}"]
        return PartitionChangeRecord(topic_id=topic.topic_id, partition_id=1, leader=_BROKERS[number % len(_BROKERS)])


def _changes(settings: Settings) -> tuple[dict[int, dict[str, float]], float]:
    """CPU of each kind of change at each size, and the longest turn of the loop while the cluster grew."""
    thread, turns = LoopThread(), LoopTurns()
    found: dict[int, dict[str, float]] = {}
    with settings.folder(settings.memory) as folder:
        broker = EmbeddedBroker(str(folder), thread).start()
        try:
            turns.watch(thread)
            changes = _Changes(broker, thread, turns)
            longest_ms = 0.0
            for size in SIZES:
                turns.reset()
                changes.grow(size)
                longest_ms = max(longest_ms, turns.longest_ms)
                gc.collect()
                gc.freeze()
                with Client(f"127.0.0.1:{broker.port}", 60.0) as client:
                    changes.measure(client)  # what is looked up once is looked up here
                    found[size] = changes.measure(client)
                told = ", ".join(f"{name} {taken:.2f}" for name, taken in found[size].items())
                print(f"  {size:,} partitions: ms of CPU: {told}", file=sys.stderr)
        finally:
            broker.discard()
            thread.close()
            gc.unfreeze()
    return found, longest_ms


# -- the controller's and the loader's way, without a broker -------------------------------------------------------------------


class _Steps:
    """Carries works out and notes the CPU time of their longest step.

    Without the collector, which looks at the objects of this process: a broker freezes those that stay.
    """

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}

    def run(self, name: str, steps: Generator[Any, None, T]) -> T:
        """Carry ``steps`` out."""
        gc.disable()
        try:
            return self._run(name, steps)
        finally:
            gc.enable()

    def _run(self, name: str, steps: Generator[Any, None, T]) -> T:
        while True:
            begun = time.process_time()
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                taken = (time.process_time() - begun) * 1e3
                self.longest[name] = max(self.longest.get(name, 0.0), taken)


def _large_image(count: int) -> ClusterImage:
    image = ClusterImage().apply(_registrations())
    return image.apply(topics_of_others(0, count // PARTITIONS_A_TOPIC), Provenance(1, 1, 1))


def _resolver(_image: ClusterImage) -> ConfigResolver:
    return ConfigResolver.for_topics({})


def _index_us(index: ClusterIndex, image: ClusterImage) -> float:
    """Microseconds that the index takes for the worst of four changes; it is left as it was."""
    topic = image.topics.by_name["topic-000003"]
    changes = (
        list(topics_of_others(900_000, 1)),
        [PartitionChangeRecord(topic_id=topic.topic_id, partition_id=1, leader=-1)],
        [RemoveTopicRecord(topic_id=topic.topic_id)],
    )
    worst = 0.0
    for records in changes:
        taken = []
        for _ in range(_ROUNDS):
            delta = ImageDelta(image)
            for record in records:
                delta.replay(record)
            begun = time.process_time()
            index.index.after(image, delta, delta.build(Provenance(2, 1, 1)))
            taken.append((time.process_time() - begun) * 1e6)
        worst = max(worst, median(taken))
    return worst


def _load(content: bytes, steps: _Steps) -> tuple[float, float, ClusterIndex, ClusterImage]:
    """CPU seconds and bytes a partition of an image and its index that come from a snapshot."""
    gc.collect()
    before, begun = pss_megabytes_of_tree(os.getpid()), time.process_time()
    image = read_snapshot(content, SnapshotId(2, 1))
    index = ClusterIndex(_resolver)
    steps.run("index", index.following(image, None))
    seconds = time.process_time() - begun
    return seconds, (pss_megabytes_of_tree(os.getpid()) - before) * 1e6 / SIZES[-1], index, image


def _fence(index: ClusterIndex, image: ClusterImage, steps: _Steps) -> None:
    """Decide to fence a broker that leads a third of all, and apply what one batch of that says."""
    decision = steps.run("fence", fencing_brokers(index.view(image), (_BROKERS[0],)))
    delta = ImageDelta(image)
    for record in decision.records[:2000]:
        delta.replay(record)
    fenced = steps.run("image", delta.building(Provenance(3, 1, 1)))
    steps.run("index", index.following(fenced, delta))


def _measure(settings: Settings) -> list[Outcome]:
    steps = _Steps()
    written = _large_image(SIZES[-1])  # kept: to let go of it is no part of a step
    content = b"".join(steps.run("snapshot", snapshot_steps(written)))
    seconds, size_bytes, index, image = _load(content, steps)
    index_us = _index_us(index, image)
    _fence(index, image, steps)
    del index, image, content, written
    found, longest_ms = _changes(settings)
    steps.longest["turn"] = longest_ms
    ratios = {name: found[SIZES[-1]][name] / found[SIZES[0]][name] for name in found[SIZES[0]]}
    slowest = max(steps.longest, key=steps.longest.__getitem__)
    details = {f"{name}-{size}": taken for size, kinds in found.items() for name, taken in kinds.items()}
    change = _CHANGE.outcome(max(ratios.values()), **ratios, **details)
    change.note = f"{max(ratios, key=ratios.__getitem__)} a topic; {PARTITIONS_A_TOPIC} partitions a topic"
    step = _STEP.outcome(steps.longest[slowest], **steps.longest)
    step.note = slowest
    return [change, _INDEX.outcome(index_us), _LOAD.outcome(seconds), _MEMORY.outcome(size_bytes), step]


CELL = Cell("metadata-scale", (_CHANGE, _INDEX, _LOAD, _MEMORY, _STEP), _measure)
