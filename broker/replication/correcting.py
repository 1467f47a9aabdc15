"""Moves a follower whose position lies outside its leader's log to where it can go on.

The leader's end below the follower's: an unclean election has made a shorter log the truth, and the follower cuts its own. The
leader's start above the follower's end: the records between are deleted, and the follower begins anew there. The leader's
local start above it: these records are in the archive, and the follower begins behind them. Sources: Kafka's
``AbstractFetcherThread.fetchOffsetAndTruncate``, ``TierStateMachine``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.peers.peer_errors import PeerError
from stratalog.broker.replicas.follower import Follower, Outcome
from stratalog.broker.replication.tier_start import ArchiveAccess, read_back, read_history
from stratalog.hot.config import LONG_MAX
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.tier.documents.keys import PartitionId
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from stratalog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from stratalog.wire.topic import TopicPartition

__all__ = ["Correcting"]

_LATEST: Final = -1
_EARLIEST: Final = -2
_EARLIEST_LOCAL: Final = -4
_EPOCHS_SINCE: Final = 4
_LOCAL_SINCE: Final = 8
_REPLICAS_SINCE: Final = 3
_LEAVING_SECONDS: Final = 0.01
"""Between a few segments and the next ones: others use the loop and the disk."""

_COMPARED_AT_ONCE: Final = 500
"""Logs that are compared by one request. A leader may have thousands, and its link takes few requests, those for records too."""

T = TypeVar("T")
_Told: TypeAlias = Mapping[TopicPartition, ListOffsetsPartitionResponse]
_EpochEnds: TypeAlias = Mapping[TopicPartition, EpochEndOffset]

log = logging.getLogger(__name__)


class Correcting:
    """The corrections of copies from one leader."""

    def __init__(
        self,
        links: BrokerLinks,
        leader_id: int,
        *,
        local_id: int,
        timeout_ms: int,
        archive: ArchiveAccess | None = None,
    ) -> None:
        """``archive`` is the way to the bucket; None where there is none."""
        self._archive = archive
        self._links = links
        self._leader_id = leader_id
        self._local_id = local_id
        self._timeout_ms = timeout_ms
        self._tasks: set[asyncio.Task[Any]] = set()
        self._compared: dict[TopicPartition, tuple[Follower, Outcome]] = {}
        """Those that wait to be compared."""
        self._is_comparing = False
        self._trimmed: set[Follower] = set()
        """Those that are trimmed now."""
        self._kept: dict[PartitionKey, int] = {}
        """Partitions whose archive lacks records that their leader has evicted, and the first of them, as the log has it."""
        self._reading_back = asyncio.Lock()
        """One partition at a time: leaders on this broker archive with the same few threads."""

    def begin(self, role: Follower, outcome: Outcome, *, is_archived: bool) -> None:
        """Move the log to where its leader's has records; ``outcome`` hears of the end."""
        self._run(self._correct(role, outcome, self._move(role, is_archived=is_archived)))

    def compare(self, role: Follower, outcome: Outcome) -> None:
        """The same for a log that may well stay as it is: the leader's history, and its end, tell whether it has what the log lacks."""
        self._compared[role.topic_partition] = role, outcome  # an earlier role has ended
        if not self._is_comparing:
            self._is_comparing = True
            self._run(self._compare())

    def trim(self, role: Follower) -> None:
        """Let the records go that the leader has in the archive alone. A bucket that does not answer is asked once."""
        if role not in self._trimmed:
            self._trimmed.add(role)
            self._run(self._trim(role), lambda _: self._trimmed.discard(role))

    def _run(self, work: Coroutine[Any, Any, None], done: Callable[[asyncio.Task[None]], object] = bool) -> None:
        self._task(work).add_done_callback(done)

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Correct nothing any more."""
        for task in self._tasks:
            task.cancel()

    async def _compare(self) -> None:
        """Compare those that wait, many by one request, and begin to move one in each turn of the loop."""
        try:
            while self._compared:
                some = [self._compared.pop(name) for name in list(islice(self._compared, _COMPARED_AT_ONCE))]
                asking = self._task(self._ask_for_ends([role for role, _ in some]))
                await asyncio.wait([asking])
                for role, outcome in some:
                    self._run(self._correct(role, outcome, self._move_by(role, asking), may_stay=True))
                    await asyncio.sleep(0)  # a log that is kept aside is synced
        finally:
            self._is_comparing = False

    async def _correct(
        self, role: Follower, outcome: Outcome, moving: Awaitable[None], *, may_stay: bool = False
    ) -> None:
        before = role.position
        try:
            await moving
        except (PeerError, KafkaError) as error:
            # The fetches of all partitions say once that a leader is away, and none says that one has not heard of its role.
            passes = isinstance(error, PeerError) or error.retriable
            level = logging.DEBUG if may_stay and passes else logging.WARNING
            log.log(level, "%s: no place to go on was found: %s", role.topic_partition, error)
            outcome.refused(role, role.position)
        except Exception:  # a mistake in one partition may not stop all that come from this leader
            log.exception("%s: no place to go on was found", role.topic_partition)
            outcome.refused(role, role.position)
        else:
            # Its leader refuses the same position for another reason, and would be asked without a pause.
            if role.position == before and not may_stay:
                outcome.refused(role, before)
            else:
                role.settle(outcome)

    async def _move(self, role: Follower, *, is_archived: bool) -> None:
        start = await self._end(role, _EARLIEST)
        if is_archived:
            await self._begin_behind_archive(role, start)
        else:
            await _move_into(role, start, await self._end(role, _LATEST))

    async def _move_by(self, role: Follower, asking: asyncio.Task[tuple[_Told, _Told, _EpochEnds]]) -> None:
        """Move into what the leader's log has of the cleaner's history: behind that another one may end further up."""
        starts, ends, epochs = await asking
        end, epoch = self._offset_of(role, ends), epochs.get(role.topic_partition)
        if epoch is not None:
            self._check(epoch.error_code)
            end = end if epoch.end_offset < 0 else min(end, epoch.end_offset)
        await _move_into(role, self._offset_of(role, starts), end)

    async def _begin_behind_archive(self, role: Follower, start_offset: int) -> None:
        if self._archive is None:
            why = "its leader has moved records to an archive, and this broker has none"
            raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, why)
        local_start = await self._end(role, _EARLIEST_LOCAL)
        history = await read_history(self._archive, _partition_of(role), local_start, role.epoch)
        if history.remote_end < local_start:
            why = (
                f"its archive ends at offset {history.remote_end} in this broker's bucket, and its leader's disk begins at "
                f"{local_start}. Compare stratalog.bucket.url here and at broker {self._leader_id}"
            )
            raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, why)
        if history.remote_end <= role.position.offset:
            # The hole is on its leader's disk: this copy may be the only one that has records behind that end.
            why = f"its archive ends at offset {history.remote_end}, and this copy at {role.position.offset}"
            raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, why)
        await _leave(role)
        role.begin_behind(history.remote_end, history.leader_epochs, history.producer_snapshot, start_offset)

    async def _trim(self, role: Follower) -> None:
        """Evict as the leader has, if its disk begins behind its log: below the log start records are deleted.

        The archive need not have deleted records, and this log may still begin before them. They go with the log start. It
        may also lack what the leader evicted once: it is asked first.
        """
        try:
            local_start = await self._end(role, _EARLIEST_LOCAL)
            start, end = role.evictable(local_start)
            if start < end and await self._end(role, _EARLIEST) < local_start:  # it does not go back
                async with self._reading_back:
                    await self._evict(role, start, end)
        except (PeerError, KafkaError) as error:
            log.debug("%s is not trimmed now: %s", role.topic_partition, error)

    async def _evict(self, role: Follower, start: int, end: int) -> None:
        archive, partition = self._archive, _partition_of(role)
        while start < end:
            verified, why = start, "this broker has no archive"
            if archive is not None:
                verified, why = await read_back(archive, partition, start, end)
            if verified <= start:
                self._tell(role, start, why)
                return
            role.evict_below(verified)
            if self._kept.get(role.key, LONG_MAX) < verified:
                del self._kept[role.key]
            start = verified

    def _tell(self, role: Follower, start: int, why: str) -> None:
        """Say once from where on local segments stay, which would fill the disk without a word."""
        if why and self._kept.get(role.key) != start:
            self._kept[role.key] = start
            text = "%s: local segments from offset %d on stay here, although its leader has let them go: %s"
            log.warning(text, role.topic_partition, start, why)

    async def _ask_for_ends(self, roles: Iterable[Follower]) -> tuple[_Told, _Told, _EpochEnds]:
        return await self._ask(roles, _EARLIEST), await self._ask(roles, _LATEST), await self._ask_for_epochs(roles)

    async def _ask_for_epochs(self, roles: Iterable[Follower]) -> _EpochEnds:
        """The ends of the epochs of cleaners in the leader's logs, where they are known. Raises `PeerError`."""
        topics: dict[str, OffsetForLeaderTopic] = {}
        for role in roles:
            if (epoch := role.cleaner_epoch) is not None:
                name, number = role.topic_partition
                topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
                topic.partitions.append(
                    OffsetForLeaderPartition(partition=number, current_leader_epoch=role.epoch, leader_epoch=epoch)
                )
        if not topics:
            return {}
        request = OffsetForLeaderEpochRequest(replica_id=self._local_id, topics=list(topics.values()))
        answer: OffsetForLeaderEpochResponse = await self._links.ask(
            self._leader_id, request, timeout_ms=self._timeout_ms, version_min=_REPLICAS_SINCE
        )
        return {TopicPartition(each.topic, one.partition): one for each in answer.topics for one in each.partitions}

    async def _end(self, role: Follower, timestamp: int) -> int:
        """One end of the leader's log, in the role's epoch. Raises `PeerError`, `KafkaError`."""
        return self._offset_of(role, await self._ask([role], timestamp))

    async def _ask(self, roles: Iterable[Follower], timestamp: int) -> _Told:
        """One end of the leader's logs, in the epochs of the roles. Raises `PeerError`."""
        topics: dict[str, ListOffsetsTopic] = {}
        for role in roles:
            name, number = role.topic_partition
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(
                ListOffsetsPartition(partition_index=number, current_leader_epoch=role.epoch, timestamp=timestamp)
            )
        request = ListOffsetsRequest(replica_id=self._local_id, isolation_level=0, topics=list(topics.values()))
        answer: ListOffsetsResponse = await self._links.ask(
            self._leader_id,
            request,
            timeout_ms=self._timeout_ms,
            version_min=_LOCAL_SINCE if timestamp == _EARLIEST_LOCAL else _EPOCHS_SINCE,
        )
        return {
            TopicPartition(each.name, one.partition_index): one for each in answer.topics for one in each.partitions
        }

    def _offset_of(self, role: Follower, told: _Told) -> int:
        """The role's in an answer. Raises `KafkaError`."""
        one = told.get(role.topic_partition)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if one is None else one.error_code
        self._check(code)
        return -1 if one is None else one.offset

    def _check(self, code: int) -> None:
        if code:
            raise KafkaError(ErrorCode(code), f"broker {self._leader_id} does not tell the ends of its log")


async def _move_into(role: Follower, start: int, end: int) -> None:
    if start > role.position.offset:
        await _leave(role)
    while role.move_into(start, end):  # noqa: ASYNC110 - nothing tells of it, it is the work itself
        await asyncio.sleep(0)


def _partition_of(role: Follower) -> PartitionId:
    topic, number = role.topic_partition
    return PartitionId(topic, role.key.topic_id, number)


async def _leave(role: Follower) -> None:
    """Let the segments of a log that begins anew go before that, oldest first: each costs syncs of its directory."""
    while role.evict_below(LONG_MAX):  # noqa: ASYNC110 - nothing tells of it, it is the work itself
        await asyncio.sleep(_LEAVING_SECONDS)
