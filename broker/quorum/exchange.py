"""The quorum's messages as they leave and come: requests of this node to others, and its answers to theirs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from stratalog.broker.quorum.batches import parse_batches
from stratalog.broker.quorum.quorum_peers import NoAnswer, QuorumPeers
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.metadata.image.snapshot import SnapshotId
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Answered, Event, Failed
from stratalog.metadata.raft.messages import Answer, FetchAnswer, FetchSnapshotAnswer
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError

__all__ = ["Exchange"]

log = logging.getLogger(__name__)


class Exchange:
    """Carries out the actions about messages. Lives on the event loop."""

    def __init__(
        self,
        peers: QuorumPeers,
        replica: MetadataReplica,
        *,
        take: Callable[[Event], None],
        beside: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Answers of others go to ``take`` as events; ``beside`` runs a coroutine beside the quorum's events."""
        self._peers = peers
        self._replica = replica
        self._take = take
        self._beside = beside
        self._life = 0

    def forget(self) -> None:
        """Drop the answers to come: the machine that has asked is gone."""
        self._life += 1

    def carriers(self) -> dict[type[act.Action], Callable[[Any], None]]:
        """Return the method that carries out each action of this part."""
        return {
            act.Send: self.send,
            act.Reply: self.reply,
            act.ReplyWithRecords: self.reply_with_records,
            act.ReplyWithSnapshot: self.reply_with_snapshot,
        }

    def send(self, action: act.Send) -> None:
        """Send a request; its answer, or that there is none, becomes an event."""
        self._beside(self._ask(action, self._life))

    async def _ask(self, action: act.Send, life: int) -> None:
        event: Event
        try:
            answer = await self._peers.ask(action.peer, action.request, action.endpoints)
            event = Answered(action.peer, action.request, answer)
        except NoAnswer as error:
            log.debug("%s to node %d: %s", type(action.request).__name__, action.peer, error)
            event = Failed(action.peer, action.request, error.code, refused=error.refused)
        if life == self._life:
            self._take(event)

    def reply(self, action: act.Reply) -> None:
        """Answer a request."""
        _answer(action.token, action.answer)

    def reply_with_records(self, action: act.ReplyWithRecords) -> None:
        """Answer a Fetch with batches of the log."""
        answer = action.answer
        assert isinstance(answer, FetchAnswer)
        try:
            content = self._replica.read(action.offset, action.end_offset)
            _answer(action.token, replace(answer, batches=parse_batches(content)))
        except (OSError, Corrupt, KafkaError) as error:
            log.error("offset %d of the metadata log cannot be read for a follower: %s", action.offset, error)
            _answer(action.token, replace(answer, error=ErrorCode.KAFKA_STORAGE_ERROR))

    def reply_with_snapshot(self, action: act.ReplyWithSnapshot) -> None:
        """Answer a FetchSnapshot with bytes of the file."""
        answer = action.answer
        assert isinstance(answer, FetchSnapshotAnswer)
        try:
            size, data = self._replica.snapshot_chunk(SnapshotId(*action.snapshot), action.position)
        except OSError as error:
            log.error("snapshot %s cannot be read for a follower: %s", action.snapshot, error)
            _answer(action.token, replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND))
            return
        if 0 <= action.position <= size:
            _answer(action.token, replace(answer, size=size, data=data))
        else:
            _answer(action.token, replace(answer, error=ErrorCode.POSITION_OUT_OF_RANGE))

    def close(self) -> None:
        """Send nothing any more."""
        self.forget()
        self._peers.close()


def _answer(token: asyncio.Future[Answer], answer: Answer) -> None:
    if not token.done():  # else the asker has gone
        token.set_result(answer)
