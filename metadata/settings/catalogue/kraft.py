"""Broker settings of the process's roles, the quorum and the metadata log."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import BOOLEAN, INT, LIST, LONG, STRING, ConfigDef, setting
from stratalog.metadata.settings.catalogue.quorum_addresses import QuorumServers, VoterAddresses
from stratalog.metadata.settings.catalogue.validators import AnyList, ListOf, at_least

__all__ = ["KRAFT_SETTINGS"]

_AS_BUILT: Final = "the quorum goes by the bounds of its own messages and timers"
_SNAPSHOT_CUTS: Final = "each snapshot closes the segment of the metadata log, and what is below it goes"

# fmt: off
KRAFT_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("broker.heartbeat.interval.ms", INT, 2000,
            doc="Time between two heartbeats of a broker."),
    setting("broker.id", INT, -1, doc="Older name of node.id; used when node.id is not given."),
    setting("broker.session.timeout.ms", INT, 9000,
            doc="Silence after which a broker is fenced."),
    setting("controller.listener.names", LIST, ("CONTROLLER",), AnyList(empty_allowed=False),
            doc="Listeners of the controller. Kafka wants it given; ours has a default."),
    setting("controller.performance.always.log.threshold.ms", LONG, 2000, at_least(0), internal=True,
            unused=_AS_BUILT, doc="Controller events slower than this are logged."),
    setting("controller.performance.sample.period.ms", LONG, 60_000, at_least(1), internal=True, unused=_AS_BUILT,
            doc="How often the controller's times are logged."),
    setting("controller.quorum.append.linger.ms", INT, 25, at_least(0),
            unused="records are appended at once and synced before any answer",
            doc="How long the leader gathers records before it writes them."),
    setting("controller.quorum.auto.join.enable", BOOLEAN, False,
            doc="Let a controller join the voters by itself."),
    setting("controller.quorum.bootstrap.servers", LIST, (), QuorumServers(),
            doc="Addresses at which controllers are found; name all of them. With one that is this node itself the process "
                "is the whole cluster."),
    setting("controller.quorum.election.backoff.max.ms", INT, 1000, at_least(0),
            doc="Longest pause before another election."),
    setting("controller.quorum.election.timeout.ms", INT, 1000, at_least(0),
            doc="Time without a leader after which an election begins."),
    setting("controller.quorum.fetch.max.bytes", INT, 1 << 20, at_least(1), unused=_AS_BUILT,
            doc="Bytes of one fetch of the metadata log."),
    setting("controller.quorum.fetch.snapshot.max.bytes", INT, 1 << 20, at_least(1), unused=_AS_BUILT,
            doc="Bytes of one fetch of a snapshot."),
    setting("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(0),
            doc="Time without fetches after which leader or follower give up."),
    setting("controller.quorum.request.timeout.ms", INT, 2000, at_least(0),
            doc="Longest wait for an answer inside the quorum."),
    setting("controller.quorum.retry.backoff.ms", INT, 20, at_least(0),
            doc="Pause before a failed request is sent again."),
    setting("controller.quorum.voters", LIST, (), VoterAddresses(),
            doc="Voters as id@host:port; the static way of naming the quorum."),
    setting("controller.socket.timeout.ms", INT, 30_000, unused=_AS_BUILT,
            doc="Longest silence between controller and broker."),
    setting("metadata.log.dir", STRING, None,
            doc="Directory of the metadata log; not set, the first of log.dirs."),
    setting("metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520, at_least(1),
            doc="Bytes of metadata records after which a snapshot is written."),
    setting("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, at_least(0),
            doc="Longest time without a snapshot while records come in; 0 is no limit."),
    setting("metadata.log.segment.bytes", INT, 1 << 30, at_least(8 << 20),
            unused=_SNAPSHOT_CUTS,
            doc="Segment size of the metadata log."),
    setting("metadata.log.segment.ms", LONG, 604_800_000,
            unused=_SNAPSHOT_CUTS,
            doc="Age at which its segment is closed."),
    setting("metadata.max.idle.interval.ms", INT, 500, at_least(0),
            doc="Silence after which the leader writes a no-op record."),
    setting("metadata.max.retention.bytes", LONG, 104_857_600,
            doc="Bytes of metadata log and snapshots above which old ones go; one snapshot always stays."),
    setting("metadata.max.retention.ms", LONG, 604_800_000,
            doc="Age of metadata log and snapshots above which they go; one snapshot always stays."),
    setting("internal.metadata.delete.delay.millis", LONG, 60_000, at_least(0), internal=True,
            unused=_SNAPSHOT_CUTS,
            doc="How long a dropped file of the metadata log stays on disk."),
    setting("internal.metadata.log.segment.bytes", INT, None, internal=True,
            unused=_SNAPSHOT_CUTS,
            doc="Segment size of the metadata log below the minimum; for tests only."),
    setting("internal.metadata.max.batch.size.in.bytes", INT, 8 << 20, internal=True,
            unused="a command is one batch, and at most as large as a request may be",
            doc="Largest batch of metadata records."),
    setting("internal.metadata.max.fetch.size.in.bytes", INT, 8 << 20, internal=True, unused=_AS_BUILT,
            doc="Largest answer to a fetch of the metadata log."),
    setting("node.id", INT, 1, at_least(0), doc="Number of this node. Kafka wants it given; ours is 1."),
    setting("process.roles", LIST, ("broker", "controller"), ListOf(("broker", "controller"), empty_allowed=False),
            doc="Roles of the process: broker, controller, or both."),
    setting("server.max.startup.time.ms", LONG, (1 << 63) - 1, at_least(0), internal=True,
            unused="the start is bounded by what it has to recover", doc="Longest time a start may take."),
)
# fmt: on
