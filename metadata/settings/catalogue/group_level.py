"""Settings of one group (config resource GROUP). Each names the broker setting that is its default."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import BOOLEAN, INT, STRING, ConfigDef, Synonym, setting
from stratalog.metadata.settings.catalogue.validators import OneOf, at_least

__all__ = ["GROUP_SETTINGS"]

_NO_SHARE: Final = "share groups are not served"
_NO_STREAMS: Final = "streams groups are not served; Kafka Streams applications use classic groups"


def _under_group(name: str) -> tuple[Synonym, ...]:
    return (Synonym(f"group.{name}"),)


def _row(name: str, default: int, minimum: int, unused: str | None, doc: str) -> ConfigDef:
    synonyms = _under_group(name)
    return setting(name, INT, default, at_least(minimum), doc=doc, unused=unused, synonyms=synonyms)


# fmt: off
GROUP_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    _row("consumer.assignment.interval.ms", 1000, 0, None, "Shortest time between two assignments."),
    _row("consumer.heartbeat.interval.ms", 5000, 1, None, "Heartbeat interval that members get."),
    _row("consumer.session.timeout.ms", 45_000, 1, None, "Silence after which a member is taken for gone."),
    _row("share.assignment.interval.ms", 1000, 0, _NO_SHARE, "Shortest time between two assignments."),
    setting("share.auto.offset.reset", STRING, "latest", unused=_NO_SHARE,
            doc="Where a share group begins: latest, earliest or by_duration:PnDTnHnMn.nS."),
    _row("share.delivery.count.limit", 5, 2, _NO_SHARE, "How often a record is delivered at most."),
    _row("share.heartbeat.interval.ms", 5000, 1, _NO_SHARE, "Heartbeat interval that members get."),
    setting("share.isolation.level", STRING, "read_uncommitted", OneOf(("read_committed", "read_uncommitted")),
            unused=_NO_SHARE, doc="Whether records of open or aborted transactions are delivered."),
    _row("share.partition.max.record.locks", 2000, 100, _NO_SHARE, "Records of a partition locked at a time."),
    _row("share.record.lock.duration.ms", 30_000, 1000, _NO_SHARE, "How long a delivered record is locked."),
    setting("share.renew.acknowledge.enable", BOOLEAN, True, unused=_NO_SHARE,
            doc="Let readers renew the lock of a record."),
    _row("share.session.timeout.ms", 45_000, 1, _NO_SHARE, "Silence after which a member is taken for gone."),
    _row("streams.assignment.interval.ms", 1000, 0, _NO_STREAMS, "Shortest time between two assignments."),
    _row("streams.heartbeat.interval.ms", 5000, 1, _NO_STREAMS, "Heartbeat interval that members get."),
    _row("streams.initial.rebalance.delay.ms", 3000, 0, _NO_STREAMS, "How long a new group waits for members."),
    _row("streams.num.standby.replicas", 0, 0, _NO_STREAMS, "Standby replicas of each task."),
    _row("streams.session.timeout.ms", 45_000, 1, _NO_STREAMS, "Silence after which a member is taken for gone."),
)
# fmt: on
