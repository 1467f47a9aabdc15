"""What the log says of an archive that goes on no more, or not now."""

from __future__ import annotations

import logging

from stratalog.tier.keys import PartitionId
from stratalog.tier.plan_events import ReportGap, ReportLost, ReportQuarantine, StandDown

__all__ = ["tell"]

log = logging.getLogger(__name__)


def tell(partition: PartitionId, action: StandDown | ReportGap | ReportLost | ReportQuarantine) -> None:
    """One line."""
    match action:
        case StandDown(reason):
            log.warning("%s: archiving stops here: %s", partition, reason)
        case ReportLost(reason):
            log.error("%s: its archive is lost, it is looked for again and again: %s", partition, reason)
        case ReportQuarantine(base, end, reason):
            log.error("%s: offsets [%d, %d) stay local: %s", partition, base, end, reason)
        case ReportGap(remote_end, local_start):
            log.error(
                "%s: the archive ends at offset %d, the local log begins at %d: nothing can be archived until the gap is "
                "settled",
                partition,
                remote_end,
                local_start,
            )
