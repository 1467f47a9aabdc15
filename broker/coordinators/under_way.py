"""The writes of a coordinator shard that are not committed yet, and the answers that leave then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from stratalog.broker.coordinators.batching import Marker
from stratalog.hot.log.log import AppendInfo
from stratalog.metadata.coordination import Reply, Write
from stratalog.wire.errors import KafkaError

__all__ = ["Appended", "answer", "fail", "refuse"]


class Appended(Struct):
    """Writes in one batch, or a marker: under way until committed."""

    writes: Sequence[Write]
    late: list[Reply] = field(default_factory=list)
    """Answers about state that this batch, or an earlier one, makes durable."""
    marker_done: Callable[[AppendInfo | KafkaError], None] | None = None


def answer(reply: Reply) -> None:
    """Give a request its answer, or its error."""
    response = reply.response
    if isinstance(response, KafkaError):
        reply.token.fail(response)
    else:
        reply.token.respond(response)


def fail(replies: Iterable[Reply], error: KafkaError) -> None:
    """Give these requests an error instead of their answers."""
    for reply in replies:
        reply.token.fail(error)


def refuse(queued: Iterable[Marker | Write], error: KafkaError) -> None:
    """Give those who wait for these writes and markers an error; they are not appended."""
    for one in queued:
        if isinstance(one, Marker):
            one.done(error)
        else:
            fail(one.replies, error)
