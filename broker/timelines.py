"""What the controller does for a broker whose directory went back in time: it skips what the missing time gave out.

Leader epochs and producer ids come from the metadata log, which went back with the rest of the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stratalog.broker.unified_log import UnifiedLog
from stratalog.metadata.controller_brokers import raise_leader_epoch, skip_producer_ids
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import Uuid

if TYPE_CHECKING:
    from stratalog.broker.node import Node

__all__ = ["ControllerPorts", "Timelines", "controller_ports"]

_RETRY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerPorts:
    """Commands of the controller; each raises `KafkaError`.

    ``raise_epoch`` takes topic id, partition, and the epoch above which to go; ``skip_producer_ids`` leaves out as many as
    the time that is missing cannot have given out.
    """

    raise_epoch: Callable[[Uuid, int, int], Awaitable[object]]
    skip_producer_ids: Callable[[], Awaitable[object]]


def controller_ports(node: Node) -> ControllerPorts:
    """Those of a broker that is its own controller."""

    async def raise_epoch(topic_id: Uuid, partition: int, above: int) -> int:
        return await node.control.execute(lambda image: raise_leader_epoch(image, topic_id, partition, above=above))

    async def skip() -> None:
        first = await node.control.execute(lambda image: skip_producer_ids(image, node.node_id))
        if "producer_ids" in vars(node):  # otherwise none was given out so far
            node.producer_ids.skip_to(first)

    return ControllerPorts(raise_epoch, skip)


class Timelines:
    """Has commands carried out, however long it takes."""

    def __init__(self, ports: ControllerPorts) -> None:
        self._ports = ports
        self._skipped = False
        self._tasks: set[asyncio.Task[None]] = set()

    def raise_epoch(self, unified: UnifiedLog, above: int, done: Callable[[], None]) -> None:
        """Raise the leader epoch of a partition, then go on; nothing more happens if the topic goes meanwhile."""
        number = unified.topic_partition.partition
        self._begin(unified, lambda: self._ports.raise_epoch(unified.topic_id, number, above), done)

    def skip_producers(self, unified: UnifiedLog) -> None:
        """Give out no producer id that an archive may know: its batches would be taken for repetitions of others."""
        if not self._skipped:
            self._skipped = True
            self._begin(unified, self._ports.skip_producer_ids, lambda: None)

    async def skip_now(self) -> None:
        """The same, and wait for it: before the first client is served. Raises `KafkaError`."""
        self._skipped = True
        await self._ports.skip_producer_ids()

    def _begin(self, unified: UnifiedLog, work: Callable[[], Awaitable[object]], done: Callable[[], None]) -> None:
        task = asyncio.get_running_loop().create_task(_until_done(unified, work, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Stop trying."""
        for task in self._tasks:
            task.cancel()


async def _until_done(unified: UnifiedLog, work: Callable[[], Awaitable[object]], done: Callable[[], None]) -> None:
    while True:
        try:
            await work()
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
                return
            log.warning("%s: the controller refuses, it is asked again: %s", unified.topic_partition, error)
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            if unified.remote is not None:
                done()
            return
