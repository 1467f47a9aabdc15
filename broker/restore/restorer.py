"""Writes the data directory of a broker that begins again from its bucket.

Everything is built beside the directory's place and put there by one rename at the end: a restore that was broken
off leaves nothing that a broker could start on.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from stratalog.broker.archive.archived_ends import end_restored
from stratalog.broker.quorum.metadata_log import METADATA_LOG_CONFIG, store_quorum_state
from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.broker.replicas.log_settings import log_config
from stratalog.broker.restore.records import (
    OFFSETS_CONFIGS,
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    ClampedOffset,
    Range,
    RestoredTopic,
    batches_of,
    committed_offsets,
    metadata_records,
    usable_configs,
)
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.log.log import Log
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.state.producer_snapshot import snapshot_from_bytes
from stratalog.hot.storage.checkpoint import (
    MetaProperties,
    RemoteLogState,
    write_durably,
    write_meta_properties,
    write_remote_log,
)
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.controller.brokers import first_of_era_above
from stratalog.metadata.formatting.initial_voters import InitialVoter, quorum_of
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.image.snapshot import SnapshotId, snapshot_name
from stratalog.metadata.image.topic_names import CLUSTER_METADATA_TOPIC, is_internal
from stratalog.metadata.quorum.checkpoint import build_checkpoint
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.tier.care.restore_plan import ArchivedProducers, BucketState, PartitionState
from stratalog.tier.stores.store import NotFound
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["ControllerListener", "Producers", "RestoreReport", "Restorer", "check_target"]

_THREADS: Final = 8
_EPOCHS_A_TAKEOVER: Final = 1 << 16
"""More than a quorum, or a partition, has elections between two takeovers."""
_EPOCH_MAX: Final = 1 << 30
_TOGETHER: Final = 64
"""Logs whose files are open at one time."""
_NO_NAMES: Final = frozenset({"", ".", ".."})
"""Last parts of paths that cannot be renamed to."""

ProducersOf = Callable[[PartitionState], ArchivedProducers]


class ControllerListener(NamedTuple):
    """Where other nodes reach the restored one, which is the first voter of its quorum."""

    name: str
    host: str
    port: int


class Producers(NamedTuple):
    """The producers of one partition, the first id above theirs, and why there are none, if so."""

    archived: ArchivedProducers = ArchivedProducers()
    next_id: int = 0
    problem: str = ""


class RestoreReport(Struct):
    """The outcome of a restore, and its differences from before."""

    topics: int = 0
    partitions: int = 0
    remote_bytes: int = 0
    groups: int = 0
    clamped: list[ClampedOffset] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _without_internal(state: BucketState) -> tuple[BucketState, list[str]]:
    """The state without topics that would take the place of the broker's own logs, and a sentence about each of them."""
    refused = {one.name for one in state.topics if is_internal(one.name) or one.name == CLUSTER_METADATA_TOPIC}
    if not refused:
        return state, []
    topics = tuple(one for one in state.topics if one.name not in refused)
    partitions = tuple(one for one in state.partitions if one.partition.topic not in refused)
    said = [f"topic {name} is left out: a broker has an internal topic of this name" for name in sorted(refused)]
    return replace(state, topics=topics, partitions=partitions), said


def check_target(data: str, *others: str) -> None:
    """Raise `Invalid` unless a restored directory can be put in the place of ``data``, and all are empty or not there.

    ``others`` are made, or written to, once it stands there.
    """
    path = Path(data).absolute()
    _check_place(data, path)
    for one in (data, *others):
        if Path(one).exists() and (not Path(one).is_dir() or any(Path(one).iterdir())):
            raise Invalid(f"{one} is not empty: restore into a new directory, or move this one away")
    for one in (data, *others):
        place = Path(one).absolute()
        _check_writable(one, place.parents if place == path else (place, *place.parents))


