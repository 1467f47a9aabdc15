"""The clients of a single broker, in a cluster: each request goes to the broker that leads."""

from __future__ import annotations

from typing import Any

from sim.actors.groups import ClassicMember, ConsumerMember
from sim.actors.producers import Batch, IdempotentProducer
from sim.actors.readers import Reader
from sim.actors.transactions import TransactionalProducer
from sim.cluster.routes import Routed, leader_of
from sim.model import PartitionModel
from stratalog.wire.batch import check_batch, iter_headers
from stratalog.wire.errors import Corrupt, ErrorCode

__all__ = ["RoutedClassicMember", "RoutedConsumerMember", "RoutedProducer", "RoutedReader", "RoutedTransactions"]

_REST_SECONDS = 0.2
"""The shortest mean pause of a producer: brokers that copy what it writes take their time."""


class RoutedProducer(Routed, IdempotentProducer):
    """Sends each attempt to the leader of its moment."""

    async def rest(self, seconds: float = _REST_SECONDS) -> None:
        """Let a drawn time pass."""
        await super().rest(max(seconds, _REST_SECONDS))

    def took(self, partition: PartitionModel, batch: Batch, answer: Any) -> ErrorCode:
        """The broker's answer to a batch."""
        code = super().took(partition, batch, answer)
        if code is ErrorCode.NONE:
            base_offset = answer.responses[0].partition_responses[0].base_offset
            self.world.cluster.unclean.acknowledged(partition, base_offset, batch.values)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self._asks_the_leader(partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # a leader that was cut off lacks what the next one acknowledged
        return code

    def _asks_the_leader(self, partition: PartitionModel) -> bool:
        """Whether the broker that was asked leads in the newest image."""
        cluster = self.world.cluster
        leader = leader_of(cluster, partition.topic.topic_id, partition.number)[0]
        return leader >= 0 and self.routes.port == cluster.members[leader].port

    async def _attempt(self, partition: PartitionModel, batches: list[Batch]) -> None:
        self.routes.point(leader_of(self.world.cluster, partition.topic.topic_id, partition.number)[0])
        await super()._attempt(partition, batches)


class RoutedTransactions(Routed, TransactionalProducer):
    """Asks its coordinator, and sends records to the leaders of their partitions."""

    async def rest(self, seconds: float = _REST_SECONDS) -> None:
        """Let a drawn time pass."""
        await super().rest(max(seconds, _REST_SECONDS))

    async def post(self, partition: PartitionModel, batch: Batch, acks: int = -1) -> Any:
        """Send one batch. Raises `LinkLost`."""
        self.routes.point(leader_of(self.world.cluster, partition.topic.topic_id, partition.number)[0])
        return await super().post(partition, batch, acks)


class RoutedClassicMember(Routed, ClassicMember):
    """A member of a group of the classic protocol."""


class RoutedConsumerMember(Routed, ConsumerMember):
    """A member of a group of the protocol of KIP-848."""


class RoutedReader(Routed, Reader):
    """Asks the leader of the moment. Ends and errors that a former leader tells are left out."""

    async def fetch_raw(self, partition: PartitionModel, position: int, max_wait_ms: int | None = None) -> Any:
        """The leader's answer; None if it has to be asked again."""
        answer = await super().fetch_raw(partition, position, max_wait_ms)
        is_news = answer is None or not answer.error_code or self.is_current
        return answer if is_news else None

    def take(self, partition: PartitionModel, position: int, answer: Any) -> tuple[int, list[tuple[int, bytes]]]:
        """Compare what came with the model; batches that are damaged are asked for again."""
        if "rot" in self.world.cluster.plan.faults and not _is_sound(
            answer.records, position, is_dense=not partition.topic.compacted
        ):
            return position, []
        return super().take(partition, position, answer)

    async def offset_of(self, partition: PartitionModel, timestamp: int) -> int | None:
        """The leader's answer to ListOffsets; None if it has to be asked again."""
        found = await super().offset_of(partition, timestamp)
        return found if self.is_current else None


def _is_sound(records: Any, offset: int, *, is_dense: bool) -> bool:
    """Whether every batch has its CRC, the first has the offset that was asked for, and each begins where the last ends."""
    data = memoryview(records) if records is not None else memoryview(b"")
    try:
        for position, header in iter_headers(data):
            check_batch(data, position)
            if is_dense and not header.base_offset <= offset < header.next_offset:
                return False
            offset = header.next_offset
    except Corrupt:
        return False
    return True
