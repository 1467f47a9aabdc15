"""One file per API key; the tuple below is what the broker serves, and ``ApiVersions`` is computed from it."""

from __future__ import annotations

from typing import Final

from stratalog.broker.api import api_versions, fetch, list_offsets, metadata, produce
from stratalog.broker.dispatch import Api

__all__ = ["APIS"]

APIS: Final[tuple[Api, ...]] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    api_versions.API,
)
