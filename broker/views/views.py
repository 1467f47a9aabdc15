"""Topics as they were: opened when a client asks for ``topic@cut`` or ``topic@time``, for reading only.

A view is no topic of the cluster: it is in no image, in no list of topics, and nothing can be done to it but to ask for
its metadata and offsets and to fetch. Everything it shows is in the bucket. A few views are kept open, those asked for
last; a request for another one opens it again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from msgspec import Struct

from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.manifest_views import RemoteViews
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import SearchBatch, UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import TopicMetrics
from stratalog.broker.views.archived_log import LEADER_EPOCH, archived_log, wake_readers
from stratalog.broker.views.bounded_archive import BoundedArchive, TailFile
from stratalog.broker.workers.io_worker import Submit, ask
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import PartitionImage, TopicImage
from stratalog.tier.bucket.view_names import ViewName, parse_view_name
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages import commands
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError, Retriable
from stratalog.wire.topic import TopicPartition, Uuid, base_topic

__all__ = ["Leaders", "ViewServices", "Views"]

_OPEN_MAX: Final = 32
_CUT_CHECKED_MS: Final = 60_000
"""So long a cut is believed to be there still."""
_AT_ONCE: Final = 32
_TAIL_BYTES_MAX: Final = 1 << 30
"""The tails of all open views together; one view alone may have more."""

log = logging.getLogger(__name__)


class _View:
    """An open view; ``cut_id`` is empty for one of a time. ``shown_id`` is the id of the topic that it shows."""

    __slots__ = ("checked_ms", "cut_id", "partitions", "shown_id", "tail_bytes", "topic")

    def __init__(
        self,
        topic: TopicImage,
        partitions: Sequence[UnifiedLog],
        cut_id: str,
        shown_id: Uuid,
        tail_bytes: int,
        checked_ms: int,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.cut_id = cut_id
        self.shown_id = shown_id
        self.tail_bytes = tail_bytes
        self.checked_ms = checked_ms


class Leaders(Protocol):
    """Other brokers, as `stratalog.broker.replication.leader_ends.LeaderEnds` asks them."""

    async def ends_at(self, timestamp_ms: int, archived: Mapping[PartitionId, int], /) -> dict[PartitionId, int]:
        """The first offset of that time or later in each partition, or the end of its log. Raises `KafkaError`."""


class ViewServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that views use. ``wake`` looks again at the requests that wait for a partition."""

    node_id: int
    clock: Clock
    image: Callable[[], ClusterImage]
    partitions: PartitionTable
    submit: Submit
    chunks: ChunkFiles
    search: SearchBatch
    wake: Callable[[UnifiedLog], object]
    leaders: Leaders | None = None
    """None for a broker that is a cluster by itself."""


