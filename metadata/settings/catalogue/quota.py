"""Broker settings of quotas."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import CLASS, INT, ConfigDef, setting
from stratalog.metadata.settings.catalogue.validators import at_least

__all__ = ["QUOTA_SETTINGS"]

# fmt: off
QUOTA_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1),
            doc="Samples kept for moves between log directories: what was copied beyond the rate is forgotten after as long."),
    setting("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1),
            doc="Length of one of these samples; moves may use the rate of one at once."),
    setting("client.quota.callback.class", CLASS, None, unused="a Java class cannot be loaded here",
            doc="Plug-in that decides the quota of a client."),
    setting("controller.quota.window.num", INT, 11, at_least(1),
            doc="Samples kept for changes of the cluster."),
    setting("controller.quota.window.size.seconds", INT, 1, at_least(1),
            doc="Length of one of these samples."),
    setting("quota.window.num", INT, 11, at_least(1), doc="Samples kept for client quotas."),
    setting("quota.window.size.seconds", INT, 1, at_least(1), doc="Length of one of these."),
    setting("replication.quota.window.num", INT, 11, at_least(1),
            doc="Samples kept for throttled replicas: what was copied beyond the rate is forgotten after as long."),
    setting("replication.quota.window.size.seconds", INT, 1, at_least(1),
            doc="Length of one of these samples; throttled replicas may use the rate of one at once."),
)
# fmt: on
