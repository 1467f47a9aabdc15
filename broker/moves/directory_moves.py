"""The moves of a broker's replicas between its log directories: asked for, in line, under way, and begun again after a stop.

Source: KIP-113; Kafka's ``ReplicaManager.alterReplicaLogDirs``. A replica has one move at a time, and so many are under way
as ``num.replica.alter.log.dirs.threads`` says.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from stratalog.broker.moves.directory_move import DirectoryMove, GivenUp, MoveServices
from stratalog.broker.replicas.directories import Directory
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.metrics import Metrics
from stratalog.hot.moved_logs import future_directory_name
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["DirectoryMoves", "FutureLog"]

_NAME_BYTES_MAX: Final = 255
_LOOK_SECONDS: Final = 0.01
_TRY_SECONDS: Final = 1.0
_TRIES: Final = 600
"""So often a move of before the start is tried to begin again: it takes a while until all logs are open."""

log = logging.getLogger(__name__)

Labels = dict[str, str]


class FutureLog(NamedTuple):
    """A copy that is to take the place of a log."""

    topic_partition: TopicPartition
    path: str
    lag: int
    """The offsets that it lacks."""


class DirectoryMoves:
    """Lives on the event loop."""

    def __init__(self, services: MoveServices, image: Callable[[], ClusterImage], *, at_once: int) -> None:
        """``image`` is the cluster as it is now; ``at_once`` moves are under way together."""
        self._services = services
        self._image = image
        self._at_once = at_once
        self._paths = {
            path: directory
            for directory in self._placeable()
            for path in (os.path.realpath(directory.path), directory.path)
        }
        self._moves: dict[TopicPartition, DirectoryMove] = {}
        """The latest move of each replica, until it has ended."""
        self._in_line: dict[DirectoryMove, None] = {}
        """In their order, at most one of each replica."""
        self._running: dict[DirectoryMove, asyncio.Task[None]] = {}
        self._failed: set[TopicPartition] = set()
        self._failures: dict[str, asyncio.TimerHandle] = {}
        """The looks whether the controller may hear of a directory that has failed."""
        self._timer: asyncio.TimerHandle | None = None
        self._tries = 0
        services.hosted.table.on_removed = self._gone

    def _placeable(self) -> Iterator[Directory]:
        """The directories that hold topics."""
        directories = self._services.directories
        return (one for one in directories.all if one.path != directories.metadata_only)

    def begin_again(self) -> None:
        """Begin again what the last stop has interrupted; replicas whose logs are not open yet follow."""
        unfinished = self._services.directories.settled.unfinished_moves
        self._tries += 1
        for move in list(unfinished):
            name = move.topic_partition
            if self._services.hosted.table.get(name) is None and self._tries < _TRIES:
                continue
            unfinished.remove(move)
            code = self.ask(name, move.target)
            if code is not ErrorCode.NONE:
                log.warning("%s does not move to %s after all: %s", name, move.target, code.name)
        if unfinished:
            self._timer = asyncio.get_running_loop().call_later(_TRY_SECONDS, self.begin_again)

    def take_back(self, directory: Directory, then: Callable[[], None]) -> None:
        """A directory has failed: the controller is to hear first that no replica comes to lie there, ``then`` is called.

        A replica that it knows there already would be lost for it, though its log is whole where it lies.
        """
        self._services.hosted.placing.take_back(directory.directory_id)
        self._taken_back(directory, then)

    def _taken_back(self, directory: Directory, then: Callable[[], None]) -> None:
        self._failures.pop(directory.path, None)
        if not self._services.hosted.placing.is_taken_for_home(directory.directory_id):
            then()
            return
        again = partial(self._taken_back, directory, then)
        self._failures[directory.path] = asyncio.get_running_loop().call_later(_LOOK_SECONDS, again)

    async def close(self) -> None:
        """End; the next start goes on."""
        for timer in self._failures.values():
            timer.cancel()
        self._in_line.clear()
        if self._timer is not None:
            self._timer.cancel()
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._services.threads.shutdown(wait=True)

    # -- requests ---------------------------------------------------------------------------------------------

    def ask(self, name: TopicPartition, path: str) -> ErrorCode:
        """Move a replica to the log directory ``path``; returns at once. Where it is already, a move of it is cancelled.

        LOG_DIR_NOT_FOUND for a directory that is none of this broker's, KAFKA_STORAGE_ERROR where one is offline,
        REPLICA_NOT_AVAILABLE for a partition that is not here; if it comes here, its log is begun in that directory.
        """
        target = self._paths.get(path)
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if target.writer.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if len(future_directory_name(name, bytes(16))) > _NAME_BYTES_MAX:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        move = self._moves.get(name)
        if move is not None and move.target is not target:
            self._cancel(move)
        try:
            unified = self._services.hosted.table.by_name(*name)
        except KafkaError as error:
            return self._not_here(name, target, error.code)
        return self._move(unified, target)

    def _not_here(self, name: TopicPartition, target: Directory, code: ErrorCode) -> ErrorCode:
        if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return code
        if self._image().topics.partition(*name) is not None:
            self._services.hosted.logs.prefer(name, target)
        return ErrorCode.REPLICA_NOT_AVAILABLE  # as Kafka keeps it for old clients

    def _move(self, unified: UnifiedLog, target: Directory) -> ErrorCode:
        source = self._services.directories.of(unified.partition.directory)
        if source.writer.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if source is target or unified.topic_partition in self._moves:
            return ErrorCode.NONE
        if len(self._services.directories.online) < len(self._services.directories.all):
            return ErrorCode.KAFKA_STORAGE_ERROR  # one that is offline may hold another copy
        move = DirectoryMove(self._services, unified, source, target)
        try:
            move.prepare()
        except OSError as error:
            target.writer.report(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._moves[unified.topic_partition] = move
        self._failed.discard(unified.topic_partition)
        self._in_line[move] = None
        self._begin_next()
        return ErrorCode.NONE

    def _gone(self, unified: UnifiedLog) -> None:
        """A replica has left this broker: its move does not hold up one of the next topic of its name, nor outlive a stop.

        The next log of its name has none of its rows.
        """
        for running in self._running:
            if running.unified is unified and not running.is_over:
                running.drop_rows()
        move = self._moves.get(unified.topic_partition)
        if move is not None and move.unified is unified:
            self._cancel(move)

    def _cancel(self, move: DirectoryMove) -> None:
        move.cancelled = True
        self._forget(move)
        if move not in self._in_line:
            return
        # One that waits leaves the line at once: a client that changes its mind very often would fill memory and the disk.
        del self._in_line[move]
        try:
            move.withdraw()
        except OSError as error:
            move.target.writer.report(error)

    def _forget(self, move: DirectoryMove) -> None:
        name = move.unified.topic_partition
        if self._moves.get(name) is move:
            del self._moves[name]

    # -- under way --------------------------------------------------------------------------------------------

    def _begin_next(self) -> None:
        while self._in_line and len(self._running) < self._at_once:
            move = next(iter(self._in_line))
            del self._in_line[move]
            task = self._running[move] = asyncio.get_running_loop().create_task(self._run(move))
            task.add_done_callback(partial(self._ended, move))

    def _ended(self, move: DirectoryMove, task: asyncio.Task[None]) -> None:
        del self._running[move]
        if not task.cancelled():
            self._forget(move)
            self._begin_next()

    async def _run(self, move: DirectoryMove) -> None:
        name, target = move.unified.topic_partition, move.target.path
        try:
            await move.run()
        except GivenUp as why:
            log.log(
                logging.INFO if move.cancelled else logging.WARNING, "%s does not move to %s: %s", name, target, why
            )
            if not move.cancelled:
                self._failed.add(name)
            await move.clean_up()
        except Exception:
            log.exception("%s does not move to %s, which failed unexpectedly", name, target)
            self._failed.add(name)
            await move.clean_up()

    # -- figures ----------------------------------------------------------------------------------------------

    def in_directory(self, directory: Directory) -> list[FutureLog]:
        """The copies that are being made in a directory."""
        return [
            FutureLog(move.unified.topic_partition, move.path, move.lag)
            for move in self._moves.values()
            if move.target is directory and not move.is_over
        ]

    def add_figures(self, metrics: Metrics) -> None:
        """Show the moves under way by Kafka's names."""
        throttle = self._services.throttle
        metrics.add_gauge(
            "kafka_server_alterlogdirsreplication_byte_rate",
            "kafka.server:type=AlterLogDirsReplication byte-rate: bytes a second that are copied between log directories.",
            lambda: [({}, throttle.byte_rate())],
        )
        metrics.add_gauge(
            "kafka_server_replicaalterlogdirsmanager_maxlag",
            "kafka.server:type=ReplicaAlterLogDirsManager,name=MaxLag: offsets that the copy furthest behind lacks.",
            lambda: self._sample(max((move.lag for move in self._moves.values()), default=0)),
        )
        metrics.add_gauge(
            "kafka_server_replicaalterlogdirsmanager_failedpartitionscount",
            "kafka.server:type=ReplicaAlterLogDirsManager,name=FailedPartitionsCount: replicas that could not be moved, and "
            "were not asked to be since.",
            lambda: self._sample(sum(1 for name in self._failed if self._services.hosted.table.get(name) is not None)),
        )

    @staticmethod
    def _sample(figure: float) -> list[tuple[Labels, float]]:
        return [({"clientId": "ReplicaAlterLogDirs"}, figure)]
