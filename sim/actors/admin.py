"""The administrator: makes topics, deletes some, deletes records, changes settings."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from sim.actors.link import Caller, LinkLost
from sim.actors.surroundings import Surroundings
from sim.model import PartitionModel, TopicModel, Violation
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratalog.wire.topic import ZERO_UUID

__all__ = ["Admin"]

_TIMEOUT_MS: Final = 10_000
_METADATA_KEY: Final = 3
_METADATA_WITH_IDS: Final = 10


class Admin(Caller):
    """Administers until `stop` is called."""

    refusals: frozenset[ErrorCode] = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER})
    """Codes of DeleteRecords after which nothing is promised."""

    def __init__(self, world: Surroundings, name: str, dice: random.Random) -> None:
        super().__init__(world.loop, name, world.port, dice)
        self.world = world
        self.version_floors = {_METADATA_KEY: _METADATA_WITH_IDS}
        self.stopped = False
        self._created = 0

    async def run(self, changes: int) -> None:
        """Make changes now and then."""
        for _ in range(changes):
            await asyncio.sleep(self.dice.uniform(0.2, 2))
            if self.stopped:
                return
            topics = self.world.model.living()
            try:
                if not topics or self.dice.random() < 0.2:
                    await self.create_topic()
                elif len(topics) > 1 and self.dice.random() < 0.2:
                    await self.delete_topic(self.dice.choice(topics))
                elif not (topic := self.dice.choice(topics)).compacted:
                    await self.delete_records(self.dice.choice(topic.partitions))
            except LinkLost:
                continue

    # -- topics --------------------------------------------------------------------------------------------------------

    async def create_topics(self, count: int) -> None:
        """Make the first topics."""
        for _ in range(count):
            await self.create_topic()

    async def create_topic(self) -> TopicModel:
        """Make a topic as the dice want it, whatever it takes."""
        self._created += 1
        configs = self._configs()
        return await self.make_topic(f"t{self._created}", self.dice.choice((1, 1, 2)), configs)

    async def make_topic(self, name: str, count: int, configs: dict[str, str]) -> TopicModel:
        """Make a topic, whatever it takes; the model knows it as soon as its id is known."""
        while True:
            try:
                await self._ask_to_create(name, count, configs)
                topic_id = await self._topic_id(name)
            except LinkLost:
                topic_id = None
            if topic_id is not None:
                self.loop.trace.note(self.name, f"made {name} x{count} {configs}")
                return self.world.model.add(name, topic_id, count, configs)
            await asyncio.sleep(0.3)

    def _configs(self) -> dict[str, str]:
        dice, world = self.dice, self.world
        configs = {
            "internal.segment.bytes": str(dice.choice((2000, 3000, 8000))),
            "index.interval.bytes": str(dice.choice((0, 100, 4096))),
        }
        if world.plan.unsynced and dice.random() < 0.5:
            configs["flush.messages"] = "9223372036854775807"
        if world.plan.tiering and dice.random() < 0.7:
            configs |= {"remote.storage.enable": "true", "local.retention.bytes": str(dice.choice((0, 0, 3000)))}
        if world.plan.compaction and dice.random() < 0.5:
            configs |= {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": str(dice.choice((0.01, 0.3))),
                "max.compaction.lag.ms": str(dice.choice((1000, 9_223_372_036_854_775_807))),
            }
        if dice.random() < 0.2 and "cleanup.policy" not in configs:
            configs["retention.ms"] = str(dice.choice((3000, 10_000)))
        else:
            configs["retention.ms"] = "-1"
        if dice.random() < 0.2:
            configs["compression.type"] = dice.choice(("zstd", "uncompressed", "gzip"))
        if dice.random() < 0.15:
            configs["message.timestamp.type"] = "LogAppendTime"
        if dice.random() < 0.3:
            configs["segment.ms"] = str(dice.choice((500, 3000)))
        return configs

    async def _ask_to_create(self, name: str, count: int, configs: dict[str, str]) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=count,
                    replication_factor=1,
                    assignments=[],
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
                )
            ],
            timeout_ms=_TIMEOUT_MS,
            validate_only=False,
        )
        answer = (await self.call(request)).topics[0]
        code = ErrorCode(answer.error_code)
        if code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.KAFKA_STORAGE_ERROR}:
            raise Violation(f"{self.name}: {name} cannot be made: {code.name} {answer.error_message}")

    async def _topic_id(self, name: str) -> bytes | None:
        topics: Any = [MetadataRequestTopic(name=name, topic_id=ZERO_UUID)]
        answer = await self.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        found = answer.topics[0]
        return bytes(found.topic_id) if found.error_code == 0 else None

    async def delete_topic(self, topic: TopicModel) -> None:
        """Ask for a deletion. Raises `LinkLost`, `Violation`."""
        topic.deleting = True
        self.loop.trace.note(self.name, f"deletes {topic.name}")
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic.name, topic_id=ZERO_UUID)],
            topic_names=[topic.name],
            timeout_ms=_TIMEOUT_MS,
        )
        code = ErrorCode((await self.call(request)).responses[0].error_code)
        if code not in {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}:
            raise Violation(f"{self.name}: {topic.name} cannot be deleted: {code.name}")

    # -- records -------------------------------------------------------------------------------------------------------

    async def delete_records(self, partition: PartitionModel, offset: int = -1) -> None:
        """Delete below an offset, by default a drawn one. Raises `LinkLost`, `Violation`."""
        if offset < 0:
            offset = self.dice.randint(0, max(partition.end, 1))
        if offset > partition.end:
            return
        partition.deleted_to = max(partition.deleted_to, offset)
        self.loop.trace.note(self.name, f"deletes {partition} below {offset}")
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=partition.topic.name,
                    partitions=[DeleteRecordsPartition(partition_index=partition.number, offset=offset)],
                )
            ],
            timeout_ms=_TIMEOUT_MS,
        )
        answer = (await self.call(request)).topics[0].partitions[0]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            if answer.low_watermark < offset:
                raise Violation(
                    f"{self.name}: {partition} was cut at {offset}, its low watermark is {answer.low_watermark}"
                )
            partition.promise_start(answer.low_watermark)
        elif code is ErrorCode.KAFKA_STORAGE_ERROR:
            partition.start_written_down = False
        elif code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.world.check_may_be_gone(partition.topic, self.name)
        elif code not in self.refusals:
            raise Violation(f"{self.name}: {partition} cannot be cut at {offset}: {code.name}")
