"""Asks leaders on other brokers up to which offset their records are from before a time: the archive may not have all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.peers.peer_errors import PeerError
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.tier.documents.keys import PartitionId
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

__all__ = ["LeaderEnds"]

_LATEST: Final = -1
_EPOCHS_SINCE: Final = 4
_ENDS_MS: Final = 5_000
"""A leader has the ends of its logs in memory: one that takes longer hangs, or cannot be reached. Other views wait meanwhile."""


class LeaderEnds:
    """The questions of one broker."""

    def __init__(
        self, links: BrokerLinks, *, image: Callable[[], ClusterImage], local_id: int, timeout_ms: Callable[[], int]
    ) -> None:
        """``links`` are for these questions alone: a look-up by time may wait for the bucket, as long as ``timeout_ms``."""
        self._links = links
        self._image = image
        self._local_id = local_id
        self._timeout_ms = timeout_ms

    async def ends_at(self, timestamp_ms: int, archived: Mapping[PartitionId, int]) -> dict[PartitionId, int]:
        """The first offset of that time or later in each partition, or the end of its log.

        ``archived`` says up to where the archive is known: a log that ends there, or before, is not searched. Raises
        `KafkaError` LEADER_NOT_AVAILABLE where a leader cannot be asked, or does not answer.
        """
        by_leader: dict[int, dict[PartitionId, PartitionImage]] = {}
        for partition in archived:
            state = self._state_of(partition)
            by_leader.setdefault(state.leader, {})[partition] = state
        asked = [self._at_leader(leader, some, timestamp_ms, archived) for leader, some in by_leader.items()]
        return {partition: end for found in await asyncio.gather(*asked) for partition, end in found.items()}

    def follow(self) -> None:
        """Brokers may have other addresses now."""
        self._links.follow()

    def close(self) -> None:
        """Ask nothing any more."""
        self._links.close()

    def _state_of(self, partition: PartitionId) -> PartitionImage:
        topic = self._image().topics.by_id.get(partition.topic_id)
        state = None if topic is None else topic.partitions.get(partition.partition)
        if state is None or state.leader in {-1, self._local_id}:
            why = "it has no leader now" if state is None or state.leader < 0 else "its log is not open yet"
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition}: {why}")
        return state

    async def _at_leader(
        self,
        leader: int,
        states: Mapping[PartitionId, PartitionImage],
        timestamp_ms: int,
        archived: Mapping[PartitionId, int],
    ) -> dict[PartitionId, int]:
        timeout_ms = self._timeout_ms()
        ends = await self._offsets(leader, states, list(states), _LATEST, min(timeout_ms, _ENDS_MS))
        beyond = [partition for partition, end in ends.items() if end > archived[partition]]
        found = await self._offsets(leader, states, beyond, timestamp_ms, timeout_ms) if beyond else {}
        return ends | {partition: offset for partition, offset in found.items() if offset >= 0}

    async def _offsets(
        self,
        leader: int,
        states: Mapping[PartitionId, PartitionImage],
        wanted: Sequence[PartitionId],
        timestamp: int,
        timeout_ms: int,
    ) -> dict[PartitionId, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for one in wanted:
            topic = topics.setdefault(one.topic, ListOffsetsTopic(name=one.topic, partitions=[]))
            epoch = states[one].leader_epoch
            topic.partitions.append(
                ListOffsetsPartition(partition_index=one.partition, current_leader_epoch=epoch, timestamp=timestamp)
            )
        request = ListOffsetsRequest(replica_id=self._local_id, isolation_level=0, topics=list(topics.values()))
        try:
            answer: ListOffsetsResponse = await self._links.ask(
                leader, request, timeout_ms=timeout_ms, version_min=_EPOCHS_SINCE
            )
        except PeerError as error:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from error
        told = {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}
        offsets: dict[PartitionId, int] = {}
        for one in wanted:
            found = told.get((one.topic, one.partition))
            if found is None or found.error_code:
                code = "leaves it out" if found is None else f"has error {found.error_code}"
                why = f"{one}: the answer of its leader, broker {leader}, to ListOffsets {code}"
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, why)
            offsets[one] = found.offset
        return offsets
