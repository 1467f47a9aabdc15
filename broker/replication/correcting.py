"""Where a follower goes on whose position lies outside its leader's log.

The leader's end below the follower's: an unclean election has made a shorter log the truth, and the follower cuts its own. The
leader's start above the follower's end: what lies between is deleted, and the follower begins anew there. Source: Kafka's
``AbstractFetcherThread.fetchOffsetAndTruncate``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.peers.peer_errors import PeerError
from stratalog.broker.replicas.follower import Follower, Outcome
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

__all__ = ["Correcting"]

_LATEST: Final = -1
_EARLIEST: Final = -2
_EPOCHS_SINCE: Final = 4

log = logging.getLogger(__name__)


class Correcting:
    """The corrections of copies from one leader."""

    def __init__(self, links: BrokerLinks, leader_id: int, *, local_id: int, timeout_ms: int) -> None:
        self._links = links
        self._leader_id = leader_id
        self._local_id = local_id
        self._timeout_ms = timeout_ms
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, role: Follower, outcome: Outcome, *, is_archived: bool) -> None:
        """Move the log to where its leader's has records; ``outcome`` hears of the end."""
        task = asyncio.get_running_loop().create_task(self._correct(role, outcome, is_archived=is_archived))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Correct nothing any more."""
        for task in self._tasks:
            task.cancel()

    async def _correct(self, role: Follower, outcome: Outcome, *, is_archived: bool) -> None:
        try:
            start = await self._end(role, _EARLIEST)
            end = await self._end(role, _LATEST)
            if is_archived:
                why = f"its leader has moved offsets from {role.position.offset} on to the archive, from which no replica starts yet"
                raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, why)
            role.move_into(start, end)
        except (PeerError, KafkaError) as error:
            log.warning("%s: no place to go on was found: %s", role.topic_partition, error)
            outcome.refused(role, role.position)
        else:
            role.settle(outcome)

    async def _end(self, role: Follower, timestamp: int) -> int:
        """One end of the leader's log, in the role's epoch. Raises `PeerError`, `KafkaError`."""
        topic, number = role.topic_partition
        wanted = ListOffsetsPartition(partition_index=number, current_leader_epoch=role.epoch, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=self._local_id,
            isolation_level=0,
            topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
        )
        answer: ListOffsetsResponse = await self._links.ask(
            self._leader_id, request, timeout_ms=self._timeout_ms, version_min=_EPOCHS_SINCE
        )
        (told,) = answer.topics[0].partitions
        if told.error_code:
            raise KafkaError(ErrorCode(told.error_code), f"broker {self._leader_id} does not tell the ends of its log")
        return told.offset
