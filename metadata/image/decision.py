"""The outcome of a command to the controller: records to be written, and an answer once they are on disk."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = ["Decision", "Failure", "Permit", "Steps", "at_once", "charged_once", "failure_of", "no_limit"]

Permit = Callable[[int], None]
"""Called with a number of partitions before they are made or deleted. Raises THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """``records`` are appended as one batch and synced before ``result`` is answered; none may be left out."""

    records: tuple[Message, ...]
    result: T


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


@dataclass(frozen=True, slots=True)
class Failure:
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
