"""Broker settings of metrics and of telemetry that clients push."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import INT, LIST, LONG, STRING, WIDE, ConfigDef, setting
from stratalog.metadata.settings.catalogue.validators import AnyList, IgnoreCaseOneOf, at_least

__all__ = ["METRIC_SETTINGS"]

_PROMETHEUS: Final = "metrics are served for Prometheus over HTTP; there are no reporters and no sample windows"
_NO_TELEMETRY: Final = "clients' telemetry is not collected"

# fmt: off
METRIC_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), unused=_PROMETHEUS,
            doc="How often reporters look."),
    setting("kafka.metrics.reporters", LIST, (), AnyList(), unused=_PROMETHEUS, doc="Classes of reporters."),
    setting("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), AnyList(), mode=WIDE,
            unused=_PROMETHEUS, doc="Classes that hear of new metrics."),
    setting("metrics.num.samples", INT, 2, at_least(1), unused=_PROMETHEUS, doc="Samples behind a metric."),
    setting("metrics.recording.level", STRING, "INFO", IgnoreCaseOneOf(("INFO", "DEBUG", "TRACE")),
            unused=_PROMETHEUS, doc="How much is recorded."),
    setting("metrics.sample.window.ms", LONG, 30_000, at_least(1), unused=_PROMETHEUS, doc="Length of a sample."),
    setting("telemetry.max.bytes", INT, 1 << 20, at_least(1), unused=_NO_TELEMETRY,
            doc="Largest push of metrics by a client."),
)
# fmt: on