class Views:
    """The views of one broker."""

    def __init__(self, services: ViewServices) -> None:
        self._services = services
        self._open: OrderedDict[str, _View] = OrderedDict()
        self._names: dict[Uuid, str] = {}
        self._turn = asyncio.Lock()
        self._ranges = RemoteViews()

    def is_view(self, name: str) -> bool:
        """Whether a name asks for a view; that of a topic never does."""
        return parse_view_name(name) is not None and name not in self._services.image().topics.by_name

    def access_name(self, name: str) -> str:
        """The topic whose rules of access hold for a name."""
        return name if name in self._services.image().topics.by_name else base_topic(name)

    def to_open(self, name: str) -> bool:
        """Whether a name is that of a view that has to be opened, or looked at again, before it is described."""
        if not self.is_view(name):
            return False
        view = self._open.get(name)
        if view is None:
            return True
        if view.cut_id:
            return self._now_ms() - view.checked_ms >= _CUT_CHECKED_MS
        topic = self._services.image().topics.by_name.get(base_topic(name))
        return topic is None or topic.topic_id != view.shown_id  # it was deleted, and may have been made again

    def find(self, name: str) -> TopicImage | None:
        """An open view by its name."""
        view = self._open.get(name)
        if view is None:
            return None
        self._open.move_to_end(name)
        return view.topic

    def find_by_id(self, topic_id: Uuid) -> TopicImage | None:
        """An open view by the id that clients have of it."""
        name = self._names.get(topic_id)
        return None if name is None else self.find(name)

    async def open(self, name: str) -> ErrorCode:
        """Open a view; the code of the answer to the caller. Failures are logged."""
        wanted = parse_view_name(name)
        if wanted is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async with self._turn:
            if not self.to_open(name):
                return ErrorCode.NONE
            try:
                await (self._open_cut(name, wanted) if wanted.cut is not None else self._open_time(name, wanted))
            except KafkaError as error:
                self._close(name)
                log.warning("%s cannot be shown: %s", name, error.message)
                return error.code
            except OSError as error:
                log.error("%s cannot be shown: its last records cannot be kept in a file: %s", name, error)
                return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.NONE

    # -- opening ----------------------------------------------------------------------------------------------------

    async def _open_cut(self, name: str, wanted: ViewName) -> None:
        report = await ask(self._services.submit, commands.ReadCut(wanted.cut or "", wanted.topic))
        if not isinstance(report, commands.CutRead):
            raise _refusal(report)
        cut, view = report.cut, self._open.get(name)
        if view is not None and view.cut_id == cut.cut_id:
            view.checked_ms = self._now_ms()
            return
        topic = cut.topic(wanted.topic)
        members = [] if topic is None else [one for one in cut.partitions if one.partition.topic_id == topic.topic_id]
        asked = [
            commands.ReadBoundedView(
                one.partition, one.end_offset, None, cut.manifest_key(one.partition) if one.seq else "", one.sha256
            )
            for one in members
        ]
        await self._show(name, wanted, asked, cut.cut_id)

    async def _open_time(self, name: str, wanted: ViewName) -> None:
        topic = self._services.image().topics.by_name.get(wanted.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.topic}")
        asked = [
            commands.ReadBoundedView(PartitionId(topic.name, topic.topic_id, number), timestamp_ms=wanted.timestamp_ms)
            for number in topic.partitions
        ]
        await self._show(name, wanted, asked, "")

    async def _check_covered(self, timestamp_ms: int, read: Mapping[PartitionId, commands.BoundedViewRead]) -> None:
        """Raises if records of before that time are on a local disk only: on that of the leader, whichever broker it is.

        They are never shown: retention and compaction change what is there, and a view does not change. A mount knows
        nothing else than the bucket.
        """
        table, elsewhere, ends = self._services.partitions, dict[PartitionId, int](), dict[PartitionId, int]()
        for partition, report in read.items():
            name = TopicPartition(partition.topic, partition.partition)
            if report.covered or table.has_view(*name):
                continue
            led = table.get(name)
            if led is None or led.partition.leader is None or led.topic_id != partition.topic_id:
                elsewhere[partition] = report.end_offset
            elif led.log.log_end_offset > report.end_offset:
                ends[partition] = await self._end_of(led, timestamp_ms)
        if elsewhere:
            if self._services.leaders is None:
                why = f"the log of {next(iter(elsewhere))} is not open: it may have records that are not archived"
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, why)
            ends |= await self._services.leaders.ends_at(timestamp_ms, elsewhere)
        for partition, end in ends.items():
            _check_archived(partition, read[partition].end_offset, end)

    async def _end_of(self, led: UnifiedLog, timestamp_ms: int) -> int:
        """The end of the records of before a time in a log that is led here."""
        try:
            found = await led.find_timestamp(timestamp_ms, committed=False, search=self._services.search)
        except (Corrupt, OSError, Retriable) as error:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{led.topic_partition}: {error}") from error
        return led.log.log_end_offset if found is None else found.offset

    async def _read(
        self, asked: Sequence[commands.ReadBoundedView], wanted: ViewName
    ) -> dict[PartitionId, commands.BoundedViewRead]:
        """Read the views of some partitions. Raises `KafkaError`."""
        reports = await asyncio.gather(*(ask(self._services.submit, one) for one in asked))
        read: dict[PartitionId, commands.BoundedViewRead] = {}
        for command, report in zip(asked, reports, strict=True):
            if not isinstance(report, commands.BoundedViewRead):
                raise _refusal(report)
            read[command.partition] = report
        if wanted.cut is None:
            await self._check_covered(wanted.timestamp_ms or 0, read)
        return read

    async def _show(self, name: str, wanted: ViewName, asked: Sequence[commands.ReadBoundedView], cut_id: str) -> None:
        """Read the views of partitions, some at a time, and show them when all are there. Raises `KafkaError`, `OSError`."""
        shown_id = asked[0].partition.topic_id if asked else b""
        topic_id = _view_id(name, cut_id, shown_id)
        tails = TailFile()
        partitions: list[UnifiedLog] = []
        try:
            for start in range(0, len(asked), _AT_ONCE):
                some = asked[start : start + _AT_ONCE]
                read = await self._read(some, wanted)
                for command in some:
                    report = read[command.partition]
                    partitions.append(self._partition(name, topic_id, command, report, tails))
                    await asyncio.sleep(0)  # each may write megabytes
        except BaseException:
            _end_reads(partitions)  # their ranges would stay in memory, and their file open
            raise
        node_id = self._services.node_id
        state = PartitionImage((node_id,), (node_id,), leader=node_id, leader_epoch=LEADER_EPOCH)
        numbers = {one.topic_partition.partition: state for one in partitions}
        topic = TopicImage(name, topic_id, MappingProxyType(numbers))
        self._close(name)
        self._open[name] = _View(topic, partitions, cut_id, shown_id, tails.size_bytes, self._now_ms())
        self._names[topic_id] = name
        for unified in partitions:
            self._services.partitions.add_view(unified)
        log.info("%s shows %s in %d partitions", name, wanted.topic, len(partitions))
        self._close_oldest()

    def _close_oldest(self) -> None:
        while len(self._open) > _OPEN_MAX or (
            len(self._open) > 1 and sum(view.tail_bytes for view in self._open.values()) > _TAIL_BYTES_MAX
        ):
            self._close(next(iter(self._open)))

    def _partition(
        self,
        name: str,
        topic_id: Uuid,
        command: commands.ReadBoundedView,
        report: commands.BoundedViewRead,
        tails: TailFile,
    ) -> UnifiedLog:
        services, metrics = self._services, TopicMetrics()
        archive = BoundedArchive(
            command,
            submit=services.submit,
            chunks=services.chunks,
            metrics=metrics,
            wake=lambda: wake_readers(unified),
            now_ms=self._now_ms,
            ranges=self._ranges,
        )
        number = command.partition.partition
        unified = archived_log(TopicPartition(name, number), topic_id, archive, metrics, now_ms=self._now_ms)
        unified.partition.watchers.add(lambda: services.wake(unified))
        archive.take(report, tails)
        return unified

    def _close(self, name: str) -> None:
        view = self._open.pop(name, None)
        if view is None:
            return
        del self._names[view.topic.topic_id]
        for unified in view.partitions:
            self._services.partitions.remove_view(unified)
        _end_reads(view.partitions)

    def _now_ms(self) -> int:
        return int(self._services.clock.monotonic() * 1000)


