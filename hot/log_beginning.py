"""Where the copy of a log begins: also within a batch, and without what was noted of an earlier one."""

from __future__ import annotations

from functools import partial

from stratalog.hot.log.log import Log
from stratalog.wire.batch import check_batch
from stratalog.wire.errors import Corrupt

__all__ = ["begin_within", "begin_without_notes"]


def begin_within(log_: Log, records: memoryview, leader_epoch: int) -> None:
    """Let an empty log begin with the first of these batches if that holds its log start (KAFKA-5634). Raises `OSError`.

    The log start of a leader may lie within a batch, after DeleteRecords.
    """
    start = log_.log_start_offset
    if not start or start != log_.log_end_offset:
        return
    try:
        header = check_batch(records)
    except Corrupt:  # the append says what is wrong
        return
    if header.base_offset < start <= header.last_offset and header.partition_leader_epoch <= leader_epoch:
        begin = partial(log_.truncate_fully_and_start_at, header.base_offset, (), None, log_start_offset=start)
        log_.gaps.keep_over(begin)


def begin_without_notes(log_: Log) -> None:
    """Forget how far a cleaner was if the log has no records: none is gone for later ones.

    A crash may leave the row of the copy before, which was kept aside. The new one would be taken for a part of it.
    """
    if log_.local_log_start_offset >= log_.log_end_offset < log_.gaps.passed_below:
        log_.gaps.begin_anew(log_.log_end_offset)
