"""Hands the page, the figures and the steering of a broker over HTTP the parts that they use."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stratalog.broker.archive.problems import first_of
from stratalog.broker.assembly import BrokerParts
from stratalog.broker.http.cluster_summary import ClusterSummary, cluster_summary
from stratalog.broker.http.missing_problems import add_missing_metrics, missing_problems
from stratalog.broker.http.replica_counts import ReplicaCounter
from stratalog.broker.http.services import HttpServices
from stratalog.broker.http.tier_watch import TierWatch, WatchServices
from stratalog.broker.replicas.partition_table import LedPartitions
from stratalog.broker.runtime.slices import Steps

if TYPE_CHECKING:
    from stratalog.broker.http.server import HttpServer

__all__ = ["new_http_server", "new_tier_watch", "not_ready"]


def new_tier_watch(broker: BrokerParts) -> TierWatch:
    """The looks at every partition for those who watch."""
    counter = ReplicaCounter()

    def summarised() -> ClusterSummary | None:
        if not broker.config.roles.has_peers:
            return None
        image = broker.image
        return cluster_summary(image, broker.cluster_id, broker.node_id, broker.quorum.leader, counter.look(image))

    services = WatchServices(
        config=broker.config,
        clock=broker.clock,
        metrics=broker.metrics,
        tiering=broker.tiering,
        led=broker.partitions,
        mounted=broker.mount,
        cluster=summarised,
    )
    return TierWatch(services)


def _http_services(broker: BrokerParts) -> HttpServices:
    """The parts of a broker that its HTTP routes use."""
    return HttpServices(
        bucket_url=broker.config.bucket_url,
        clock=broker.clock,
        authorizer=broker.dispatcher.authorizer,
        image=lambda: broker.image,
        config_rules=broker.config_rules,
        control=broker.control,
        led=LedPartitions(broker.partitions),
        tiering=broker.tiering,
        mounted=broker.mount,
        slices=broker.dispatcher.slices,
    )


def _problems(broker: BrokerParts) -> Steps[list[str]]:
    """The faults of a broker that serves, a sentence each."""
    local = [*first_of(broker.partitions.closed), *(yield from missing_problems(broker.partitions))]
    archives = yield from broker.tiering.problems()
    hanging = yield from broker.coordinators.hanging.problems()
    return [*first_of(broker.unreadable.problems()), *local, *archives, *first_of(hanging)]


def not_ready(broker: BrokerParts) -> list[str]:
    """The reasons why a broker should get no traffic, a sentence each."""
    return [
        f"log directory {directory.path} is offline: {directory.writer.offline}"
        for directory in broker.directories.all
        if directory.writer.offline is not None
    ] + [*broker.server.not_ready(), *broker.coordinators.failures()]


def new_http_server(broker: BrokerParts) -> HttpServer:
    """The page, the figures and the steering of a broker over HTTP."""
    from stratalog.broker.http.routes import http_routes  # noqa: PLC0415
    from stratalog.broker.http.server import HttpServer  # noqa: PLC0415 - Kafka's clients do not wait for it

    routes = http_routes(_http_services(broker), broker.tier_watch)
    add_missing_metrics(broker.metrics, broker.partitions, broker.clock)
    slices = broker.dispatcher.slices
    return HttpServer(
        broker.metrics, partial(not_ready, broker), routes, slices=slices, problems=partial(_problems, broker)
    )
