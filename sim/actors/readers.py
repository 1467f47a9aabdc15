"""Readers: fetches from anywhere, look-ups by time, and the reading of everything at the end."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any, Final

from sim.actors.codes import GONE
from sim.actors.link import Caller, LinkLost
from sim.actors.surroundings import Surroundings
from sim.model import PartitionModel, Violation
from stratalog.client.records import Fetched, visible_records
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.topic import TopicPartition

__all__ = ["EARLIEST", "LATEST", "Reader"]

EARLIEST: Final = -2
LATEST: Final = -1

_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Reader(Caller):
    """Reads until `stop` is called, and compares each record with the model."""

    def __init__(self, world: Surroundings, name: str, dice: random.Random) -> None:
        super().__init__(world.loop, name, world.port, dice)
        self.world = world
        self.stopped = False
        self.committed = dice.random() < 0.5

    @property
    def hidden(self) -> bool:
        """Whether this reader may not see everything below the high watermark, for transactions may be open."""
        return self.committed and bool(self.world.model.transactions)

    async def run(self) -> None:
        """Read here and there."""
        while not self.stopped:
            topics = self.world.model.living()
            if topics:
                partition = self.dice.choice(self.dice.choice(topics).partitions)
                try:
                    await self._visit(partition)
                except LinkLost:
                    await asyncio.sleep(0.2)
            await asyncio.sleep(self.dice.uniform(0, 0.3))

    async def _visit(self, partition: PartitionModel) -> None:
        if self.dice.random() < 0.25:
            await self.look_up(partition)
            return
        position: int | None = self.dice.choice((0, self.dice.randint(0, max(partition.end, 1))))
        for _ in range(self.dice.randint(1, 6)):
            position = await self.fetch(partition, position)
            if position is None or self.stopped:
                return

    # -- fetching ------------------------------------------------------------------------------------------------------

    async def fetch(self, partition: PartitionModel, position: int) -> int | None:
        """Fetch once; where to go on, None to begin elsewhere. Raises `LinkLost`, `Violation`."""
        known_end = partition.end
        answer = await self.fetch_raw(partition, position)
        if answer is None:
            return None
        if answer.error_code:
            return await self._refused(partition, position, known_end, answer)
        return self.take(partition, position, answer)[0]

    async def fetch_raw(self, partition: PartitionModel, position: int, max_wait_ms: int | None = None) -> Any:
        """The broker's answer for the partition; None if it has to be asked again."""
        topic, dice = partition.topic, self.dice
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=dice.choice((0, 100, 500)) if max_wait_ms is None else max_wait_ms,
            min_bytes=dice.choice((1, 1, 1000)),
            max_bytes=dice.choice((1, 3000, 1 << 20)),
            isolation_level=int(self.committed),
            topics=[
                FetchTopic(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=partition.number,
                            fetch_offset=position,
                            partition_max_bytes=dice.choice((1, 2000, 1 << 20)),
                        )
                    ],
                )
            ],
        )
        answer = await self.call(request, timeout=20)
        if answer.error_code:
            raise Violation(f"{self.name}: a fetch without session answers {ErrorCode(answer.error_code).name}")
        return answer.responses[0].partitions[0] if answer.responses else None

    def take(self, partition: PartitionModel, position: int, answer: Any) -> tuple[int, list[tuple[int, bytes]]]:
        """Compare what came with the model; where to go on, and what there was."""
        data = memoryview(answer.records) if answer.records is not None else memoryview(b"")
        fetched = Fetched(
            TopicPartition(partition.topic.name, partition.number),
            answer.high_watermark,
            answer.log_start_offset,
            answer.last_stable_offset,
            data,
            tuple(answer.aborted_transactions or ()),
        )
        if answer.log_start_offset >= 0:
            partition.told_start(answer.log_start_offset)
        partition.end = max(partition.end, answer.high_watermark)
        self._check_batches(partition, position, data)
        epochs = _epochs_of(data, is_known=partition.topic.replicated)
        records: list[tuple[int, bytes]] = []
        for next_offset, found in visible_records(fetched, position, read_committed=self.committed):
            for record in found:
                if record.offset >= answer.high_watermark:
                    raise Violation(f"{self.name}: {partition} shows offset {record.offset} above its high watermark")
                assert record.value is not None
                while epochs[0][0] <= record.offset:
                    epochs.popleft()
                partition.at(record.offset, record.value, "seen", epochs[0][1])
                transaction = partition.sent[record.value].transaction
                if transaction is not None and self.committed:
                    transaction.see()
                records.append((record.offset, record.value))
            position = max(position, next_offset)
        return position, records

    def _check_batches(self, partition: PartitionModel, position: int, data: memoryview) -> None:
        """The first batch holds what was asked for, each next one begins where the one before ends."""
        if partition.topic.compacted:
            return
        for _, header in iter_headers(data):
            if not header.base_offset <= position < header.next_offset:
                raise Violation(
                    f"{self.name}: {partition} was read at {position}, a batch of [{header.base_offset}, "
                    f"{header.next_offset}) came"
                )
            if header.record_count != header.last_offset_delta + 1:
                raise Violation(f"{self.name}: {partition} has lost records of the batch at {header.base_offset}")
            position = header.next_offset

    async def _refused(self, partition: PartitionModel, position: int, known_end: int, answer: Any) -> int | None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            start = await self.offset_of(partition, EARLIEST)
            if start is not None and start <= position <= known_end:
                self._differs(partition, f"offset {position} of {partition} is out of range, it starts at {start}")
            return start
        self.check_code(partition, code)
        await asyncio.sleep(self.dice.uniform(0.05, 0.5))
        return None

    def _differs(self, partition: PartitionModel, how: str) -> None:
        """A partition is not as it was. Raises `Violation` unless a leader was elected that may lack records."""
        if not partition.may_lack_records:
            raise Violation(f"{self.name}: {how}")

    def check_code(self, partition: PartitionModel, code: ErrorCode) -> None:
        """Raises `Violation` for an error that nothing explains."""
        if code in GONE:
            self.world.check_may_be_gone(partition.topic, self.name)
        elif code is ErrorCode.CORRUPT_MESSAGE and partition.topic.tiered and self.world.bucket.damages:
            return
        elif code not in _AGAIN:
            raise Violation(f"{self.name}: {partition} answers {code.name}")

    # -- looking up ----------------------------------------------------------------------------------------------------

    async def offset_of(self, partition: PartitionModel, timestamp: int) -> int | None:
        """The answer of ListOffsets; None if it has to be asked again. Raises `LinkLost`."""
        answer = await self.call(
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(self.committed),
                topics=[
                    ListOffsetsTopic(
                        name=partition.topic.name,
                        partitions=[ListOffsetsPartition(partition_index=partition.number, timestamp=timestamp)],
                    )
                ],
                timeout_ms=10_000,
            ),
            timeout=20,
        )
        one = answer.topics[0].partitions[0]
        if one.error_code:
            self.check_code(partition, ErrorCode(one.error_code))
            return None
        return int(one.offset)

    async def look_up(self, partition: PartitionModel) -> None:
        """Look an end or a time up, and compare it with what is known. Raises `LinkLost`, `Violation`."""
        kind = self.dice.choice((EARLIEST, LATEST, 0))
        known_start, known_end = partition.start, partition.end
        known = [(offset, value) for offset, value in partition.known.items() if offset < known_end]
        if kind == EARLIEST:
            offset = await self.offset_of(partition, EARLIEST)
            if offset is not None and offset < known_start:
                self._differs(partition, f"{partition} starts at {offset}, it had started at {known_start}")
        elif kind == LATEST:
            offset = await self.offset_of(partition, LATEST)
            if offset is not None and offset < known_end and not self.hidden:
                self._differs(partition, f"{partition} ends at {offset}, it had ended at {known_end}")
        elif known and not self.hidden and not partition.topic.compacted:
            await self._look_up_time(partition, known)

    async def _look_up_time(self, partition: PartitionModel, known: list[tuple[int, bytes]]) -> None:
        wanted = partition.sent[self.dice.choice(known)[1]].timestamp_ms
        found = await self.offset_of(partition, wanted)
        if found is None or partition.topic.configs.get("message.timestamp.type") == "LogAppendTime":
            return
        first = min((offset for offset, value in known if partition.sent[value].timestamp_ms >= wanted), default=-1)
        if found < 0:
            start = await self.offset_of(partition, EARLIEST)
            latest = max(offset for offset, value in known if partition.sent[value].timestamp_ms >= wanted)
            if start is not None and latest >= start:
                self._differs(partition, f"{partition} has nothing at or after {wanted}, offset {latest} is")
            return
        value = partition.known.get(found)
        if value is not None and partition.sent[value].timestamp_ms < wanted:
            self._differs(partition, f"{partition}: offset {found} for {wanted} is older")
        if found > first >= 0:
            start = await self.offset_of(partition, EARLIEST)
            if start is not None and start <= first:
                self._differs(partition, f"{partition}: offset {found} for {wanted}, but {first} comes before")

    # -- at the end ----------------------------------------------------------------------------------------------------

    async def read_all(self, partition: PartitionModel, least: int) -> tuple[int, list[tuple[int, bytes]], int]:
        """Everything from the log start to the end, which is at ``least`` this; begins anew if the log start moves.

        For a reader of committed records the end is the last stable offset, which has to come.
        """
        while True:
            try:
                start = await self.offset_of(partition, EARLIEST)
                end = await self.offset_of(partition, LATEST)
                if start is not None and end is not None and end >= least:
                    records = await self._read_range(partition, start, end)
                    if records is not None:
                        return start, records, end
            except LinkLost:
                pass
            await asyncio.sleep(0.5)

    async def _read_range(self, partition: PartitionModel, position: int, end: int) -> list[tuple[int, bytes]] | None:
        records: list[tuple[int, bytes]] = []
        while position < end:
            answer = await self.fetch_raw(partition, position, max_wait_ms=500)
            if answer is None:
                continue
            if answer.error_code:
                code = ErrorCode(answer.error_code)
                if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.check_code(partition, code)
                return None
            position, found = self.take(partition, position, answer)
            records += found
        return records


def _epochs_of(data: memoryview, *, is_known: bool) -> deque[tuple[int, int]]:
    """For each batch the offset behind it, and the leader epoch that wrote it; -1 for one that says nothing of its content."""
    return deque((one.next_offset, one.partition_leader_epoch if is_known else -1) for _, one in iter_headers(data))
