"""All coordinators of a broker, as the node sees them: one object that follows what is led here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from stratalog.broker.control.producer_ids import ProducerIds
from stratalog.broker.coordinators.group_metrics import add_group_figures
from stratalog.broker.coordinators.groups import GroupCoordinator
from stratalog.broker.coordinators.hanging import HangingTransactions, add_hanging_figures
from stratalog.broker.coordinators.host import CoordinatorHost
from stratalog.broker.coordinators.internal_topics import InternalTopics, TopicMaking
from stratalog.broker.coordinators.late import LateTransactions, add_late_figures
from stratalog.broker.coordinators.transaction_metrics import add_transaction_figures
from stratalog.broker.coordinators.transactions import TransactionCoordinator
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

if TYPE_CHECKING:
    from stratalog.broker.coordinators.remote_transactions import RemoteTransactions

__all__ = ["CoordinatorServices", "Coordinators"]


class CoordinatorServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that coordinators use. ``config`` and ``image`` are as they are now."""

    config: Callable[[], BrokerConfig]
    clock: Clock
    tick: Tick
    metrics: Metrics
    image: Callable[[], ClusterImage]
    partitions: PartitionTable
    producer_ids: ProducerIds
    topics: TopicMaking
    remote: RemoteTransactions | None = None
    """The way of transactions to other brokers, None where there are none."""


class Coordinators:
    """The coordinators and their topics."""

    def __init__(self, services: CoordinatorServices) -> None:
        clock, tick, image = services.clock, services.tick, services.image
        self.internal_topics = InternalTopics(services.topics)
        self.groups = GroupCoordinator(services.config(), clock=clock, tick=tick, image=image)
        add_group_figures(services.metrics, self.groups, clock)
        self.transactions = TransactionCoordinator(
            services.config,
            clock=clock,
            tick=tick,
            image=image,
            partitions=lambda: services.partitions,
            groups=self.groups,
            next_producer_id=services.producer_ids.next,
            remote=services.remote,
        )
        self._remote = services.remote
        add_transaction_figures(services.metrics, self.transactions, clock)
        self.late = LateTransactions(
            lambda: services.partitions, lambda: services.config().integer("transaction.max.timeout.ms"), clock
        )
        add_late_figures(services.metrics, self.late, clock)
        self.hanging = HangingTransactions(
            self.transactions,
            lambda: services.partitions,
            image,
            is_late=self.late.is_late,
            alone=services.remote is None,
        )
        add_hanging_figures(services.metrics, self.hanging, clock)
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
        self.transactions.follow(image)
        if self._remote is not None:
            self._remote.follow()

    def failures(self) -> list[str]:
        """Which of their partitions cannot be read, a sentence each."""
        return [failure for host in self._hosts for failure in host.failures()]

    def drain(self) -> None:
        """The broker is about to stop: nothing new is taken."""
        for host in self._hosts:
            host.drain()

    def close(self) -> None:
        """Let go of everything."""
        self.internal_topics.close()
        self.hanging.close()
        self.transactions.close()
        if self._remote is not None:
            self._remote.close()
        self.groups.patterns.close()
        for host in self._hosts:
            host.close()
