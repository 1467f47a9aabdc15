"""The broker as handlers see it: what ``context.broker`` offers them on a listener of clients, read-only.

A `Node` has all of it. A test of a handler needs only the attributes that the handler reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stratalog.broker.api.metadata_view import MetadataView
from stratalog.broker.archive.tiering import Tiering
from stratalog.broker.control.metadata_fragments import MetadataFragments
from stratalog.broker.control.producer_ids import ProducerIds
from stratalog.broker.coordinators.coordinators import Coordinators
from stratalog.broker.coordinators.groups import GroupCoordinator
from stratalog.broker.coordinators.transactions import TransactionCoordinator
from stratalog.broker.fetches.fetch_sessions import FetchSessions
from stratalog.broker.moves.directory_moves import DirectoryMoves
from stratalog.broker.network.server import Server
from stratalog.broker.replicas.directories import Directories
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.context import RequestContext
from stratalog.broker.runtime.purgatory import Purgatory
from stratalog.broker.views.views import Views
from stratalog.broker.workers.deep_work import DeepWork
from stratalog.wire.errors import Corrupt

if TYPE_CHECKING:
    from stratalog.broker.replication.replication import Replication

__all__ = ["BrokerView", "Context"]


class BrokerView(MetadataView, Protocol):
    """The attributes and methods of a broker that handlers use."""

    # -- the cluster ----------------------------------------------------------------------------------------------

    @property
    def producer_ids(self) -> ProducerIds:
        """Gives out producer ids."""

    @property
    def metadata_fragments(self) -> MetadataFragments:
        """Topics as bytes of Metadata answers."""

    # -- partitions -----------------------------------------------------------------------------------------------

    @property
    def directories(self) -> Directories:
        """Its log directories."""

    @property
    def moves(self) -> DirectoryMoves:
        """Moves of its replicas between them."""

    @property
    def partitions(self) -> PartitionTable:
        """Finds the partitions that can be read here."""

    @property
    def replication(self) -> Replication | None:
        """Its copies of partitions; None where it is a cluster by itself."""

    @property
    def tiering(self) -> Tiering:
        """The archives of its partitions."""

    @property
    def views(self) -> Views:
        """Topics as they were."""

    def report_corruption(self, unified: UnifiedLog, error: Corrupt, /) -> None:
        """Log that stored bytes failed their check while being read."""

    # -- requests -------------------------------------------------------------------------------------------------

    @property
    def server(self) -> Server:
        """Its connections."""

    @property
    def purgatory(self) -> Purgatory:
        """Holds requests that wait."""

    @property
    def fetch_sessions(self) -> FetchSessions:
        """The fetch sessions of its clients."""

    @property
    def deep_work(self) -> DeepWork:
        """Does work on every record of a batch in another process."""

    # -- coordinators ---------------------------------------------------------------------------------------------

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators and the topics that they keep their state in."""

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""


Context = RequestContext[BrokerView]
"""A request as handlers get it."""
