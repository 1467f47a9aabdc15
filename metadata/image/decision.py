"""The outcome of a command to the controller: records to be written, and an answer once they are on disk."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Final, Generic, ParamSpec, TypeVar

from msgspec import Struct

from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = [
    "RECORDS_PER_BATCH_MAX",
    "RECORDS_TOGETHER",
    "Decision",
    "Failure",
    "Permit",
    "Steps",
    "at_once",
    "charged_once",
    "failure_of",
    "no_limit",
]

RECORDS_PER_BATCH_MAX: Final = 10_000
"""So many records a batch of the metadata log holds, as in Kafka."""
RECORDS_TOGETHER: Final = 1_000
"""So many records this controller writes together: a batch is encoded and applied in one step of 10 to 20 ms."""

Permit = Callable[[int], None]
"""Called with a number of partitions before they are made or deleted. Raises THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

T = TypeVar("T")
P = ParamSpec("P")


class Decision(Struct, Generic[T], frozen=True):
    """``records`` are appended and synced before ``result`` is answered; none may be left out.

    If ``is_atomic``, all of them take effect or none; otherwise a crash may leave any first part of them, and the command
    is begun again after it. `decision_batches` says how they are written.
    """

    records: tuple[Message, ...]
    result: T
    is_atomic: bool = True


Steps = Generator[None, None, Decision[T]]
"""A decision about many things: yields between them, so that its driver may see to others meanwhile."""


def at_once(steps: Callable[P, Generator[None, None, T]]) -> Callable[P, T]:
    """The same command, decided in one go: for callers that hold no one up."""

    @functools.wraps(steps)
    def command(*arguments: P.args, **named: P.kwargs) -> T:
        deciding = steps(*arguments, **named)
        while True:
            try:
                next(deciding)
            except StopIteration as end:
                decision: T = end.value
                return decision

    return command


class Failure(Struct, frozen=True):
    """Why one part of a command was refused."""

    code: ErrorCode
    message: str | None


def failure_of(error: KafkaError) -> Failure:
    """The refusal an error stands for."""
    return Failure(error.code, error.message)


def no_limit(_count: int) -> None:
    """The permit of a client without quota."""


def charged_once(permit: Permit) -> Callable[[], Permit]:
    """Makes permits for a command that may be decided several times: each decision asks for one, ``permit`` is asked once.

    A later decision asks it only for the partitions that it has beyond those of the one before.
    """
    paid = 0

    def decided() -> Permit:
        used = 0

        def charge(count: int) -> None:
            nonlocal paid, used
            if used + count > paid:
                permit(used + count - paid)
                paid = used + count
            used += count

        return charge

    return decided
