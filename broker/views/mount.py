"""A bucket served for reading: its topics become topics of this broker, whose records all stay where they are.

At the start the bucket is listed and every manifest read; from then on manifests are read again, when they have
changed, every few seconds for partitions that clients ask for, in turns for the others, and the list of topics now and
then. The broker's own metadata, in which the topics are entered, and its groups are local; nothing is written to the
bucket.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.manifest_views import RemoteViews
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.views.archived_log import LEADER_EPOCH, ArchivedPartition, archived_log, wake_readers
from stratalog.broker.workers.io_worker import Submit, ask
from stratalog.metadata.image.configs_image import ResourceType
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topic_names import check_topic_name, is_internal
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.metadata.settings.by_name import topic_definitions
from stratalog.metadata.settings.configs import ConfigError
from stratalog.tier.bucket.catalogue import ArchivedTopic, Catalogue
from stratalog.tier.manifests.view import NO_ENTRIES
from stratalog.tier.messages import commands
from stratalog.wire.errors import Invalid, KafkaError
from stratalog.wire.records.metadata import ConfigRecord, RemoveTopicRecord, TopicRecord
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["Mount", "MountServices", "Mounted"]

_ROUND_SECONDS: Final = 1.0
_CATALOGUE_ROUNDS: Final = 30
"""Rounds from one listing of the bucket to the next."""
_ASKED_MS: Final = 30_000
"""So long after a client has asked for it a partition's manifest is looked at in every `_STALE_MS`."""
_STALE_MS: Final = 3_000
_OTHERS_A_ROUND: Final = 64
"""Manifests of partitions without readers, looked at in one round."""
_LOADS_AT_ONCE: Final = 64
_RECORDS_AT_ONCE: Final = 2_000
_TOPICS_A_TURN: Final = 1_000

log = logging.getLogger(__name__)


class MountServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that a mount uses.

    ``write`` writes records to the metadata log and raises `KafkaError`; ``wake`` looks again at the requests that wait
    for a partition.
    """

    config: BrokerConfig
    clock: Clock
    metrics: Metrics
    image: Callable[[], ClusterImage]
    write: Callable[[tuple[Message, ...]], Awaitable[None]]
    partitions: PartitionTable
    submit: Submit
    chunks: ChunkFiles
    wake: Callable[[UnifiedLog], object]


class Mounted:
    """One partition: its archive, what readers see, and when its manifest was last looked at."""

    __slots__ = ("looked_ms", "partition", "remote", "unified")

    def __init__(self, unified: UnifiedLog, partition: ArchivedPartition, remote: RemotePartition) -> None:
        self.unified = unified
        self.partition = partition
        self.remote = remote
        self.looked_ms = -_STALE_MS


class Mount:
    """The part of a bucket that a read-only broker serves; empty for any other broker."""

    def __init__(self, services: MountServices) -> None:
        self._services = services
        self._topics: dict[Uuid, ArchivedTopic] = {}
        self._unwritten: dict[Uuid, None] = {}
        """Topics about which the metadata may not say what `_topics` does: a write may fail, and is tried again."""
        self._partitions: dict[TopicPartition, Mounted] = {}
        self._turn: Iterator[Mounted] = iter(())
        self._views = RemoteViews()
        self._following: asyncio.Task[None] | None = None
        self._told: frozenset[str] = frozenset()

    def holds(self, topic_id: Uuid) -> bool:
        """Whether a topic is one of the bucket, or was one until just now: then no log of it is opened here."""
        return topic_id in self._topics or topic_id in self._unwritten

    def __iter__(self) -> Iterator[Mounted]:
        """The partitions that are served from the bucket."""
        return iter(list(self._partitions.values()))

    async def start(self) -> None:
        """Enter the topics of the bucket and read every manifest, where the broker is to serve them.

        Raises `Invalid` if the bucket cannot be listed, or if an earlier run has left topics in ``log.dirs``.
        """
        if not self._services.config.boolean("stratalog.read.only"):
            return
        if self._services.image().topics.by_name:
            raise Invalid("stratalog.read.only needs log.dirs that are empty: these hold topics of an earlier run")
        report = await ask(self._services.submit, commands.ReadCatalogue())
        if not isinstance(report, commands.CatalogueRead):
            why = getattr(report, "message", str(report))
            raise Invalid(f"the bucket {self._services.config.bucket_url} cannot be mounted: {why}")
        await self._take(report.catalogue)
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Follow the bucket no longer."""
        task, self._following = self._following, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # -- topics ----------------------------------------------------------------------------------------------------

    async def _take(self, catalogue: Catalogue) -> None:
        """Enter what is new, let go of what is gone. Raises `KafkaError` if the local metadata cannot be written."""
        wanted: dict[Uuid, ArchivedTopic] = {}
        problems = set(catalogue.problems)
        for count, topic in enumerate(catalogue.topics, 1):
            why_not = _why_not(topic)
            if why_not is None:
                wanted[topic.topic_id] = topic
            elif why_not:
                problems.add(why_not)
            if count % _TOPICS_A_TURN == 0:
                await asyncio.sleep(0)
        for problem in sorted(problems - self._told):
            log.warning("%s", problem)
        self._told = frozenset(problems)
        for topic_id in [one for one in self._topics if one not in wanted]:
            self._unwritten[topic_id] = None
            self._leave(self._topics.pop(topic_id))
        await self._write()
        news = [(topic, self._topics.get(topic.topic_id)) for topic in wanted.values()]
        news = [(topic, known) for topic, known in news if topic != known]
        added: list[Mounted] = []
        for topic, known in news:
            self._unwritten[topic.topic_id] = None
            self._topics[topic.topic_id] = topic
            first = 0 if known is None else known.partition_count
            added += [self._mounted(topic, number) for number in range(first, topic.partition_count)]
        for start in range(0, len(added), _LOADS_AT_ONCE):
            await asyncio.gather(*map(self._load, added[start : start + _LOADS_AT_ONCE]))
        await self._write()

    def _leave(self, topic: ArchivedTopic) -> None:
        log.warning("topic %s is no longer in the bucket", topic.name)
        for number in range(topic.partition_count):
            mounted = self._partitions.pop(TopicPartition(topic.name, number), None)
            if mounted is not None:
                self._services.partitions.remove_view(mounted.unified)
                mounted.remote.end_reads()

    async def _write(self) -> None:
        """Bring the metadata to what they do not say yet. Raises `KafkaError`; what is left is for the next call."""
        asked, image, records = list(self._unwritten), self._services.image(), list[Message]()
        for topic_id in asked:
            topic = self._topics.get(topic_id)
            if topic is not None:
                records += _records(topic, image, self._services.config.node_id)
            elif topic_id in image.topics.by_id:
                records.append(RemoveTopicRecord(topic_id=topic_id))
        for start in range(0, len(records), _RECORDS_AT_ONCE):
            await self._services.write(tuple(records[start : start + _RECORDS_AT_ONCE]))
        for topic_id in asked:
            del self._unwritten[topic_id]

    def _mounted(self, topic: ArchivedTopic, number: int) -> Mounted:
        services = self._services
        name = TopicPartition(topic.name, number)
        remote = RemotePartition(
            topic.partition(number),
            submit=services.submit,
            chunks=services.chunks,
            metrics=services.metrics.topic(topic.name),
            wake=lambda: wake_readers(unified),
            now_ms=self._now_ms,
            views=self._views,
        )
        unified = archived_log(name, topic.topic_id, remote, services.metrics.topic(topic.name), now_ms=self._now_ms)
        partition = unified.partition
        assert isinstance(partition, ArchivedPartition)
        partition.watchers.add(lambda: services.wake(unified))
        mounted = self._partitions[name] = Mounted(unified, partition, remote)
        services.partitions.add_view(unified)
        return mounted

    # -- manifests -------------------------------------------------------------------------------------------------

    async def _load(self, mounted: Mounted) -> None:
        """Read a manifest for the first time; one that cannot be read is said to every client that asks."""
        mounted.looked_ms = self._now_ms()
        partition = self._topics[mounted.unified.topic_id].partition(mounted.unified.topic_partition.partition)
        report = await ask(self._services.submit, commands.ReadManifest(partition, known_end=NO_ENTRIES))
        if isinstance(report, commands.ManifestRead):
            mounted.remote.apply(report.view)
            mounted.partition.held_back = None
            return
        before, mounted.partition.held_back = mounted.partition.held_back, getattr(report, "message", str(report))
        if before != mounted.partition.held_back:
            log.error("%s cannot be served: %s", mounted.unified.topic_partition, mounted.partition.held_back)

    async def _follow(self) -> None:
        for number in itertools.count(1):
            await asyncio.sleep(_ROUND_SECONDS)
            try:
                await self._look()
                if number % _CATALOGUE_ROUNDS == 0:
                    await self._look_at_topics()
                elif self._unwritten:
                    await self._write()
            except KafkaError as error:
                log.error("news of the bucket could not be taken in; the next look tries again: %s", error)
            except Exception:  # a mistake in one partition may not keep all others as they are
                log.exception("news of the bucket could not be taken in; the next look tries again")

    async def _look(self) -> None:
        """Read manifests again whose turn it is."""
        now_ms = self._now_ms()
        due = [one for one in self._partitions.values() if one.partition.asked_ms >= now_ms - _ASKED_MS]
        due += islice(self._turn, _OTHERS_A_ROUND)
        if len(due) < _OTHERS_A_ROUND:
            self._turn = iter(list(self._partitions.values()))
        for mounted in due:
            is_gone = self._partitions.get(mounted.unified.topic_partition) is not mounted
            if is_gone or now_ms - mounted.looked_ms < _STALE_MS:
                continue
            mounted.looked_ms = now_ms
            if mounted.remote.known:
                mounted.remote.refresh(entries=False)
            else:
                await self._load(mounted)

    async def _look_at_topics(self) -> None:
        report = await ask(self._services.submit, commands.ReadCatalogue())
        if isinstance(report, commands.CatalogueRead):
            await self._take(report.catalogue)
        else:
            log.warning("the bucket could not be listed again: %s", getattr(report, "message", report))

    def _now_ms(self) -> int:
        return int(self._services.clock.monotonic() * 1000)


