"""Whether a copy may go on where its leader lacks tombstones and markers that the copy never had.

The leader's cleaner has dropped them, long after all replicas had them. So a copy that ends before them has lost its end since, or
its disk was put back: it may have a record that one of them had ended, and nothing would ever end it again.
"""

from __future__ import annotations

import logging

from stratalog.hot.log.log import Log

__all__ = ["goes_on", "set_log_aside"]

log = logging.getLogger(__name__)


def goes_on(log_: Log, forgotten_below: int) -> bool:
    """Whether records may be appended that come with this offset from a leader; False if the log has to be copied as a whole.

    The log's own forgotten offset is then what holds of all of it: an empty log takes the leader's. A copy that was begun under the
    offset of another leader, which had forgotten more, goes on under what both have. Raises `OSError`.
    """
    own, end = log_.forgotten, log_.log_end_offset
    if forgotten_below <= end >= own.below:
        return True  # the usual case
    if forgotten_below > own.below:
        if max(log_.log_start_offset, log_.first_base_offset) < end:
            return False
        own.take_over(forgotten_below)
    elif own.below > max(forgotten_below, end):
        own.lower(max(forgotten_below, end))
    return True


def set_log_aside(log_: Log, leader_id: int, forgotten_below: int, *, now_ms: int) -> None:
    """Keep all of the log beside it, and begin it anew at its start, to be copied again. Raises `OSError`."""
    end = log_.log_end_offset
    why = f"it ended at offset {end}, and broker {leader_id} led without tombstones and markers below {forgotten_below}"
    kept = None
    try:
        kept = log_.compaction.begin_again(now_ms, why)
    finally:
        log.warning(
            "%s is copied again as a whole; what was here is kept in %s. It ended at offset %d, and the cleaner of its leader, broker "
            "%d, has dropped tombstones, or markers of transactions, below offset %d: a key that was deleted might be back here. So it "
            "is where a disk was put back as of before, or has lost the end of a log",
            log_.topic_partition,
            kept or f"a directory beside {log_.directory}, whose name ends with -stray",
            end,
            leader_id,
            forgotten_below,
        )
