"""One partition as the machine of its leader's fetches sees it: where it stands, and what it waits for."""

from __future__ import annotations

from stratalog.broker.replicas.log_position import LogPosition

__all__ = ["CopiedPartition"]


class CopiedPartition:
    """One partition that is copied in one leader epoch."""

    __slots__ = (
        "apart_bytes",
        "due_ms",
        "failures",
        "is_away",
        "is_behind",
        "is_busy",
        "lags",
        "leader_epoch",
        "leader_high_watermark",
        "position",
    )

    def __init__(self, leader_epoch: int, position: LogPosition) -> None:
        self.leader_epoch = leader_epoch
        self.position = position
        self.is_busy = False
        """Whether an answer is being taken: no request may leave meanwhile."""
        self.apart_bytes = 0
        """The bytes that one that lags is taking: requests leave, and it is in none and in no session meanwhile."""
        self.lags = False
        """Whether its last answer ended before what is committed: there is more than one answer may bring."""
        self.is_away = False
        """Whether its log is being moved into the leader's: it is in no request and no session meanwhile."""
        self.is_behind = True
        """Whether it lacks what its leader last said to be committed, or does not know."""
        self.leader_high_watermark = -1
        self.failures = 0
        self.due_ms: float = 0
        """Until then it rests; infinite while only the metadata can help."""

    @property
    def is_taking(self) -> bool:
        """Whether the end of what came for it is waited for."""
        return self.is_busy or self.is_away or self.apart_bytes > 0
