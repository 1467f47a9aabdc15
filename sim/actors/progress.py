"""How far a job has got, committed with its transactions: exactly-once copying rests on it."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from sim.actors.codes import COORDINATOR_RETRIABLE, GONE
from sim.actors.link import LinkLost
from sim.model import PartitionModel, Violation
from sim.under.loop import VirtualLoop
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

__all__ = ["STABLE_SINCE", "Progress"]

STABLE_SINCE: Final = 7
"""The version of OffsetFetch from which on a client can ask for offsets that no transaction is about to change."""

_GROUPS: Final = 0
_AGAIN: Final = COORDINATOR_RETRIABLE | GONE | {ErrorCode.UNSTABLE_OFFSET_COMMIT}


class Job(Protocol):
    """The producer whose transactions carry the offset."""

    name: str
    loop: VirtualLoop
    transactional_id: str | None

    def pick(self) -> PartitionModel | None:
        """A partition to write to; None if there is none."""
        ...

    async def call(self, request: Any, /) -> Any:
        """Ask once. Raises `LinkLost`."""
        ...

    async def ask(self, what: str, request: Any, /) -> Any:
        """Ask until there is an answer that is no reason to ask again. Raises `Violation`."""
        ...

    async def rest(self, seconds: float, /) -> None:
        """Wait a drawn time."""
        ...


class Progress:
    """The offset of one partition, in a group of the producer's own. Offsets are the numbers of its transactions."""

    def __init__(self, producer: Job) -> None:
        self._producer = producer
        self._group = f"progress-{producer.name}"
        self._place: PartitionModel | None = None
        self._pending: int | None = None
        self._committed = -1

    async def add(self, number: int, identity: dict[str, Any], *, announced: bool) -> None:
        """Put the offset into the open transaction; ``announced`` by AddOffsetsToTxn, as before transactions v2."""
        place = self._find_place()
        if place is None:
            return
        producer = self._producer
        await self._find_coordinator()
        transactional_id = producer.transactional_id or ""
        if announced:
            request = AddOffsetsToTxnRequest(transactional_id=transactional_id, group_id=self._group, **identity)
            await producer.ask("to add its group", request)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=place.number, committed_offset=number, committed_metadata=""
        )
        topic = TxnOffsetCommitRequestTopic(name=place.topic.name, partitions=[partition])
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id, group_id=self._group, member_id="", topics=[topic], **identity
        )
        await producer.ask(f"to commit {place} at {number}", request)
        self._pending = number

    def ended(self, *, committed: bool) -> None:
        """The transaction has ended, for good."""
        if self._pending is not None and committed:
            self._committed = self._pending
        self._pending = None

    async def check(self) -> None:
        """The committed offset is that of the last transaction that was committed. Raises `Violation`."""
        place = self._place
        while place is not None and not place.topic.deleting:
            try:
                found = await self._fetch(place)
            except LinkLost:
                found = None
            if found is not None:
                self._compare(place, found)
                return
            await asyncio.sleep(0.2)

    def _compare(self, place: PartitionModel, found: int) -> None:
        self._producer.loop.trace.note(self._producer.name, f"finds {place} at {found}")
        if found != self._committed and not place.topic.deleting:
            raise Violation(
                f"{self._group}: {place} is committed at {found}; transaction {self._committed} was the last of "
                f"{self._producer.name} to be committed"
            )

    async def _fetch(self, place: PartitionModel) -> int | None:
        """The committed offset, -1 without one; None if it has to be asked for again. Raises `LinkLost`, `Violation`."""
        name, topic_id, numbers = place.topic.name, place.topic.topic_id, [place.number]
        wanted = OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=numbers)
        answer = await self._producer.call(
            OffsetFetchRequest(
                group_id=self._group,
                topics=[OffsetFetchRequestTopic(name=name, partition_indexes=numbers)],
                groups=[OffsetFetchRequestGroup(group_id=self._group, topics=[wanted])],
                require_stable=True,
            )
        )
        holder = answer.groups[0] if answer.groups else answer
        one = holder.topics[0].partitions[0] if holder.topics else holder
        code = ErrorCode(holder.error_code or one.error_code)
        if code in _AGAIN:
            return None
        if code:
            raise Violation(f"{self._producer.name}: OffsetFetch answers {code.name}")
        return int(one.committed_offset)

    def _find_place(self) -> PartitionModel | None:
        """Where its offset belongs; another one when that topic goes."""
        if self._place is None or self._place.topic.deleting:
            self._place, self._committed = self._producer.pick(), -1
        return self._place

    async def _find_coordinator(self) -> None:
        """Have the topic of committed offsets made: until a broker names the coordinator, as clients do, for it may not be there yet."""
        request = FindCoordinatorRequest(key=self._group, key_type=_GROUPS, coordinator_keys=[self._group])
        while True:
            try:
                answer = await self._producer.call(request)
            except LinkLost:
                pass
            else:
                found = answer.coordinators[0] if answer.coordinators else answer
                if not found.error_code:
                    return
            await self._producer.rest(0.3)