def _check_place(data: str, path: Path) -> None:
    """Raise `Invalid` where a directory cannot be renamed to."""
    if data.rstrip("/").rpartition("/")[2] in _NO_NAMES:
        raise Invalid(
            f"{data} is no name of a directory, and a restored one is put in its place as a whole: name it as "
            f"{path.resolve()}, from another directory"
        )
    if path.is_symlink():
        raise Invalid(
            f"{data} is a symbolic link, and a restored directory is put in its place as a whole: restore into "
            f"{path.resolve()}, where the link leads"
        )
    if path.is_mount():
        raise Invalid(
            f"{data} is a mount point, and a restored directory is put in its place as a whole: restore into a new directory "
            f"below it, as {data.rstrip('/')}/data"
        )


def _check_writable(name: str, places: Iterable[Path]) -> None:
    """Raise `Invalid` unless ``name`` can be made, or written to, in the first of ``places`` that is there."""
    there = next(one for one in places if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise Invalid(f"{there} cannot be written to, which {name} needs: choose another directory")


class Restorer:
    """One restore. ``producers_of`` reads what a partition's archive knows of its producers, in several threads.

    Other nodes can join the restored one if ``controller`` says where; without it the node is a cluster by itself.
    """

    def __init__(
        self,
        state: BucketState,
        data: str,
        *,
        node_id: int,
        incarnation: int,
        now_ms: int,
        producers_of: ProducersOf,
        controller: ControllerListener | None = None,
        random_uuid: Callable[[], Uuid] = lambda: os.urandom(16),
    ) -> None:
        self._state, refused = _without_internal(state)
        self._data = data
        self._node_id = node_id
        self._incarnation = incarnation
        self._now_ms = now_ms
        self._producers_of = producers_of
        self._controller = controller
        self._random_uuid = random_uuid
        self._files = RealFilesystem()
        self._resolver = ConfigResolver.for_topics()
        self._next_producer_id = 0
        self._logs: dict[TopicPartition, Log] = {}
        self.report = RestoreReport(problems=[*state.problems, *refused])

    def run(self) -> RestoreReport:
        """Write the directory. Raises `Invalid` as `check_target`, `OSError`."""
        check_target(self._data)
        building = f"{self._data.rstrip('/')}.restoring-{self._random_uuid().hex()[:8]}"
        try:
            self._build(building)
            Path(self._data).parent.mkdir(parents=True, exist_ok=True)
            os.replace(building, self._data)  # noqa: PTH105 - paths are strings throughout
            self._files.sync_directory(str(Path(self._data).absolute().parent))
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        return self.report

    def _build(self, path: str) -> None:
        directory = LogDirectory.load(path, self._files)
        directory_id = self._printable_id()
        write_meta_properties(self._files, path, MetaProperties(self._state.cluster_id, self._node_id, directory_id))
        topics = list(self._topics())
        configs = {topic.name: log_config(self._resolver.resolve(topic.configs), random.Random(0)) for topic in topics}
        with ThreadPoolExecutor(_THREADS, "restore") as threads:
            self._restore_logs(directory, configs, threads)
            topics += self._restore_groups(directory, threads)
            self._write_metadata(directory, topics, directory_id, threads)
        directory.write_checkpoints(self._logs)
        directory.write_high_watermarks({name: log_.log_end_offset for name, log_ in self._logs.items()})
        write_remote_log(self._files, path, self._remote_logs())
        directory.close({}, broker_epoch=-1)

    def _topics(self) -> Iterator[RestoredTopic]:
        shown = {state.partition: state.leader_epoch for state in self._state.partitions}
        for topic in self._state.topics:
            configs, problems = usable_configs(topic.configs)
            self.report.problems += [f"topic {topic.name}: {problem}" for problem in problems]
            if not topic.described:
                configs = {"remote.storage.enable": "true"}
                self.report.problems.append(
                    f"topic {topic.name}: topic.json is missing or damaged: its settings are the defaults, its "
                    f"partitions the {topic.partition_count} that were found"
                )
            self.report.topics += 1
            yield RestoredTopic(
                topic.name,
                topic.topic_id,
                configs,
                [self._epoch(shown.get(topic.partition(number), -1)) for number in range(topic.partition_count)],
            )

    def _epoch(self, shown: int) -> int:
        """The leader epoch of a partition whose archive has ``shown`` one: above all that clients may have seen.

        A leader that archived nothing left no trace in the bucket, nor need the cluster of the last takeover have. Clients
        of Kafka keep what they know of a topic, the leader as well, for as long as they are answered with a lower epoch.
        """
        floor = (self._state.incarnation + 1) * _EPOCHS_A_TAKEOVER
        return max(shown, min(max(shown + _EPOCHS_A_TAKEOVER, floor), _EPOCH_MAX))

    # -- logs ---------------------------------------------------------------------------------------------------------

    def _restore_logs(
        self, directory: LogDirectory, configs: Mapping[str, LogConfig], threads: ThreadPoolExecutor
    ) -> None:
        """Every partition's log, at the end of its archive, with nothing but markers in it."""
        states = self._state.partitions
        for first in range(0, len(states), _TOGETHER):
            group = states[first : first + _TOGETHER]
            opened: list[Log] = []
            restarted = threads.map(lambda one: self._restart_log(directory, one, configs[one.partition.topic]), group)
            for state, (log_, producers) in zip(group, restarted, strict=True):
                self._logs[TopicPartition(state.partition.topic, state.partition.partition)] = log_
                self._next_producer_id = max(self._next_producer_id, producers.next_id)
                self.report.problems += [producers.problem] if producers.problem else []
                self.report.partitions += 1
                self.report.remote_bytes += state.manifest.totals.size_bytes
                opened.append(log_)
            self._close(opened, threads)

    def _read_producers(self, state: PartitionState) -> Producers:
        """The archive's memory of producers; without it their duplicates are not recognised."""
        if not state.manifest.seq:
            return Producers()
        try:
            archived = self._producers_of(state)
            entries = snapshot_from_bytes(archived.snapshot) if archived.snapshot else []
        except (Corrupt, NotFound) as error:
            return Producers(problem=f"{state.partition}: its producers are forgotten: {error}")
        return Producers(archived, max((entry.producer_id + 1 for entry in entries), default=0))

    def _restart_log(self, directory: LogDirectory, state: PartitionState, config: LogConfig) -> tuple[Log, Producers]:
        """One log, and who wrote to it; several are made side by side, for each waits for the disk three times.

        A transaction that is open at the archive's end gets the marker that it got behind that.
        """
        producers = self._read_producers(state)
        name = TopicPartition(state.partition.topic, state.partition.partition)
        log_ = directory.open_log(name, state.partition.topic_id, config, now_ms=self._now_ms)
        manifest = state.manifest
        if manifest.seq:
            epochs = [EpochEntry(*each) for each in manifest.leader_epochs]
            log_.truncate_fully_and_start_at(
                state.restart_offset, epochs, producers.archived.snapshot, log_start_offset=manifest.log_start_offset
            )
            # No comparison with the archive follows, which would end what is open in it.
            end_restored(log_, manifest.remote_end, producers.archived.aborted, now_ms=self._now_ms)
        return log_, producers

    def _close(self, logs: Sequence[Log], threads: ThreadPoolExecutor) -> None:
        """Sync side by side, and let the files go."""
        tickets = [(log_, ticket) for log_ in logs if (ticket := log_.begin_close()) is not None]
        for running in [threads.submit(ticket.run) for _, ticket in tickets]:
            running.result()
        for log_, ticket in tickets:
            log_.finish_sync(ticket)
        for log_ in logs:
            log_.abandon()

    def _remote_logs(self) -> dict[TopicPartition, RemoteLogState]:
        """So that a start needs no bucket, and does not compare with it."""
        return {
            TopicPartition(one.partition.topic, one.partition.partition): RemoteLogState(
                one.manifest.log_start_offset,
                one.manifest.remote_end,
                one.manifest.totals.size_bytes,
                one.manifest.seq,
            )
            for one in self._state.partitions
        }

    # -- groups -------------------------------------------------------------------------------------------------------

    def _restore_groups(self, directory: LogDirectory, threads: ThreadPoolExecutor) -> list[RestoredTopic]:
        """The offsets topic with what the bucket's copies say; nothing if there are none."""
        ranges = {
            TopicPartition(one.partition.topic, one.partition.partition): Range(
                one.partition.topic_id, one.manifest.log_start_offset, self._readable_end(one)
            )
            for one in self._state.partitions
        }
        rows, self.report.clamped = committed_offsets(self._state.groups, ranges, now_ms=self._now_ms)
        self.report.groups = len(self._state.groups)
        if not rows:
            return []
        topic_id = self._printable_id()
        config = log_config(self._resolver.resolve(OFFSETS_CONFIGS), random.Random(0))
        logs = []
        for number in range(OFFSETS_PARTITIONS):
            name = TopicPartition(OFFSETS_TOPIC, number)
            log_ = self._logs[name] = directory.open_log(name, topic_id, config, now_ms=self._now_ms)
            for batch in batches_of(rows.get(number, []), self._now_ms):
                log_.append_as_leader(batch, leader_epoch=0, now_ms=self._now_ms)
            logs.append(log_)
        self._close(logs, threads)
        return [RestoredTopic(OFFSETS_TOPIC, topic_id, OFFSETS_CONFIGS, [0] * OFFSETS_PARTITIONS)]

    def _readable_end(self, state: PartitionState) -> int:
        """Up to which offset a group may have come."""
        return state.restart_offset

    def _printable_id(self) -> Uuid:
        """One that does not print with a leading dash."""
        while True:
            topic_id = self._random_uuid()
            if topic_id[0] >> 2 != 62:
                return topic_id

    # -- metadata -----------------------------------------------------------------------------------------------------

    def _write_first_voter(self, metadata_log: str, controller: ControllerListener, directory_id: Uuid) -> None:
        """The checkpoint that ``format --standalone`` writes: a set of one voter, which changes by commands."""
        voter = InitialVoter(self._node_id, controller.host, controller.port, directory_id)
        content = build_checkpoint(
            (),
            quorum_of((voter,), controller.name),
            last_contained_timestamp_ms=self._now_ms,
            timestamp_ms=self._now_ms,
        )
        write_durably(self._files, f"{metadata_log}/{snapshot_name(SnapshotId(0, 0))}", content)

    def _write_metadata(
        self, directory: LogDirectory, topics: Sequence[RestoredTopic], directory_id: Uuid, threads: ThreadPoolExecutor
    ) -> None:
        log_ = directory.open_log(METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, now_ms=self._now_ms)
        epoch = 1
        if self._controller is None:
            state = QuorumState(leader_epoch=epoch, leader_id=self._node_id, voters=(self._node_id,))
        else:
            # Above all epochs of the old quorum, which has the same cluster id: where a node of it meets this one, their logs
            # part at the first record, and none takes records of both.
            epoch = min(1 + (self._state.incarnation + 1) * _EPOCHS_A_TAKEOVER, _EPOCH_MAX)
            state = QuorumState(leader_epoch=epoch, leader_id=self._node_id, data_version=1)
            self._write_first_voter(log_.directory, self._controller, directory_id)
        store_quorum_state(self._files, log_.directory, state)
        records = metadata_records(
            topics,
            node_id=self._node_id,
            directory_id=directory_id,
            incarnation=self._incarnation,
            # Producers that run on may have left no trace in the bucket: their ids were given out lately, or long ago.
            next_producer_id=first_of_era_above(self._next_producer_id, int.from_bytes(self._random_uuid()[:8])),
        )
        for batch in batches_of([(None, value) for value in record_values(records, 0)], self._now_ms):
            log_.append_as_leader(batch, leader_epoch=epoch, now_ms=self._now_ms)
        self._logs[METADATA_PARTITION] = log_
        self._close([log_], threads)
