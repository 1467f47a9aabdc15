"""The way of a request to the metadata quorum and of its answer back, shared by the handlers of its APIs."""

from __future__ import annotations

import asyncio
from functools import partial

from stratalog.broker.api.controller_view import Context
from stratalog.broker.quorum.wire.messages import answer_to_wire, request_from_wire
from stratalog.broker.requests.dispatch import PENDING, Pending
from stratalog.metadata.raft.messages import Answer
from stratalog.wire.schema import Message

__all__ = ["ask_quorum"]


def ask_quorum(context: Context, request: Message) -> Pending:
    """Answer when the quorum does: it stores what it promises first, and a Fetch waits for news.

    Raises `KafkaError` for a request that is refused as a whole, see `request_from_wire`.
    """
    quorum, roles = context.broker.quorum, context.broker.config.roles
    asked = request_from_wire(
        request,
        context.api_version,
        node_id=quorum.node_id,
        cluster_id=quorum.cluster_id,
        listener=roles.controller_listeners[0],
    )
    answer = quorum.receive(asked)
    context.on_abandon = answer.cancel
    answer.add_done_callback(partial(_answered, context, request))
    return PENDING


def _answered(context: Context, request: Message, answer: asyncio.Future[Answer]) -> None:
    """Called in a turn of its own, when the request has its place in the order of answers."""
    if answer.cancelled():
        context.connection.refuse(f"{context.row.api.name} v{context.api_version} was cancelled")
        return
    try:
        context.respond(answer_to_wire(request, context.api_version, answer.result(), context.connection.listener.name))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong becomes an answer
        context.fail(error)
