"""DeleteRecords at work: log starts move in memory, are written down, and only then do files go."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from stratalog.broker.replicas.directories import Directories
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.replica_state import ReplicaState
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["Deleted", "copies_begin_at", "delete_records"]


class Deleted(NamedTuple):
    """A log start that has moved durably on this broker."""

    leader: Leader
    """The role in which it moved. When that has ended, another leader may still show the records."""
    log_start_offset: int


def delete_records(
    directories: Directories, table: PartitionTable, wanted: Sequence[tuple[UnifiedLog, int]]
) -> Generator[None, None, list[Deleted | KafkaError]]:
    """Move log starts to the given offsets, or to the high watermark for -1; the new log starts, in order.

    In steps: yields between partitions, so that others have their turns.

    All are written down together, once for each log directory. An error stands for a partition whose log start
    has not moved durably: OFFSET_OUT_OF_RANGE beyond the high watermark, POLICY_VIOLATION where ``delete`` is no
    policy, KAFKA_STORAGE_ERROR if the disk fails or is full, NOT_LEADER_OR_FOLLOWER where this broker has not led it all
    the time.
    """
    roles = []
    for unified, offset in wanted:
        roles.append(_move_start(unified, offset))
        yield
    # A log that changes its directory meanwhile has its start written down there first.
    writers = [unified.partition.directory for unified, _ in wanted]
    kept = set()
    for writer in {one for one, role in zip(writers, roles, strict=True) if not isinstance(role, KafkaError)}:
        if (yield from _checkpoint(directories, table, writer)):
            kept.add(writer)
        yield
    outcomes: list[Deleted | KafkaError] = []
    for (unified, _), writer, role in zip(wanted, writers, roles, strict=True):
        if isinstance(role, KafkaError):
            outcomes.append(role)
        else:
            outcomes.append(_drop_before_start(unified, role, written_down=writer in kept))
        yield
    return outcomes


def copies_begin_at(state: ReplicaState, log_start_offset: int, brokers: Iterable[int]) -> bool:
    """Whether the copies on these brokers begin at this offset or above, as far as their last fetches tell."""
    followers = (one for one in brokers if state.is_follower(one))
    return all(state.follower(one).log_start_offset >= log_start_offset for one in followers)


def _checkpoint(
    directories: Directories, table: PartitionTable, writer: DirectoryWriter
) -> Generator[None, None, bool]:
    """Write down the log starts of a directory, all that it has; False if the disk does not take them."""
    return (yield from directories.checkpoint_steps(directories.of(writer), table.partitions))


def _move_start(unified: UnifiedLog, offset: int) -> Leader | KafkaError:
    """Move a log start in memory, in the role of now, or say why not."""
    try:
        leader = unified.partition.led()
    except KafkaError as error:
        return error
    if not unified.log.config.deletes:
        return KafkaError(
            ErrorCode.POLICY_VIOLATION, f"{unified.topic_partition} has no delete policy (cleanup.policy)"
        )
    high_watermark = unified.partition.high_watermark
    target = high_watermark if offset == -1 else offset
    if not 0 <= target <= high_watermark:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {unified.topic_partition} is beyond the high watermark {high_watermark}",
        )
    unified.log.advance_log_start(target)
    return leader


def _drop_before_start(unified: UnifiedLog, leader: Leader, *, written_down: bool) -> Deleted | KafkaError:
    """Remove the segments below a log start that is durable. The log may be removed where the role has ended."""
    if leader.ended is not None:
        return leader.ended
    log_start_offset = unified.log_start_offset
    if not written_down:
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the new log start {log_start_offset} of {unified.topic_partition} could not be written down; it may be "
            "lost with the next stop",
        )
    try:
        unified.log.delete_local_before(log_start_offset)
    except OSError as error:
        unified.partition.directory.report(error, unified.partition)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return Deleted(leader, log_start_offset)
