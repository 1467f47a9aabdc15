"""Errors of brokers that are over in a moment, and for how long a client asks again upon them."""

from __future__ import annotations

from typing import Final

from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["LAGS_SECONDS", "LEADERSHIP_MOVES", "LeaderLags", "Patience", "check_led", "lags"]

LEADERSHIP_MOVES: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
"""Soon the broker that answers with one of these, or another one, will lead. It has done nothing, unless it was to append
for all replicas: then the records may be in its log."""
LAGS_SECONDS: Final = 3.0
"""A broker hears of a new topic sooner than that."""
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class LeaderLags(KafkaError):
    """The leader that Metadata names does not know the partition: it has not heard of it yet, or it was deleted."""


def lags(code: int) -> bool:
    """Whether a leader that answers with this code does not know the partition. It has done nothing."""
    return code in _UNKNOWN


def check_led(code: int, message: str) -> None:
    """Raise the error of a code in the answer of a partition's leader, unless it is 0; `LeaderLags` among others."""
    if code:
        kind = LeaderLags if lags(code) else KafkaError
        raise kind(ErrorCode(code), message)


class Patience:
    """Says whether a request is to be made again. ``began`` is when the first was made, in seconds."""

    def __init__(self, began: float, seconds: float) -> None:
        self._until = began + seconds
        self._lags_until: float | None = None

    def lasts(self, error: KafkaError, now: float) -> bool:
        """Whether to ask again after ``error``.

        A topic that a leader does not know may be unknown to the broker that is asked about it next as well.
        """
        if error.code in LEADERSHIP_MOVES:
            return now < self._until
        if self._lags_until is None and isinstance(error, LeaderLags):
            self._lags_until = min(now + LAGS_SECONDS, self._until)
        return self._lags_until is not None and lags(error.code) and now < self._lags_until

    def lasts_without(self, now: float) -> bool:
        """Whether to ask again where no broker answered."""
        return now < self._until
