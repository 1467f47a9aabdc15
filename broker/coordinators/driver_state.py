"""The states of the driver of a coordinator shard, and the errors that requests get in them."""

from __future__ import annotations

from enum import Enum

from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["DriverState", "check_active"]


class DriverState(Enum):
    """The states of a shard, by what it can do now."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """Its log cannot be read; a restart tries again."""
    CLOSED = "closed"


def check_active(state: DriverState, partition: object, failure: str | None) -> None:
    """Raises COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR unless events are taken.

    ``failure``: why the log of ``partition`` cannot be read.
    """
    if state is DriverState.ACTIVE:
        return
    if state is DriverState.LOADING:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{partition} is being loaded")
    if state is DriverState.FAILED:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, failure)
    raise KafkaError(ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")
