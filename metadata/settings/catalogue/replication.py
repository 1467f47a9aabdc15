"""Broker settings of replication between brokers."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    BOOLEAN,
    INT,
    LONG,
    LONG_MAX,
    STRING,
    WIDE,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import OneOf, at_least

__all__ = ["LEADER_SELECTOR", "RACK_AWARE_SELECTOR", "REPLICATION_SETTINGS"]

LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

_FROM_THE_TIER: Final = "a follower whose leader has archived records begins behind them in any case"
_ONE_FETCHER: Final = "one connection copies from each other broker"
_OF_THE_SYSTEM: Final = "the operating system sizes the buffers of these sockets"

# fmt: off
REPLICATION_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, mode=WIDE, unused=_FROM_THE_TIER,
            doc="An empty follower begins behind the last archived offset instead of copying history."),
    setting("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), mode=WIDE, internal=True,
            doc="Bytes a second that this broker copies of throttled replicas, from all leaders; 0 stops those that are behind."),
    setting("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), mode=WIDE, internal=True,
            doc="Bytes a second that this broker sends of throttled replicas to followers; 0 stops those out of sync."),
    setting("min.insync.replicas", INT, 1, at_least(1), mode=WIDE, doc="Default of the topic's min.insync.replicas."),
    setting("num.replica.alter.log.dirs.threads", INT, None,
            doc="Replicas that move between log directories at the same time; by default as many as there are log.dirs."),
    setting("num.replica.fetchers", INT, 1, at_least(1), mode=WIDE, unused=_ONE_FETCHER,
            doc="Connections that copy from each other broker."),
    setting("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, at_least(0), mode=WIDE, internal=True,
            doc="Bytes a second that are copied for moves of replicas between log directories, all together; 0 stops them."),
    setting("replica.fetch.backoff.ms", INT, 1000, at_least(0),
            doc="Pause after an error in copying a partition."),
    setting("replica.fetch.max.bytes", INT, 1 << 20, at_least(0),
            doc="Bytes of one partition that a follower asks for; up to 4 MiB where few have news."),
    setting("replica.fetch.min.bytes", INT, 1,
            doc="Bytes for which a follower's request waits."),
    setting("replica.fetch.response.max.bytes", INT, 10 << 20, at_least(0),
            doc="Bytes of one whole answer to a follower."),
    setting("replica.fetch.wait.max.ms", INT, 500,
            doc="Longest wait of a follower's request; not above replica.lag.time.max.ms."),
    setting("replica.high.watermark.checkpoint.interval.ms", LONG, 5000,
            doc="How often the high watermarks of a directory are written down."),
    setting("replica.lag.time.max.ms", LONG, 30_000,
            doc="A follower that has not caught up for this long leaves the in-sync set."),
    setting("replica.selector.class", STRING, None, OneOf((LEADER_SELECTOR, RACK_AWARE_SELECTOR)),
            doc="How a replica near the consumer is chosen: RackAwareReplicaSelector sends one that tells its rack to an in-sync "
                "replica there. LeaderSelector, or not set: the leader serves all."),
    setting("replica.socket.receive.buffer.bytes", INT, 65_536, unused=_OF_THE_SYSTEM,
            doc="SO_RCVBUF of a follower's socket."),
    setting("replica.socket.timeout.ms", INT, 30_000,
            doc="Longest wait for an answer of a leader."),
)
# fmt: on
