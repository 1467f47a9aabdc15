"""A broker's part in replication: copies from other leaders, and the in-sync sets of what it leads itself.

.. code-block:: text

    HostedPartitions -- role of a follower --> Replication --> LeaderFetcher, one for each leader --> Fetch
    Leader -- another in-sync set ----------> InSyncAsks -----------------------------------------> AlterPartition
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.replicas.follower import Follower
from stratalog.broker.replication.fetching import FetchLimits
from stratalog.broker.replication.in_sync_asking import InSyncAsks
from stratalog.broker.replication.leader_ends import LeaderEnds
from stratalog.broker.replication.leader_fetcher import LeaderFetcher
from stratalog.broker.replication.tier_start import ArchiveAccess
from stratalog.broker.requests.replication_throttle import ReplicationThrottle
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.image.partition_index import PartitionKey

__all__ = ["Replication", "ReplicationServices"]


class ReplicationServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that replication uses."""

    config: Callable[[], BrokerConfig]
    links: BrokerLinks
    """Links of their own: a fetch waits at the leader, and all behind it would."""
    asking: InSyncAsks
    broker_epoch: Callable[[], int]
    monotonic: Callable[[], float]
    draw: Callable[[], float]
    leader_throttle: ReplicationThrottle
    """Limits the copies that followers outside the in-sync set make from here."""
    follower_throttle: ReplicationThrottle
    """Limits the copies that this broker makes."""
    leader_ends: LeaderEnds
    """Asks leaders up to where their records are from before a time."""
    archive: ArchiveAccess | None = None
    """The way to the bucket; None where no topic can be tiered."""


class Replication:
    """One broker's, in a cluster of several. Lives on the event loop."""

    def __init__(self, services: ReplicationServices) -> None:
        self._services = services
        self.asking = services.asking
        self.leader_ends = services.leader_ends
        self.leader_throttle = services.leader_throttle
        self.follower_throttle = services.follower_throttle
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._leader_of: dict[PartitionKey, int] = {}

    @property
    def broker_epoch(self) -> int:
        """The registration under which this broker fetches, and asks for sets."""
        return self._services.broker_epoch()

    def follow(self, role: Follower) -> None:
        """Copy a partition from the leader of its role."""
        self.release(role.key)
        fetcher = self._fetchers.get(role.leader_id)
        if fetcher is None:
            fetcher = self._fetchers[role.leader_id] = self._new_fetcher(role.leader_id)
        self._leader_of[role.key] = role.leader_id
        fetcher.follow(role.key, role)

    def release(self, key: PartitionKey) -> None:
        """Copy a partition no longer; nothing happens to one that is not copied."""
        leader_id = self._leader_of.pop(key, None)
        if leader_id is not None:
            self._fetchers[leader_id].release(key)

    def trim(self, role: Follower) -> None:
        """Let the local records of a tiered partition go that its leader has in the archive alone."""
        fetcher = self._fetchers.get(role.leader_id)
        if fetcher is not None:
            fetcher.trim(role)

    def registered(self, _broker_epoch: int) -> None:
        """The broker has another registration: copies go on under it."""
        for fetcher in self._fetchers.values():
            fetcher.registered()

    def image_applied(self) -> None:
        """Brokers may have other addresses now."""
        self._services.links.follow()
        self.leader_ends.follow()

    def close(self) -> None:
        """Send nothing any more."""
        self.asking.close()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._services.links.close()
        self.leader_ends.close()

    def _new_fetcher(self, leader_id: int) -> LeaderFetcher:
        services = self._services
        config = services.config()
        return LeaderFetcher(
            leader_id,
            services.links,
            local_id=config.node_id,
            limits=self._limits,
            broker_epoch=services.broker_epoch,
            timeout_ms=config.integer("replica.socket.timeout.ms"),
            monotonic=services.monotonic,
            draw=services.draw,
            archive=services.archive,
            throttle=services.follower_throttle,
        )

    def _limits(self) -> FetchLimits:
        number = self._services.config().integer
        return FetchLimits(
            wait_ms=number("replica.fetch.wait.max.ms"),
            min_bytes=number("replica.fetch.min.bytes"),
            max_bytes=number("replica.fetch.response.max.bytes"),
            partition_max_bytes=number("replica.fetch.max.bytes"),
            backoff_ms=number("replica.fetch.backoff.ms"),
        )
