"""Asks the active controller to raise leader epochs above those that archives know (AlterPartition, with a field of our own).

The metadata of a cluster whose disks all went back in time give epochs out that its archives know already. Thousands of
partitions may need this at once: one request is in flight, and those that come meanwhile go with the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from stratalog.wire.topic import Uuid

__all__ = ["PARTITIONS_MAX", "EpochRaising"]

PARTITIONS_MAX: Final = 1000
"""Partitions in one request: the controller carries it out as one command."""


class _Wanted(Struct, frozen=True, eq=False):
    topic_id: Uuid
    partition: int
    above: int
    raised: asyncio.Future[int]


class EpochRaising:
    """The wishes of one broker, for partitions that it leads. Used on one event loop only."""

    def __init__(
        self,
        ask: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]],
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        image: Callable[[], ClusterImage],
    ) -> None:
        """``ask`` gives the active controller's answer, and raises `KafkaError` where there is none."""
        self._ask = ask
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._image = image
        self._wanted: list[_Wanted] = []
        self._sending: asyncio.Task[None] | None = None

    async def raise_above(self, topic_id: Uuid, partition: int, above: int) -> int:
        """Have the leader epoch of a partition raised above ``above``; the answer is the one that holds then.

        It may be a while until the image of this node has it. Raises `KafkaError`: UNKNOWN_TOPIC_ID if the topic is gone,
        UNSUPPORTED_VERSION if the controller knows no such wish: one of Kafka's, or of a version before this.
        """
        loop = asyncio.get_running_loop()
        wanted = _Wanted(topic_id, partition, above, loop.create_future())
        self._wanted.append(wanted)
        if self._sending is None:
            self._sending = loop.create_task(self._send())
        return await wanted.raised

    def close(self) -> None:
        """Send nothing any more. Those that wait are the callers' to cancel."""
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        try:
            while self._wanted:
                sent, self._wanted = self._wanted[:PARTITIONS_MAX], self._wanted[PARTITIONS_MAX:]
                await self._send_these([one for one in sent if not one.raised.done()])
        finally:
            self._sending = None

    async def _send_these(self, wanted: Sequence[_Wanted]) -> None:
        known = [(one, state) for one in wanted if (state := self._state_of(one)) is not None]
        results: dict[tuple[Uuid, int], AlterPartitionPartitionResult] = {}
        failure: Exception | None = None
        if known:
            try:
                answer = await self._ask(self._request(known))
            except Exception as error:  # noqa: BLE001 - whatever it is, each caller raises it
                failure = error
            else:
                results = dict(_results(answer))
                if answer.error_code:
                    failure = KafkaError(_code(answer.error_code))
        asked = {id(one) for one, _ in known}
        for one in wanted:
            if one.raised.done():
                continue  # its caller has gone meanwhile
            why = _gone(one) if id(one) not in asked else failure or _refusal(one, results)
            if why is None:
                one.raised.set_result(results[one.topic_id, one.partition].leader_epoch)
            else:
                one.raised.set_exception(why)

    def _state_of(self, one: _Wanted) -> PartitionImage | None:
        topic = self._image().topics.by_id.get(one.topic_id)
        return None if topic is None else topic.partitions.get(one.partition)

    def _request(self, known: Sequence[tuple[_Wanted, PartitionImage]]) -> AlterPartitionRequest:
        """The wishes, each with the set that holds: a controller that passes over the wish changes nothing."""
        brokers = self._image().brokers.brokers
        topics: dict[Uuid, AlterPartitionTopic] = {}
        for one, state in known:
            topic = topics.setdefault(one.topic_id, AlterPartitionTopic(topic_id=one.topic_id, partitions=[]))
            members = [(each, brokers.get(each)) for each in state.in_sync_replicas]
            topic.partitions.append(
                AlterPartitionPartition(
                    partition_index=one.partition,
                    leader_epoch=state.leader_epoch,
                    new_isr=list(state.in_sync_replicas),
                    new_isr_with_epochs=[
                        BrokerState(broker_id=each, broker_epoch=-1 if broker is None else broker.epoch)
                        for each, broker in members
                    ],
                    leader_recovery_state=int(state.leader_recovery),
                    partition_epoch=state.partition_epoch,
                    leader_epoch_above=one.above,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )


def _results(answer: AlterPartitionResponse) -> Iterator[tuple[tuple[Uuid, int], AlterPartitionPartitionResult]]:
    for topic in answer.topics:
        for one in topic.partitions:
            yield (topic.topic_id, one.partition_index), one


def _refusal(one: _Wanted, results: dict[tuple[Uuid, int], AlterPartitionPartitionResult]) -> KafkaError | None:
    result = results.get((one.topic_id, one.partition))
    if result is None:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The active controller's answer leaves this partition out.")
    if result.error_code in {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
        return _gone(one)
    if result.error_code:
        return KafkaError(_code(result.error_code), "The active controller does not raise its leader epoch.")
    if result.leader_epoch <= one.above:
        why = "The active controller cannot raise leader epochs: it is Apache Kafka's, or of an earlier version."
        return KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)
    return None


def _code(number: int) -> ErrorCode:
    """The error with this number; one that a newer controller has is unknown here."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _gone(one: _Wanted) -> KafkaError:
    why = f"Partition {one.partition} of a topic that is gone has no leader epoch."
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, why)
