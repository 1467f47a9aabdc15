"""DescribeLogDirs (key 35): what lies in the log directories, and what of it is in the bucket.

Behaviour: the size of a partition is that of the files in its directory, as ``du --apparent-size`` counts them. The
archives of tiered partitions stand in one more entry, ``remote://``: there the offset lag is the number of records that
are not archived yet. It is in answers about everything, as kafka-log-dirs asks; kafka-reassign-partitions names partitions,
and would take the entry for the directory of a replica. A directory that failed says KAFKA_STORAGE_ERROR. The files are looked at in a
thread, not on the event loop. A replica that moves stands in both directories: in the new one as the future log, with the
offsets that it lacks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from stratalog.broker.api.broker_view import BrokerView, Context
from stratalog.broker.moves.directory_moves import FutureLog
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API", "REMOTE"]

_SEGMENT: Final = ".log"
REMOTE: Final = "remote://"
"""The entry for what is in the bucket."""


def _asked(context: Context, request: DescribeLogDirsRequest) -> list[UnifiedLog]:
    """The partitions that are asked for and led here, topic by topic."""
    table = context.broker.partitions
    if request.topics is None:
        return sorted(table, key=lambda unified: unified.topic_partition)
    names = [TopicPartition(each.topic, number) for each in request.topics for number in each.partitions]
    return [unified for name in sorted(set(names)) if (unified := table.get(name)) is not None]


class _Row(NamedTuple):
    """A log, or a copy that is to take the place of one."""

    topic_partition: TopicPartition
    size_bytes: int
    lag: int
    is_future: bool = False


def _topics(rows: Iterable[_Row]) -> list[DescribeLogDirsTopic]:
    """Rows by topic."""
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for (topic, partition), size_bytes, lag, is_future in rows:
        topics.setdefault(topic, []).append(
            DescribeLogDirsPartition(
                partition_index=partition, partition_size=size_bytes, offset_lag=lag, is_future_key=is_future
            )
        )
    return [DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]


def _log_bytes(path: str) -> int:
    """The bytes of a partition's segments: its ``.log`` files, as Kafka counts them; no indexes, no snapshots.

    Files that go meanwhile count for nothing.
    """
    total = 0
    try:
        for entry in os.scandir(path):
            if not entry.name.endswith(_SEGMENT):
                continue
            try:
                total += entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    except FileNotFoundError:  # the topic was deleted while we looked
        return 0
    return total


def _measure(
    path: str, partitions: Collection[tuple[TopicPartition, str]], copies: Collection[FutureLog]
) -> DescribeLogDirsResult:
    """One directory; runs in a thread."""
    try:
        volume = os.statvfs(path)
        rows = [_Row(name, _log_bytes(home), 0) for name, home in partitions]
        rows += [_Row(one.topic_partition, _log_bytes(one.path), one.lag, is_future=True) for one in copies]
    except OSError:
        return _failed(path)
    return DescribeLogDirsResult(
        log_dir=str(Path(path).resolve()),
        topics=_topics(rows),
        total_bytes=volume.f_blocks * volume.f_frsize,
        usable_bytes=volume.f_bavail * volume.f_frsize,
    )


def _failed(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])


def _remote(broker: BrokerView, partitions: Iterable[UnifiedLog]) -> DescribeLogDirsResult | None:
    """The entry for the bucket, if any of the partitions is tiered or was."""
    rows = []
    for unified in partitions:
        figures = broker.tiering.describe(unified)
        if unified.log.config.remote_storage_enable or figures.size_bytes:
            lag = max(unified.partition.high_watermark - max(figures.end_offset or 0, unified.log_start_offset), 0)
            rows.append(_Row(unified.topic_partition, figures.size_bytes or 0, lag))
    return DescribeLogDirsResult(log_dir=REMOTE, topics=_topics(rows)) if rows else None


async def _describe(context: Context, request: DescribeLogDirsRequest) -> Message:
    broker = context.broker
    partitions = _asked(context, request)
    results = []
    for directory in broker.directories.all:
        if directory.path == broker.directories.metadata_only:
            continue
        if directory.writer.offline is not None:
            results.append(_failed(directory.path))
            continue
        mine = [
            (unified.topic_partition, unified.log.directory)
            for unified in partitions
            if unified.partition.directory is directory.writer
        ]
        asked = {unified.topic_partition for unified in partitions}
        copies = [one for one in broker.moves.in_directory(directory) if one.topic_partition in asked]
        results.append(await asyncio.to_thread(_measure, directory.path, mine, copies))
    remote = _remote(broker, partitions) if request.topics is None else None
    return DescribeLogDirsResponse(results=results if remote is None else [*results, remote])


def handle(context: Context, request: DescribeLogDirsRequest) -> Pending:
    """Runs as a task: it reads the disks in a thread."""
    return context.run(_describe(context, request))


def _failure(_request: DescribeLogDirsRequest, _version: int, error: KafkaError) -> Message:
    """Before version 3 there is no place for an error, and Kafka's answer is empty."""
    return DescribeLogDirsResponse(error_code=error.code, results=[])


API = Api(
    key=35,
    versions=(1, 5),
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.CLUSTER,
    failure=_failure,
)
