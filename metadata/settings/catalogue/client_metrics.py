"""Settings of one client metrics subscription (config resource CLIENT_METRICS, KIP-714)."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import INT, LIST, ConfigDef, setting

__all__ = ["CLIENT_METRICS_SETTINGS"]

_NO_TELEMETRY: Final = "clients push no metrics in this release; Kafka without a receiver takes none either"

CLIENT_METRICS_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("interval.ms", INT, 300_000, unused=_NO_TELEMETRY, doc="How often a client pushes its metrics."),
    setting("match", LIST, (), unused=_NO_TELEMETRY, doc="Which clients push: client_id=PATTERN and the like."),
    setting("metrics", LIST, (), unused=_NO_TELEMETRY, doc="Prefixes of the names of metrics that are pushed."),
)
