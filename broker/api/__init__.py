"""One file per API key; the tuple below is what the broker serves, and ``ApiVersions`` is computed from it."""

from __future__ import annotations

from typing import Final

from stratalog.broker.api import (
    api_versions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from stratalog.broker.dispatch import Api

__all__ = ["APIS"]

APIS: Final[tuple[Api, ...]] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    find_coordinator.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    describe_configs.API,
    incremental_alter_configs.API,
    describe_cluster.API,
)
