"""All coordinators of a broker, as the node sees them: one object that follows what is led here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stratalog.broker.coordinators.group_metrics import add_group_figures
from stratalog.broker.coordinators.groups import GroupCoordinator
from stratalog.broker.coordinators.host import CoordinatorHost
from stratalog.broker.coordinators.internal_topics import InternalTopics
from stratalog.broker.coordinators.transaction_metrics import add_transaction_figures
from stratalog.broker.coordinators.transactions import TransactionCoordinator
from stratalog.broker.unified_log import UnifiedLog
from stratalog.metadata.image import ClusterImage
from stratalog.wire.topic import Uuid

if TYPE_CHECKING:
    from stratalog.broker.node import Node

__all__ = ["Coordinators"]


class Coordinators:
    """The coordinators and their topics."""

    def __init__(self, node: Node) -> None:
        self.internal_topics = InternalTopics(node)
        self.groups = GroupCoordinator(node.config, clock=node.clock, tick=node.tick, image=lambda: node.image)
        add_group_figures(node.metrics, self.groups, node.clock)

        async def next_producer_id() -> int:
            return int(await node.producer_ids.next())  # made later than the coordinators

        self.transactions = TransactionCoordinator(
            lambda: node.config,
            clock=node.clock,
            tick=node.tick,
            image=lambda: node.image,
            partitions=lambda: node.partitions,
            groups=self.groups,
            next_producer_id=next_producer_id,
        )
        add_transaction_figures(node.metrics, self.transactions, node.clock)
        self._hosts: list[CoordinatorHost] = [self.groups.host, self.transactions.host]

    def led(self, unified: UnifiedLog) -> None:
        """A partition is led from now on."""
        for host in self._hosts:
            host.led(unified)

    def released(self, unified: UnifiedLog) -> None:
        """A partition is led no longer."""
        for host in self._hosts:
            host.released(unified)

    def topics_changed(self, image: ClusterImage, removed: Mapping[Uuid, str]) -> None:
        """The image has changed."""
        self.groups.topics_changed(image, removed)

    def failures(self) -> list[str]:
        """Which of their partitions cannot be read, a sentence each."""
        return [failure for host in self._hosts for failure in host.failures()]

    def drain(self) -> None:
        """The broker is about to stop: nothing new is taken."""
        for host in self._hosts:
            host.drain()

    def close(self) -> None:
        """Let go of everything."""
        self.transactions.close()
        self.groups.patterns.close()
        for host in self._hosts:
            host.close()