def _why_not(topic: ArchivedTopic) -> str | None:
    """Why a topic of the bucket cannot be one of this broker; empty for internal ones: a broker has its own. None if it can."""
    if is_internal(topic.name):
        return ""
    try:
        check_topic_name(topic.name)
    except KafkaError as error:
        return f"a topic of the bucket is left out: {error}"
    return None


def _records(topic: ArchivedTopic, image: ClusterImage, node_id: int) -> list[Message]:
    """The metadata records that ``image`` lacks of a topic, of its settings and its partitions."""
    known = image.topics.by_id.get(topic.topic_id)
    first = 0 if known is None else len(known.partitions)
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic.topic_id)] if known is None else []
    configs = {} if known is None else image.topic_configs(topic.name)
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in topic.configs.items()
        if configs.get(name) != value and _is_setting(name, value)
    ]
    state = PartitionImage((node_id,), (node_id,), leader=node_id, leader_epoch=LEADER_EPOCH)
    return records + [state.to_record(topic.topic_id, number) for number in range(first, topic.partition_count)]


def _is_setting(name: str, value: str) -> bool:
    """Whether this version knows the setting and takes its value."""
    row = topic_definitions().get(name)
    if row is None:
        return False
    try:
        row.parse(value)
    except ConfigError:
        return False
    return True
