"""Ends transactions whose records were archived and whose markers were not.

Records are archived below the last stable offset only (rule 3). So a transaction that is open at the end of an archive was
ended before its records got there, and an object lists the transactions that overlap it and were aborted, wherever their
markers stood. A log that goes on behind the archive gets the markers again: from the leader that compares it, or from the
restore that makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.log.log import AppendInfo, Log
from stratalog.hot.state.producer_snapshot import ProducerEntry
from stratalog.metadata.transactions.transaction import EPOCH_MAX
from stratalog.wire.batch import build_control_batch
from stratalog.wire.errors import KafkaError
from stratalog.wire.records.control import ControlType, EndTxnMarker, encode_record

__all__ = ["end_archived", "end_restored", "open_below"]

_RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)


def open_below(log_: Log, remote_end: int) -> list[tuple[int, ProducerEntry]]:
    """``(first offset, producer)`` of transactions that are open in the log and have records in its archive."""
    return [(first, entry) for first, entry in log_.producer_state.open_transactions() if first < remote_end]


def end_archived(
    unified: UnifiedLog,
    remote_end: int,
    aborted: Collection[tuple[int, int]],
    *,
    now_ms: Callable[[], int],
    later: Callable[[float, Callable[[], None]], object],
) -> None:
    """Append the markers of the transactions that are open below ``remote_end``.

    ``aborted`` are those that were aborted, by producer id and first offset. A marker that cannot be written is tried
    again ``later``, and no more where this broker does not lead the partition any longer.
    """
    leader = unified.partition.leader
    if leader is None:
        return
    for first, entry in open_below(unified.log, remote_end):
        commit = _was_committed(first, entry, aborted)
        batch = _marker(entry, commit=commit, offset=0, leader_epoch=-1, timestamp_ms=now_ms())
        again = partial(
            later, _RETRY_SECONDS, partial(end_archived, unified, remote_end, aborted, now_ms=now_ms, later=later)
        )
        told = partial(
            _told, f"{unified.topic_partition}: the transaction of producer {entry.producer_id} from offset {first} on"
        )
        leader.append_marker(batch, 0, partial(told, commit, again))


def end_restored(log_: Log, remote_end: int, aborted: Collection[tuple[int, int]], *, now_ms: int) -> None:
    """Write the same markers at the end of a log that no broker serves yet. Raises `KafkaError`, `OSError`."""
    epoch = max(log_.leader_epochs.latest_epoch, 0)
    for first, entry in open_below(log_, remote_end):
        commit = _was_committed(first, entry, aborted)
        end = log_.log_end_offset
        batch = _marker(entry, commit=commit, offset=end, leader_epoch=epoch, timestamp_ms=now_ms)
        log_.append_as_follower(memoryview(batch), leader_epoch=epoch, now_ms=now_ms)
        log_.write_queued()


def _was_committed(first: int, entry: ProducerEntry, aborted: Collection[tuple[int, int]]) -> bool:
    return (entry.producer_id, first) not in aborted


def _marker(entry: ProducerEntry, *, commit: bool, offset: int, leader_epoch: int, timestamp_ms: int) -> bytearray:
    """The marker that ends the producer's transaction. Its epoch is above the producer's, which writes here no more."""
    return build_control_batch(
        ControlType.COMMIT if commit else ControlType.ABORT,
        encode_record(EndTxnMarker(coordinator_epoch=max(entry.coordinator_epoch, 0))),
        offset=offset,
        timestamp_ms=timestamp_ms,
        leader_epoch=leader_epoch,
        producer_id=entry.producer_id,
        producer_epoch=min(entry.producer_epoch + 1, EPOCH_MAX),
        transactional=True,
    )


def _told(what: str, commit: bool, again: Callable[[], object], outcome: AppendInfo | KafkaError) -> None:
    if isinstance(outcome, KafkaError):
        log.warning("%s is open still: its marker cannot be written: %s", what, outcome)
        again()
    else:
        log.warning("%s was %s, as its archive says; the marker was lost", what, "committed" if commit else "aborted")
