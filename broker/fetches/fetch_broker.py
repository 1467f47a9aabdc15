"""The broker as a fetch sees it."""

from __future__ import annotations

from typing import Protocol

from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.context import ServedBroker
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.purgatory import Purgatory
from stratalog.broker.settings.config import BrokerConfig
from stratalog.wire.errors import Corrupt

__all__ = ["FetchBroker"]


class FetchBroker(ServedBroker, Protocol):
    """The broker as a fetch sees it."""

    @property
    def config(self) -> BrokerConfig:
        """Its settings, as they are now."""

    @property
    def metrics(self) -> Metrics:
        """Its figures."""

    @property
    def partitions(self) -> PartitionTable:
        """Finds the partitions that can be read here."""

    @property
    def purgatory(self) -> Purgatory:
        """Holds requests that wait."""

    def report_corruption(self, unified: UnifiedLog, error: Corrupt, /) -> None:
        """Log that stored bytes failed their check while being read."""
