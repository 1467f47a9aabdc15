"""The shards of one kind of coordinator on this broker: one for each partition of its topic that is led here."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Final

from stratalog.broker.coordinators.driver_state import DriverState
from stratalog.broker.coordinators.shard_driver import DriverServices, ShardDriver
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.metadata.coordination import CoordinatorShard
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.record_texts import check_text
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.partitioner import coordinator_partition

__all__ = ["CoordinatorHost"]

_READ_AT_ONCE: Final = 1
"""Each log that is read takes its share of every turn of the event loop: fifty at once would make turns long."""

_KEYS_KEPT: Final = 10_000
"""Keys whose partition is remembered: Java's hash takes microseconds in Python."""

_KEPT_CHARACTERS_MAX: Final = 256
"""Longer keys are not remembered: clients could fill the memory with them."""


class CoordinatorHost:
    """Loads a shard when its partition is led here, lets it go when it is not, and finds the one of a key."""

    def __init__(
        self,
        topic: str,
        new_shard: Callable[[UnifiedLog], CoordinatorShard],
        services: DriverServices,
        image: Callable[[], ClusterImage],
    ) -> None:
        self.topic = topic
        self._new_shard = new_shard
        self._services = services
        self._image = image
        self._drivers: dict[int, ShardDriver] = {}
        self._reading = asyncio.Semaphore(_READ_AT_ONCE)
        self._partition_of = functools.lru_cache(maxsize=_KEYS_KEPT)(coordinator_partition)

    def __iter__(self) -> Iterator[ShardDriver]:
        """The drivers of what is led here."""
        return iter(self._drivers.values())

    def led(self, unified: UnifiedLog) -> None:
        """A partition is led from now on: load its shard, anew for each leadership.

        Nothing happens if it is none of this coordinator's, or if its leadership has a shard already.
        """
        topic, number = unified.topic_partition
        if topic != self.topic:
            return
        before = self._drivers.get(number)
        if before is not None:
            if before.leader is unified.partition.leader:
                return
            before.close()
        driver = self._drivers[number] = ShardDriver(unified, self._new_shard, self._services, self._reading)
        driver.load()

    def released(self, unified: UnifiedLog) -> None:
        """A partition is led no longer."""
        topic, number = unified.topic_partition
        if topic == self.topic and (driver := self._drivers.pop(number, None)) is not None:
            driver.close()

    def partition_of(self, key: str) -> int | None:
        """Which partition coordinates ``key``; None while the topic does not exist.

        Raises INVALID_REQUEST for a key that no record can hold: its hash alone would keep the loop for long.
        """
        topic = self._image().topics.by_name.get(self.topic)
        if topic is None:
            return None
        if len(key) <= _KEPT_CHARACTERS_MAX:
            return self._partition_of(key, len(topic.partitions))
        check_text("The coordinator's key", key)
        return coordinator_partition(key, len(topic.partitions))

    def of(self, key: str) -> ShardDriver:
        """The driver that coordinates ``key``, taking events.

        Raises NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST.
        """
        number = self.partition_of(key)
        if number is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.topic} does not exist yet; find the coordinator first")
        return self.driver(number)

    def driver(self, number: int) -> ShardDriver:
        """The driver of a partition, taking events. Raises as `of`."""
        driver = self._drivers.get(number)
        if driver is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")
        if driver.state is not DriverState.ACTIVE:
            driver.check_active()
        return driver

    @property
    def loading(self) -> bool:
        """Whether a shard is still being read, so that a list of all would be incomplete."""
        return any(driver.state is DriverState.LOADING for driver in self)

    def failures(self) -> list[str]:
        """Which partitions cannot be read, a sentence each."""
        return [f"{one.unified.topic_partition}: {one.failure}" for one in self if one.failure is not None]

    def drain(self) -> None:
        """The broker is about to stop."""
        for driver in self:
            driver.drain()

    def close(self) -> None:
        """Let go of everything."""
        for driver in list(self):
            driver.close()
        self._drivers.clear()
