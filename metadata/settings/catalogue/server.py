"""Broker settings of the process, of topics in general, and of requests."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    PER_BROKER,
    STRING,
    WIDE,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import OneOf, at_least

__all__ = ["SERVER_SETTINGS", "STANDARD_AUTHORIZER"]

_NO_POOL: Final = "one process is one event loop; there are no thread pools to size"
_NO_PURGE: Final = "a waiting request leaves the purgatory when it is answered; nothing is purged"
_NO_JAVA: Final = "a Java class cannot be loaded here"
_ONE_PLANE: Final = "clients are let in when the broker is unfenced, on all listeners at once"

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only value of ``authorizer.class.name`` beside none."""

# fmt: off
SERVER_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("alter.config.policy.class.name", CLASS, None, unused=_NO_JAVA,
            doc="Plug-in that may refuse changes of settings."),
    setting("allow.everyone.if.no.acl.found", BOOLEAN, False, internal=True,
            doc="Whether every client may do everything to a resource without rules of access."),
    setting("authorizer.class.name", STRING, "", OneOf(("", STANDARD_AUTHORIZER)),
            doc="Decides about permissions: Kafka's StandardAuthorizer is built in, with super.users (separated by "
                "semicolons) and allow.everyone.if.no.acl.found; empty, every client may do everything. Clients are not "
                "authenticated in this release: every principal is User:ANONYMOUS."),
    setting("auto.create.topics.enable", BOOLEAN, True,
            doc="Create a topic when a client asks for the metadata of one that does not exist."),
    setting("auto.leader.rebalance.enable", BOOLEAN, True,
            doc="Give leaderships back to the preferred replicas from time to time."),
    setting("background.threads", INT, 10, at_least(1), mode=WIDE, unused=_NO_POOL,
            doc="Threads for work in the background."),
    setting("broker.rack", STRING, None, doc="Rack of the broker; used to spread replicas and to answer clients."),
    setting("config.providers", LIST, (), mode=WIDE,
            unused="values are not looked up in other places",
            doc="Names of plug-ins that look values up elsewhere."),
    setting("connection.failed.authentication.delay.ms", INT, 100, at_least(0),
            unused="clients are not authenticated in this release",
            doc="Pause before a connection is closed whose authentication failed."),
    setting("controlled.shutdown.enable", BOOLEAN, True,
            unused="every stop on a signal is in order",
            doc="Stop in order: no new requests, answers out, logs synced, clean-shutdown marker written."),
    setting("cordoned.log.dirs", LIST, (), mode=PER_BROKER,
            unused="directories cannot be cordoned in this release",
            doc="Log directories that take no new partitions, or * for all."),
    setting("create.topic.policy.class.name", CLASS, None, unused=_NO_JAVA,
            doc="Plug-in that may refuse new topics."),
    setting("default.replication.factor", INT, 1,
            doc="Replicas of a topic created without a number (-1) or by being asked for."),
    setting("delete.records.purgatory.purge.interval.requests", INT, 1, unused=_NO_PURGE,
            doc="Requests between two purges of waiting DeleteRecords requests."),
    setting("delete.topic.enable", BOOLEAN, True, doc="Let clients delete topics; otherwise the request is refused."),
    setting("early.start.listeners", LIST, None, unused=_ONE_PLANE,
            doc="Listeners that open before the authoriser is ready."),
    setting("fetch.max.bytes", INT, 57_671_680, at_least(1024), doc="Largest answer to one Fetch request."),
    setting("fetch.purgatory.purge.interval.requests", INT, 1000, unused=_NO_PURGE,
            doc="Requests between two purges of waiting Fetch requests."),
    setting("initial.broker.registration.timeout.ms", INT, 60_000,
            doc="How long a broker waits for its first registration before it gives up."),
    setting("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1),
            doc="Time between two looks at the spread of leaderships."),
    setting("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0),
            doc="Fetch sessions that are kept."),
    setting("max.request.partition.size.limit", INT, 2000, at_least(1),
            doc="Partitions in one answer of DescribeTopicPartitions."),
    setting("num.io.threads", INT, 8, at_least(1), mode=WIDE, unused=_NO_POOL, doc="Threads that serve requests."),
    setting("num.network.threads", INT, 3, at_least(1), mode=WIDE, unused=_NO_POOL,
            doc="Threads that read and write sockets, for each listener."),
    setting("num.partitions", INT, 1, at_least(1),
            doc="Partitions of a topic created without a number (-1) or by being asked for."),
    setting("producer.purgatory.purge.interval.requests", INT, 1000, unused=_NO_PURGE,
            doc="Requests between two purges of waiting Produce requests."),
    setting("queued.max.request.bytes", LONG, -1,
            doc="Bytes that unfinished and waiting requests of all connections may hold before large ones wait; -1 is "
                "1 GiB."),
    setting("queued.max.requests", INT, 500, at_least(1), unused=_NO_POOL,
            doc="Requests that may wait between network and request threads."),
    setting("request.timeout.ms", INT, 30_000,
            doc="Longest time a request about a transaction waits for the answer of another broker."),
    setting("share.fetch.purgatory.purge.interval.requests", INT, 1000, unused=_NO_PURGE,
            doc="Requests between two purges of waiting ShareFetch requests."),
    setting("super.users", STRING, "", internal=True,
            doc="Principals that may do everything, separated by semicolons."),
    setting("unclean.leader.election.enable", BOOLEAN, False, mode=WIDE,
            doc="Default of the topic's unclean.leader.election.enable."),
    setting("unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), internal=True,
            doc="Time between two looks at the partitions without a leader whose topics allow an unclean one."),
    setting("unstable.api.versions.enable", BOOLEAN, False, internal=True,
            unused="only versions that Kafka 4.3 calls stable are served",
            doc="Serve API versions that are still being worked on."),
    setting("unstable.feature.versions.enable", BOOLEAN, False, internal=True,
            unused="only features that Kafka 4.3 calls stable are known",
            doc="Allow feature levels that are still being worked on."),
)
# fmt: on
