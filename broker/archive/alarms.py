"""Logs why an archive has stopped, for good or for now."""

from __future__ import annotations

import logging

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages import commands
from stratalog.tier.planning.plan_events import ReportGap, ReportLost, ReportQuarantine, StandDown

__all__ = ["doubt_of", "tell", "warn"]

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


def warn(partition: PartitionId, what: str, report: commands.Report) -> None:
    """Log one line about a request that failed."""
    message = getattr(report, "message", str(report))
    log.warning("%s: %s did not succeed and is tried again: %s", partition, what, message)


def doubt_of(partition: PartitionId, claimed: commands.Report, known_end: int) -> tuple[str, bool] | None:
    """Why a log has to be compared with its archive after a claim, and whether it certainly lacks something; or None."""
    if isinstance(claimed, commands.SecondTimelineReport):
        return claimed.message, True
    if not isinstance(claimed, commands.ManifestRead) or claimed.view.deleted or claimed.view.remote_end <= known_end:
        return None
    words = f"its archive ends at offset {claimed.view.remote_end}, only {known_end} was known: the two are compared"
    return f"{partition}: {words}", False
