"""The marks of a log that has just been opened: where it begins, and up to where it is committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from stratalog.hot.log.log import Log
from stratalog.wire.topic import TopicPartition

__all__ = ["begin_at_log_start", "first_high_watermark", "kept_high_watermark"]

log = logging.getLogger(__name__)


def begin_at_log_start(log_: Log) -> None:
    """Let a log that ends below its log start go on there, as Kafka does: all that it had was deleted by request.

    A power cut leaves such a log where syncs are left to the system, and so does a crash while a copy begins. The archive
    of a tiered topic has the say over its end. Raises `OSError`.
    """
    start, end = log_.log_start_offset, log_.log_end_offset
    if end < start and not log_.config.remote_storage_enable:
        log.warning(
            "%s ends at offset %d, and all below %d was deleted: the log goes on there",
            log_.topic_partition,
            end,
            start,
        )
        log_.truncate_fully_and_start_at(start, (), None)


def first_high_watermark(log_: Log, checkpoint: Mapping[TopicPartition, int], replica_count: int) -> int:
    """The first high watermark of a log, by the ``checkpoint`` of its directory.

    An only replica has committed all records on its disk. With several, the leader decides about those above the mark that was
    written down last. The checkpoint is older than the mark was; what is clean lay below that, and was synced. Up to an older
    mark readers would miss keys: the values there are gone for later ones behind it.
    """
    if replica_count == 1:
        return log_.flushed_offset
    known = min(max(kept_high_watermark(log_, checkpoint), log_.log_start_offset), log_.flushed_offset)
    # The row has no checksum, that of the gaps has one.
    clean = min(log_.compaction.cleaned_offset, log_.gaps.passed_below)
    return max(known, clean)


def kept_high_watermark(log_: Log, checkpoint: Mapping[TopicPartition, int]) -> int:
    """The high watermark in the ``checkpoint``; at most the offset at which the log was cut since."""
    mark = checkpoint.get(log_.topic_partition, 0)
    truncated_to = log_.cycles.truncated_to
    return mark if truncated_to is None else min(mark, truncated_to)