def _end_reads(partitions: Iterable[UnifiedLog]) -> None:
    """Keep nothing for the readers of partitions that are shown no longer."""
    for unified in partitions:
        if unified.remote is not None:
            unified.remote.end_reads()


def _refusal(report: commands.Report) -> KafkaError:
    """The answer where a view cannot be read: unknown if it is not there, else to come again."""
    missing = isinstance(report, commands.MissingReport)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else ErrorCode.LEADER_NOT_AVAILABLE
    return KafkaError(code, getattr(report, "message", str(report)))


def _check_archived(partition: PartitionId, archived: int, end: int) -> None:
    """Raises if the records of before a time go on behind what is archived."""
    if end > archived:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"offsets [{archived}, {end}) of {partition} are from before that time and on the local disk of its leader "
            f"only, and a view shows what is in the bucket: ask again when they are archived (stratalog tier status "
            f"{partition.topic}; segment.ms says when at the latest a segment is sealed), or read {partition.topic} "
            f"itself up to offset {end}",
        )


def _view_id(name: str, cut_id: str, topic_id: Uuid) -> Uuid:
    """The same for the same view, whichever broker shows it; never one that prints with a leading dash."""
    digest = hashlib.sha256(b"\0".join((name.encode(), cut_id.encode(), topic_id))).digest()[:16]
    return bytes([digest[0] & 0x7F]) + digest[1:]
