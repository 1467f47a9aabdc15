"""Producers: idempotent ones that retry until they know, plain ones that send once and take what comes."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from msgspec import Struct

from sim.actors.codes import GONE, RETRIABLE
from sim.actors.link import Caller, LinkLost
from sim.actors.surroundings import Surroundings
from sim.model import PartitionModel, Sent, Violation
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.metadata import MetadataRequest
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["Batch", "IdempotentProducer", "PlainProducer", "Producer"]

_BATCH_BYTES_MAX: Final = 1200
"""Values of one batch; the smallest segments take it."""


class Batch(Struct):
    """A batch until its producer knows what became of it."""

    values: list[bytes]
    data: bytearray
    sequence: int
    done: bool = False


class Producer(Caller):
    """Base of both kinds. ``rounds``: how many bundles of batches it sends."""

    once = False
    transactional_id: str | None = None

    def __init__(self, world: Surroundings, name: str, dice: random.Random, rounds: int) -> None:
        super().__init__(world.loop, name, world.port, dice)
        self.world = world
        self.rounds = rounds
        self._numbers: dict[PartitionModel, int] = {}

    def has_more(self) -> bool:
        """Whether there is another round, which begins now."""
        self.rounds -= 1
        return self.rounds >= 0

    def pick(self) -> PartitionModel | None:
        """A partition to write to; None if there is none."""
        topics = self.world.model.living()
        return self.dice.choice(self.dice.choice(topics).partitions) if topics else None

    def new_batch(self, partition: PartitionModel, sequence: int = -1, **identity: Any) -> Batch:
        """A batch of records that were never sent before."""
        dice, now_ms = self.dice, self.world.clock.wall_ms()
        keyed = partition.topic.compacted
        records: list[Record] = []
        room = _BATCH_BYTES_MAX
        for at in range(dice.choice((1, 1, 2, 3, 5, 8))):
            number = self._numbers[partition] = self._numbers.get(partition, -1) + 1
            value = b"%s:%d:" % (self.name.encode(), number)
            value += b"." * max(0, min(dice.choice((0, 10, 100, 700)), room))
            room -= len(value)
            key = b"k%d" % dice.randrange(9) if keyed or dice.random() < 0.3 else None
            partition.sent[value] = Sent(self.name, number, now_ms, self.once, key)
            records.append(Record(at, now_ms, key, value))
        codec = dice.choice((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP))
        data = build_batch(records, codec=codec, base_sequence=sequence, **identity)
        return Batch([record.value or b"" for record in records], data, sequence)

    async def post(self, partition: PartitionModel, batch: Batch, acks: int = -1) -> asyncio.Future[Any]:
        """Send one batch. Raises `LinkLost`."""
        topic = partition.topic
        for value in batch.values:
            partition.sent[value].attempts += 1
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=acks,
            timeout_ms=self.dice.choice((1000, 5000, 30_000)),
            topic_data=[
                TopicProduceData(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_data=[PartitionProduceData(index=partition.number, records=memoryview(batch.data))],
                )
            ],
        )
        return await self.send(request)

    def took(self, partition: PartitionModel, batch: Batch, answer: Any) -> ErrorCode:
        """The broker's answer to a batch; an acknowledged batch is in the model from here on."""
        one = answer.responses[0].partition_responses[0]
        code = ErrorCode(one.error_code)
        self.loop.trace.note(
            self.name, f"{partition} {batch.sequence}+{len(batch.values)}: {code.name} {one.base_offset}"
        )
        if code is ErrorCode.NONE:
            batch.done = True
            partition.acknowledged(one.base_offset, batch.values)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            batch.done = True
            partition.acknowledged(-1, batch.values)
        elif code in GONE:
            self.world.check_may_be_gone(partition.topic, self.name)
        elif code not in RETRIABLE and code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise Violation(f"{self.name}: {partition} answers {code.name}: {one.error_message}")
        return code

    async def rest(self, seconds: float = 0.05) -> None:
        """Let a drawn time pass."""
        await asyncio.sleep(self.dice.uniform(0, 2 * seconds))


class PlainProducer(Producer):
    """Sends each batch once, one at a time; what it does not hear of may be there or not."""

    async def run(self) -> None:
        """Send everything."""
        while self.has_more():
            partition = self.pick()
            if partition is not None:
                await self._send_one(partition)
            await self.rest()

    async def _send_one(self, partition: PartitionModel) -> None:
        batch = self.new_batch(partition)
        acks = self.dice.choice((-1, -1, -1, 1))
        try:
            answer = await self.answer(await self.post(partition, batch, acks))
        except LinkLost:
            return
        one = answer.responses[0].partition_responses[0]
        if acks == 1 and one.error_code == 0:
            return  # in the page cache; nothing is promised
        if self.took(partition, batch, answer) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise Violation(f"{self.name}: a batch without sequence is out of order")


class IdempotentProducer(Producer):
    """Sends up to five batches at once and retries, over reconnects and restarts, until each is acknowledged."""

    once = True

    def __init__(self, world: Surroundings, name: str, dice: random.Random, rounds: int) -> None:
        super().__init__(world, name, dice, rounds)
        self._identity: dict[str, Any] | None = None
        self._sequences: dict[PartitionModel, int] = {}

    async def run(self) -> None:
        """Send everything."""
        while self.has_more():
            partition = self.pick()
            if partition is not None:
                await self._send_bundle(partition)
            await self.rest()

    async def _send_bundle(self, partition: PartitionModel) -> None:
        if self._identity is None:
            self._identity = await self._new_identity()
        batches = []
        for _ in range(self.dice.randint(1, 5)):
            sequence = self._sequences.get(partition, 0)
            batch = self.new_batch(partition, sequence, **self._identity)
            self._sequences[partition] = sequence + len(batch.values)
            batches.append(batch)
        while (waiting := [one for one in batches if not one.done]) and self._identity and not partition.topic.deleting:
            try:
                await self._attempt(partition, waiting)
            except LinkLost:
                await self.rest(0.3)

    def _begin_anew(self, partition: PartitionModel, batch: Batch) -> None:
        """Go on under another producer id; whether the batch is in the log is for the end to see.

        A snapshot remembers one batch of each producer, so after a restart the copy of an older one looks like a
        gap, as in Kafka. Raises `Violation` for any other gap.
        """
        if partition.sent[batch.values[0]].attempts < 2 and not partition.may_lack_records:
            raise Violation(
                f"{self.name}: sequence {batch.sequence} of {partition} is out of order, though everything before it "
                "was acknowledged: the log lost what it had"
            )
        self._identity = None
        self._sequences.clear()

    async def _new_identity(self) -> dict[str, Any]:
        while True:
            try:
                answer = await self.call(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), timeout=5
                )
            except LinkLost:
                await self.rest(0.3)
                continue
            if answer.error_code == 0:
                self.world.checker.new_producer_id(answer.producer_id, self.name)
                return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
            await self.rest(0.3)

    async def _attempt(self, partition: PartitionModel, batches: list[Batch]) -> None:
        sent = [await self.post(partition, batch) for batch in batches]
        if self.dice.random() < 0.2:
            asked = await self.send(MetadataRequest(topics=[], allow_auto_topic_creation=False))
            await self.answer(asked)  # behind the others, though it need not wait for the disk
        first = batches[0]
        failed = False
        for batch, future in zip(batches, sent, strict=True):
            code = self.took(partition, batch, await self.answer(future))
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch is first:
                self._begin_anew(partition, batch)
                return
            failed = failed or code is not ErrorCode.NONE
        if failed:
            await self.rest(0.3)
