"""One answer out of those of many groups, which may be coordinated by different shards and come one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratalog.broker.requests.context import RequestContext, ServedBroker
from stratalog.broker.requests.dispatch import PENDING, Pending
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = ["Gather"]


class Gather:
    """Hands out tokens for the parts of a request, and answers it when all of them have been answered.

    ``assemble`` makes the response from the parts' answers, in the order in which the tokens were handed out.
    """

    def __init__(
        self, context: RequestContext[ServedBroker], assemble: Callable[[list[Any]], Message | Pending]
    ) -> None:
        self._context = context
        self._assemble = assemble
        self._answers: list[Any] = []
        self._missing = 1  # the request itself, until every part has its token

    def part(self, failed: Callable[[KafkaError], Any]) -> _Part:
        """A token for the next part; ``failed`` turns an error into its answer."""
        self._answers.append(None)
        self._missing += 1
        return _Part(self, len(self._answers) - 1, failed)

    def answered(self, answer: Any) -> None:
        """The next part has its answer already."""
        self._answers.append(answer)

    def close(self) -> Pending:
        """There are no more parts."""
        self._one_less()
        return PENDING

    def take(self, number: int, answer: Any) -> None:
        """A part has been answered."""
        self._answers[number] = answer
        self._one_less()

    def _one_less(self) -> None:
        self._missing -= 1
        if not self._missing:
            answer = self._assemble(self._answers)
            if answer is not PENDING:
                self._context.respond(answer)


class _Part:
    """Stands for one part of a request."""

    __slots__ = ("_failed", "_gather", "_number")

    def __init__(self, gather: Gather, number: int, failed: Callable[[KafkaError], Any]) -> None:
        self._gather = gather
        self._number = number
        self._failed = failed

    def respond(self, response: Message) -> None:
        """The part's answer."""
        self._gather.take(self._number, response)

    def fail(self, error: BaseException) -> None:
        """The part has failed."""
        if not isinstance(error, KafkaError):
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        self._gather.take(self._number, self._failed(error))
