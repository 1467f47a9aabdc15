"""What a command to the controller comes to: records to be written, and an answer once they are on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = ["Decision", "Failure", "Permit", "failure_of", "no_limit"]

Permit = Callable[[int], None]
"""Called with a number of partitions before they are made or deleted. Raises THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """``records`` are appended as one batch and synced before ``result`` is answered; none may be left out."""

    records: tuple[Message, ...]
    result: T


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one part of a command was refused."""

    code: ErrorCode
    message: str | None


def failure_of(error: KafkaError) -> Failure:
    """The refusal an error stands for."""
    return Failure(error.code, error.message)


def no_limit(_count: int) -> None:
    """The permit of who has no quota."""
