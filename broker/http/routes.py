"""Every route of the HTTP side beyond health and metrics, in one place."""

from __future__ import annotations

from stratalog.broker.http.hydrate import hydrate_routes
from stratalog.broker.http.page_files import page_routes
from stratalog.broker.http.server import Route
from stratalog.broker.http.services import HttpServices
from stratalog.broker.http.tier import tier_routes
from stratalog.broker.http.tier_plan import plan_routes
from stratalog.broker.http.tier_status import tier_status
from stratalog.broker.http.tier_watch import TierWatch
from stratalog.broker.http.tiering import tiering_routes

__all__ = ["http_routes"]


def http_routes(services: HttpServices, watch: TierWatch) -> dict[str, Route]:
    """By path, or by method and path (see `stratalog.broker.http.server`)."""
    return {
        **page_routes(),
        **tier_routes(services, watch),
        **tiering_routes(services),
        **plan_routes(services),
        **hydrate_routes(services),
        "/tier/status": tier_status(services),
    }
