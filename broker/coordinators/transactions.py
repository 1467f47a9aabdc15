"""The transaction coordinator of this broker: requests of producers go to the shard that keeps their transactional id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import structs

from stratalog.broker.coordinators.ceilings import Ceiling
from stratalog.broker.coordinators.enlistment import Enlistment
from stratalog.broker.coordinators.groups import GroupCoordinator
from stratalog.broker.coordinators.host import CoordinatorHost
from stratalog.broker.coordinators.internal_topics import TRANSACTION_TOPIC
from stratalog.broker.coordinators.marker_writer import MarkerWriter
from stratalog.broker.coordinators.partition_markers import PartitionMarkers
from stratalog.broker.coordinators.shard_driver import DriverServices, ShardDriver
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.dispatch import PENDING, Pending
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.coordination import Action
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.transactions.events import (
    AllocateProducerId,
    InitProducer,
    ProducerIdAllocated,
    SendMarkers,
    TransactionSettings,
)
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from stratalog.broker.coordinators.remote_transactions import RemoteTransactions

__all__ = ["TransactionCoordinator", "transaction_settings"]

log = logging.getLogger(__name__)


class TransactionCoordinator:
    """All transactional ids whose partitions of ``__transaction_state`` are led here."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        *,
        clock: Clock,
        tick: Tick,
        image: Callable[[], ClusterImage],
        partitions: Callable[[], PartitionTable],
        groups: GroupCoordinator,
        next_producer_id: Callable[[], Awaitable[int]],
        remote: RemoteTransactions | None = None,
    ) -> None:
        """``remote`` is the way to other brokers, None where there are none."""
        self._remote = remote
        self._config = config
        self._image = image
        self._next_producer_id = next_producer_id
        self._allocations: set[asyncio.Task[None]] = set()
        services = DriverServices(clock=clock, tick=tick, perform=self._perform, on_active=self._loaded)
        self.on_active: Callable[[ShardDriver], None] = lambda _: None
        """Called when a shard is loaded, before it takes the first request."""
        self.ceiling = Ceiling(
            "stratalog.transactional.ids.max",
            lambda: config().integer("stratalog.transactional.ids.max"),
            self._count_ids,
            clock,
        )
        self.host = CoordinatorHost(TRANSACTION_TOPIC, self._new_shard, services, image)
        self.enlistment = Enlistment(self.ask if remote is None else self._ask_coordinator)
        self.markers = PartitionMarkers(partitions, groups, clock, self.enlistment.marked)
        """Markers for partitions led here, also those that other coordinators ask for."""
        self._writer = MarkerWriter(self.markers, image, None if remote is None else remote.markers)

    def _new_shard(self, _unified: UnifiedLog) -> TransactionShard:
        return TransactionShard(transaction_settings(self._config(), self._image()))

    def follow(self, image: ClusterImage) -> None:
        """Let loaded shards have the cluster's transaction version of now: what they end by themselves goes by it.

        A shard stays loaded for as long as its leadership. With version 1 a late marker ends the next transaction (KIP-890).
        """
        version = _transaction_version(image)
        for driver in self.host:
            shard = driver.shard
            assert isinstance(shard, TransactionShard)
            if shard.settings.version != version:
                shard.settings = structs.replace(shard.settings, version=version)

    # -- requests -----------------------------------------------------------------------------------------------------

    def submit(self, transactional_id: str, event: Any) -> Pending:
        """Give an event to the shard of its transactional id; its token is answered later.

        Raises INVALID_REQUEST for an empty id, POLICY_VIOLATION for a new one if there are too many, and what `CoordinatorHost.of` raises.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        driver = self.host.of(transactional_id)
        if type(event) is InitProducer:
            assert isinstance(driver.shard, TransactionShard)
            if transactional_id not in driver.shard.transactions:
                self.ceiling.admit(transactional_id, ErrorCode.POLICY_VIOLATION)
        driver.ask(event)
        return PENDING

    def ask(self, transactional_id: str, event: Any) -> None:
        """The same, with every error for the event's token."""
        try:
            self.submit(transactional_id, event)
        except KafkaError as error:
            event.token.fail(error)

    def _ask_coordinator(self, transactional_id: str, event: Any) -> None:
        """Ask the coordinator of the transactional id, wherever it is."""
        remote = self._remote
        assert remote is not None
        try:
            number = self.host.partition_of(transactional_id)
            elsewhere = None if number is None else remote.coordinator_elsewhere(number)
        except KafkaError as error:
            event.token.fail(error)
            return
        if elsewhere is None:
            self.ask(transactional_id, event)
        else:
            remote.ask(elsewhere, event)

    def _count_ids(self) -> int:
        shards = [driver.shard for driver in self.drivers()]
        return sum(len(shard.transactions) for shard in shards if isinstance(shard, TransactionShard))

    def drivers(self) -> list[ShardDriver]:
        """The shards that take events now."""
        return [driver for driver in self.host if driver.active]

    def _loaded(self, driver: ShardDriver) -> None:
        self.on_active(driver)

    @property
    def loading(self) -> bool:
        """Whether a list of all transactions would be incomplete for now."""
        return self.host.loading

    # -- what shards ask for --------------------------------------------------------------------------------------------

    def _perform(self, driver: ShardDriver, action: Action) -> None:
        if isinstance(action, SendMarkers):
            self._writer.send(driver, action)
            return
        assert isinstance(action, AllocateProducerId)
        task = asyncio.get_running_loop().create_task(self._allocate(driver, action))
        self._allocations.add(task)
        task.add_done_callback(self._allocations.discard)

    async def _allocate(self, driver: ShardDriver, action: AllocateProducerId) -> None:
        shard = driver.shard
        try:
            producer_id = await self._next_producer_id()
        except KafkaError as error:
            log.warning(
                "no producer id could be allocated for transactional id %s: %s", action.event.transactional_id, error
            )
            if driver.shard is shard and driver.active:
                assert isinstance(shard, TransactionShard)
                shard.allocation_failed(action)
                if action.event.token is not None:
                    action.event.token.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)))
            return
        if driver.shard is shard and driver.active:
            driver.ask(ProducerIdAllocated(action, producer_id))

    def close(self) -> None:
        """Forget what is being asked for."""
        for task in self._allocations:
            task.cancel()


def transaction_settings(config: BrokerConfig, image: ClusterImage) -> TransactionSettings:
    """The broker settings that transactions obey."""
    integer = config.integer
    return TransactionSettings(
        max_timeout_ms=integer("transaction.max.timeout.ms"),
        id_expiration_ms=integer("transactional.id.expiration.ms"),
        abort_timed_out_interval_ms=integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        remove_expired_interval_ms=integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
        patience_ms=integer("add.partitions.to.txn.retry.backoff.max.ms"),
        version=_transaction_version(image),
    )


def _transaction_version(image: ClusterImage) -> int:
    return image.features.get("transaction.version", 0)
