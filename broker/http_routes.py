"""Every route of the HTTP side beyond health and metrics, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratalog.broker.http import Route
from stratalog.broker.http_hydrate import hydrate_routes
from stratalog.broker.http_page import page_routes
from stratalog.broker.http_tier import tier_routes
from stratalog.broker.http_tier_plan import plan_routes
from stratalog.broker.http_tiering import tiering_routes
from stratalog.broker.tier_status import tier_status
from stratalog.broker.tier_watch import TierWatch

if TYPE_CHECKING:
    from stratalog.broker.node import Node

__all__ = ["http_routes"]


def http_routes(node: Node, watch: TierWatch) -> dict[str, Route]:
    """By path, or by method and path (see `stratalog.broker.http`)."""
    return {
        **page_routes(),
        **tier_routes(node, watch),
        **tiering_routes(node),
        **plan_routes(node),
        **hydrate_routes(node),
        "/tier/status": tier_status(node),
    }
