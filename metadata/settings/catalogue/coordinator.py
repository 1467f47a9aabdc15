"""Broker settings of consumer groups and their committed offsets."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    INT,
    INT_MAX,
    LIST,
    LONG,
    SHORT,
    STRING,
    WIDE,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import IgnoreCaseOneOf, ListOf, at_least

__all__ = ["COORDINATOR_SETTINGS"]

_GATHERED: Final = "what one turn of the event loop brings is written together"
_NO_REPLICAS: Final = "a commit waits as long as its client does"
_IN_SLICES: Final = "partitions are loaded in slices of time, so that no other request waits for them"
_NO_POOL: Final = "one process is one event loop; there are no thread pools to size"
_POLICIES: Final = ("disabled", "downgrade", "upgrade", "bidirectional")
_ASSIGNORS: Final = (
    "uniform",
    "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)
_PROTOCOLS: Final = ("consumer", "classic", "share", "streams")

# fmt: off
COORDINATOR_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("group.consumer.assignment.interval.ms", INT, 1000, at_least(0), mode=WIDE,
            doc="Shortest time between two assignments of a consumer group."),
    setting("group.consumer.assignors", LIST, ("uniform", "range"), ListOf(_ASSIGNORS, empty_allowed=False),
            doc="Assignors of the server; the first is used when a member names none."),
    setting("group.consumer.heartbeat.interval.ms", INT, 5000, at_least(1),
            doc="Heartbeat interval that members of the new protocol get."),
    setting("group.consumer.max.assignment.interval.ms", INT, 15_000, at_least(0),
            doc="Largest assignment interval a group may set."),
    setting("group.consumer.max.heartbeat.interval.ms", INT, 15_000, at_least(1),
            doc="Largest heartbeat interval a group may set."),
    setting("group.consumer.max.session.timeout.ms", INT, 60_000, at_least(1),
            doc="Largest session timeout a group may set."),
    setting("group.consumer.max.size", INT, INT_MAX, at_least(1),
            doc="Members of one group of the new protocol."),
    setting("group.consumer.migration.policy", STRING, "bidirectional", IgnoreCaseOneOf(_POLICIES),
            doc="Whether a group with members may change between the classic and the new protocol."),
    setting("group.consumer.min.assignment.interval.ms", INT, 0, at_least(0),
            doc="Smallest assignment interval a group may set."),
    setting("group.consumer.min.heartbeat.interval.ms", INT, 5000, at_least(1),
            doc="Smallest heartbeat interval a group may set."),
    setting("group.consumer.min.session.timeout.ms", INT, 45_000, at_least(1),
            doc="Smallest session timeout a group may set."),
    setting("group.consumer.regex.refresh.interval.ms", INT, 600_000, at_least(10_000), internal=True,
            doc="How often a subscription by pattern is resolved again."),
    setting("group.consumer.session.timeout.ms", INT, 45_000, at_least(1),
            doc="Silence after which a member of the new protocol is taken for gone."),
    setting("group.coordinator.append.linger.ms", INT, -1, at_least(-1), unused=_GATHERED,
            doc="How long the coordinator gathers writes; -1 adapts to the load."),
    setting("group.coordinator.background.threads", INT, 2, at_least(1), unused=_NO_POOL,
            doc="Threads of the coordinator for work in the background."),
    setting("group.coordinator.cached.buffer.max.bytes", INT, 1_048_588, at_least(524_288), mode=WIDE,
            unused=_GATHERED, doc="Largest write buffer that the coordinator keeps for reuse."),
    setting("group.coordinator.rebalance.protocols", LIST, ("classic", "consumer", "streams"),
            ListOf(_PROTOCOLS, empty_allowed=False),
            doc="Rebalance protocols that are served; deprecated in Kafka."),
    setting("group.coordinator.threads", INT, 4, at_least(1), unused=_NO_POOL,
            doc="Threads of the coordinator for requests."),
    setting("group.initial.rebalance.delay.ms", INT, 3000,
            doc="How long a new classic group waits for more members before its first rebalance."),
    setting("group.max.session.timeout.ms", INT, 1_800_000,
            doc="Largest session timeout of a classic member."),
    setting("group.max.size", INT, INT_MAX, at_least(1), doc="Members of one classic group."),
    setting("group.min.session.timeout.ms", INT, 6000,
            doc="Smallest session timeout of a classic member."),
    setting("offset.metadata.max.bytes", INT, 4096,
            doc="Largest text a client may store beside a committed offset."),
    setting("offsets.commit.timeout.ms", INT, 5000, at_least(1), unused=_NO_REPLICAS,
            doc="Longest wait for a commit to reach all replicas."),
    setting("offsets.load.buffer.size", INT, 5_242_880, at_least(1), unused=_IN_SLICES,
            doc="Bytes read at a time when groups are loaded."),
    setting("offsets.retention.check.interval.ms", LONG, 600_000, at_least(1),
            doc="How often expired offsets are looked for."),
    setting("offsets.retention.minutes", INT, 10_080, at_least(1),
            doc="How long offsets stay after the group is empty or no longer subscribed."),
    setting("offsets.topic.compression.codec", INT, 0,
            doc="Codec of __consumer_offsets, by its number."),
    setting("offsets.topic.num.partitions", INT, 50, at_least(1),
            doc="Partitions of __consumer_offsets; must not change later."),
    setting("offsets.topic.replication.factor", SHORT, 3, at_least(1),
            doc="Replicas of __consumer_offsets."),
    setting("offsets.topic.segment.bytes", INT, 104_857_600, at_least(1),
            doc="Segment size of __consumer_offsets."),
)
# fmt: on
