"""Settings of topics, brokers, groups, client metrics and loggers: described, altered both ways, listed."""

from __future__ import annotations

from typing import Any

from tests.java.differ.requests import topic
from tests.java.differ.story import Ask, Story

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(label: str, *resources: tuple[int, str, list[str] | None], **body: Any) -> Ask:
    """Asks for settings by name, or for all."""
    asked = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name, keys in resources
    ]
    return Ask("DescribeConfigs", {"resources": asked, **body}, label)


def change(label: str, kind: int, name: str, *entries: tuple[int, str, str | None], **body: Any) -> Ask:
    """Changes settings one by one."""
    configs = [{"config_operation": how, "name": key, "value": value} for how, key, value in entries]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return Ask("IncrementalAlterConfigs", {"resources": [resource], **body}, label)


def replace(label: str, kind: int, name: str, *entries: tuple[str, str | None], **body: Any) -> Ask:
    """Sets all settings of a resource in the older way."""
    configs = [{"name": key, "value": value} for key, value in entries]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return Ask("AlterConfigs", {"resources": [resource], **body}, label)


DESCRIBED = Story(
    "described settings",
    "DescribeConfigs",
    (
        topic("described-{v}", 1, retention_ms="1000"),
        describe("topic", (TOPIC, "described-{v}", None)),
        describe("topic with synonyms", (TOPIC, "described-{v}", None), include_synonyms=True),
        describe("no names", (TOPIC, "described-{v}", [])),
        describe("by name", (TOPIC, "described-{v}", ["retention.ms", "cleanup.policy"]), include_synonyms=True),
        describe("unknown name", (TOPIC, "described-{v}", ["no.such"])),
        describe("unknown topic", (TOPIC, "nowhere-{v}", None)),
        describe("bad topic", (TOPIC, "a b", None)),
        describe("empty topic", (TOPIC, "", None)),
        describe("broker", (BROKER, "1", None)),
        describe("broker with synonyms", (BROKER, "1", None), include_synonyms=True),
        describe("all brokers", (BROKER, "", None), include_synonyms=True),
        describe("unknown broker", (BROKER, "9", None)),
        describe("no broker", (BROKER, "x", None)),
        describe("unknown loggers", (LOGGER, "9", None)),
        describe("loggers of all", (LOGGER, "", None)),
        describe("group", (GROUP, "g-{v}", None), include_synonyms=True),
        describe("empty group", (GROUP, "", None)),
        describe("client metrics", (CLIENT_METRICS, "m-{v}", None)),
        describe("empty client metrics", (CLIENT_METRICS, "", None)),
        describe("unknown kind", (99, "x", None)),
        describe("no kind", (0, "x", None)),
        describe("none"),
    ),
)

TOPIC_CHANGES = Story(
    "changed settings of topics",
    "IncrementalAlterConfigs",
    (
        topic("changed-{v}"),
        change("set", TOPIC, "changed-{v}", (SET, "retention.ms", "5000")),
        change("set null", TOPIC, "changed-{v}", (SET, "retention.ms", None)),
        change("set unknown", TOPIC, "changed-{v}", (SET, "no.such", "1")),
        change("set bad", TOPIC, "changed-{v}", (SET, "retention.ms", "x")),
        change("set out of range", TOPIC, "changed-{v}", (SET, "min.cleanable.dirty.ratio", "7")),
        change("only checked", TOPIC, "changed-{v}", (SET, "retention.ms", "7"), validate_only=True),
        change("append", TOPIC, "changed-{v}", (APPEND, "cleanup.policy", "compact")),
        change("append again", TOPIC, "changed-{v}", (APPEND, "cleanup.policy", "compact")),
        describe("appended", (TOPIC, "changed-{v}", ["cleanup.policy", "retention.ms"]), include_synonyms=True),
        change("subtract", TOPIC, "changed-{v}", (SUBTRACT, "cleanup.policy", "delete")),
        change("subtract what is not in it", TOPIC, "changed-{v}", (SUBTRACT, "cleanup.policy", "delete")),
        describe("subtracted", (TOPIC, "changed-{v}", ["cleanup.policy"]), include_synonyms=True),
        topic("fresh-{v}"),
        change("subtract what is not in the default", TOPIC, "fresh-{v}", (SUBTRACT, "cleanup.policy", "compact")),
        describe("still the default's", (TOPIC, "fresh-{v}", ["cleanup.policy"]), include_synonyms=True),
        change("append to no list", TOPIC, "changed-{v}", (APPEND, "retention.ms", "1")),
        change("subtract from no list", TOPIC, "changed-{v}", (SUBTRACT, "retention.ms", "1")),
        change(
            "subtract what was never set",
            TOPIC,
            "changed-{v}",
            (SUBTRACT, "leader.replication.throttled.replicas", "0:1"),
        ),
        describe("never set", (TOPIC, "changed-{v}", ["leader.replication.throttled.replicas"]), include_synonyms=True),
        change("delete", TOPIC, "changed-{v}", (DELETE, "retention.ms", None)),
        change("delete again", TOPIC, "changed-{v}", (DELETE, "retention.ms", None)),
        change("delete with a value", TOPIC, "changed-{v}", (DELETE, "retention.ms", "5")),
        change("delete unknown", TOPIC, "changed-{v}", (DELETE, "no.such", None)),
        change("unknown operation", TOPIC, "changed-{v}", (9, "retention.ms", "1")),
        change("a setting twice", TOPIC, "changed-{v}", (SET, "retention.ms", "1"), (SET, "retention.ms", "2")),
        change("set and delete", TOPIC, "changed-{v}", (SET, "retention.ms", "1"), (DELETE, "retention.ms", None)),
        change("empty name", TOPIC, "changed-{v}", (SET, "", "1")),
        change("no settings", TOPIC, "changed-{v}"),
        change("unknown topic", TOPIC, "nowhere-{v}", (SET, "retention.ms", "1")),
        change("bad topic", TOPIC, "a b", (SET, "retention.ms", "1")),
        change("empty topic", TOPIC, "", (SET, "retention.ms", "1")),
        change("unknown kind", 99, "x", (SET, "retention.ms", "1")),
        change("no kind", 0, "x", (SET, "retention.ms", "1")),
        Ask(
            "IncrementalAlterConfigs",
            {
                "resources": [
                    {
                        "resource_type": TOPIC,
                        "resource_name": "changed-{v}",
                        "configs": [{"config_operation": SET, "name": "retention.ms", "value": value}],
                    }
                    for value in ("1", "2")
                ]
            },
            "a topic twice",
        ),
        change("remote.copy.lag.bytes", TOPIC, "changed-{v}", (SET, "remote.copy.lag.bytes", "1")),
        describe("in the end", (TOPIC, "changed-{v}", None)),
    ),
)

BROKER_CHANGES = Story(
    "changed settings of brokers",
    "IncrementalAlterConfigs",
    (
        change("of one", BROKER, "1", (SET, "log.cleaner.threads", "2")),
        describe("of one", (BROKER, "1", ["log.cleaner.threads"]), include_synonyms=True),
        change("of one deleted", BROKER, "1", (DELETE, "log.cleaner.threads", None)),
        describe("of one deleted", (BROKER, "1", ["log.cleaner.threads"]), include_synonyms=True),
        change("of all", BROKER, "", (SET, "log.retention.ms", "123456")),
        describe("of all", (BROKER, "", None), include_synonyms=True),
        describe("of all, at one", (BROKER, "1", ["log.retention.ms"]), include_synonyms=True),
        topic("under-retention-{v}"),
        describe("of all, at a topic", (TOPIC, "under-retention-{v}", ["retention.ms"]), include_synonyms=True),
        change("both", BROKER, "1", (SET, "log.retention.ms", "654321")),
        describe("both", (BROKER, "1", ["log.retention.ms"]), include_synonyms=True),
        change("one deleted", BROKER, "1", (DELETE, "log.retention.ms", None)),
        describe("one deleted", (BROKER, "1", ["log.retention.ms"]), include_synonyms=True),
        change("all deleted", BROKER, "", (DELETE, "log.retention.ms", None)),
        describe("all deleted", (BROKER, "1", ["log.retention.ms"]), include_synonyms=True),
        describe("all deleted, at a topic", (TOPIC, "under-retention-{v}", ["retention.ms"]), include_synonyms=True),
        change("delete what is not there", BROKER, "1", (DELETE, "log.retention.ms", None)),
        change("delete what cannot be set", BROKER, "1", (DELETE, "log.dirs", None)),
        change("delete unknown", BROKER, "1", (DELETE, "no.such", None)),
        change("read only", BROKER, "1", (SET, "log.dirs", "/x")),
        change("of one broker only, for all", BROKER, "", (SET, "listeners", "PLAINTEXT://:1")),
        change("out of range", BROKER, "1", (SET, "log.cleaner.threads", "0")),
        change("not a number", BROKER, "1", (SET, "log.cleaner.threads", "x")),
        change("too many threads at once", BROKER, "1", (SET, "num.io.threads", "1000")),
        change("null", BROKER, "1", (SET, "log.cleaner.threads", None)),
        change("append to no list", BROKER, "1", (APPEND, "log.cleaner.threads", "3")),
        change("subtract what is not in it", BROKER, "1", (SUBTRACT, "log.cleanup.policy", "compact")),
        describe("subtracted", (BROKER, "1", ["log.cleanup.policy"]), include_synonyms=True),
        change("delete after subtracting", BROKER, "1", (DELETE, "log.cleanup.policy", None)),
        change("listener's", BROKER, "1", (SET, "listener.name.plaintext.max.connections", "1000")),
        describe("listener's", (BROKER, "1", ["listener.name.plaintext.max.connections"]), include_synonyms=True),
        change("listener's deleted", BROKER, "1", (DELETE, "listener.name.plaintext.max.connections", None)),
        change("listener's for all", BROKER, "", (SET, "listener.name.plaintext.max.connections", "1000")),
        change("unknown listener's", BROKER, "1", (SET, "listener.name.nowhere.max.connections", "1000")),
        change("unknown listener's deleted", BROKER, "1", (DELETE, "listener.name.nowhere.max.connections", None)),
        change("unknown setting of a listener", BROKER, "1", (SET, "listener.name.plaintext.no.such", "1")),
        change("its deletion", BROKER, "1", (DELETE, "listener.name.plaintext.no.such", None)),
        change("key store of no listener", BROKER, "1", (SET, "ssl.keystore.location", "/x")),
        change("key store of no listener, for all", BROKER, "", (SET, "ssl.keystore.location", "/x")),
        change("unknown broker", BROKER, "9", (SET, "log.cleaner.threads", "2")),
        change("no broker", BROKER, "x", (SET, "log.cleaner.threads", "2")),
        change("min.insync.replicas of all", BROKER, "", (SET, "min.insync.replicas", "2")),
        describe("min.insync.replicas", (TOPIC, "under-retention-{v}", ["min.insync.replicas"]), include_synonyms=True),
        change("min.insync.replicas deleted", BROKER, "", (DELETE, "min.insync.replicas", None)),
        describe("min.insync.replicas then", (BROKER, "", None), include_synonyms=True),
    ),
)

OTHER_CHANGES = Story(
    "changed settings of groups, metrics and loggers",
    "IncrementalAlterConfigs",
    (
        change("group", GROUP, "cg-{v}", (SET, "consumer.session.timeout.ms", "50000")),
        describe("group", (GROUP, "cg-{v}", None), include_synonyms=True),
        change("group out of range", GROUP, "cg-{v}", (SET, "consumer.session.timeout.ms", "1")),
        change("group unknown", GROUP, "cg-{v}", (SET, "no.such", "1")),
        change("group not a number", GROUP, "cg-{v}", (SET, "consumer.session.timeout.ms", "x")),
        change("group heartbeats", GROUP, "cg-{v}", (SET, "consumer.heartbeat.interval.ms", "60000")),
        change("group deleted", GROUP, "cg-{v}", (DELETE, "consumer.session.timeout.ms", None)),
        change("group deleted again", GROUP, "cg-{v}", (DELETE, "consumer.session.timeout.ms", None)),
        change("group unknown deleted", GROUP, "cg-{v}", (DELETE, "no.such", None)),
        change("empty group", GROUP, "", (SET, "consumer.session.timeout.ms", "50000")),
        change("metrics", CLIENT_METRICS, "cm-{v}", (SET, "interval.ms", "1000"), (SET, "match", "client_id=a.*")),
        describe("metrics", (CLIENT_METRICS, "cm-{v}", None), include_synonyms=True),
        change("metrics append", CLIENT_METRICS, "cm-{v}", (APPEND, "metrics", "org.apache.kafka")),
        change("metrics out of range", CLIENT_METRICS, "cm-{v}", (SET, "interval.ms", "1")),
        change("metrics unknown", CLIENT_METRICS, "cm-{v}", (SET, "no.such", "1")),
        change("metrics bad match", CLIENT_METRICS, "cm-{v}", (SET, "match", "color=red")),
        change("metrics bad pattern", CLIENT_METRICS, "cm-{v}", (SET, "match", "client_id=[")),
        change("metrics deleted", CLIENT_METRICS, "cm-{v}", (DELETE, "interval.ms", None), (DELETE, "match", None)),
        describe("metrics deleted", (CLIENT_METRICS, "cm-{v}", None), include_synonyms=True),
        change("empty metrics", CLIENT_METRICS, "", (SET, "interval.ms", "1000")),
        change("unknown logger", LOGGER, "1", (SET, "no.such.logger", "DEBUG")),
        change("unknown logger deleted", LOGGER, "1", (DELETE, "no.such.logger", None)),
        change("root", LOGGER, "1", (SET, "root", "WARN")),
        change("root deleted", LOGGER, "1", (DELETE, "root", None)),
        change("root at a bad level", LOGGER, "1", (SET, "root", "LOUD")),
        change("root appended to", LOGGER, "1", (APPEND, "root", "INFO")),
        change("root subtracted from", LOGGER, "1", (SUBTRACT, "root", "INFO")),
        change("root back", LOGGER, "1", (SET, "root", "INFO")),
        change("logger of another broker", LOGGER, "9", (SET, "root", "INFO")),
        change("logger of no broker", LOGGER, "x", (SET, "root", "INFO")),
        change("logger of all", LOGGER, "", (SET, "root", "INFO")),
    ),
)

REPLACED = Story(
    "replaced settings",
    "AlterConfigs",
    (
        topic("replaced-{v}", 1, retention_ms="1000"),
        replace("set", TOPIC, "replaced-{v}", ("cleanup.policy", "compact")),
        describe("set", (TOPIC, "replaced-{v}", ["cleanup.policy", "retention.ms"]), include_synonyms=True),
        replace("only checked", TOPIC, "replaced-{v}", ("retention.ms", "2"), validate_only=True),
        replace("unknown", TOPIC, "replaced-{v}", ("no.such", "1")),
        replace("bad", TOPIC, "replaced-{v}", ("retention.ms", "x")),
        replace("null", TOPIC, "replaced-{v}", ("retention.ms", None)),
        replace("twice", TOPIC, "replaced-{v}", ("retention.ms", "1"), ("retention.ms", "2")),
        replace("none", TOPIC, "replaced-{v}"),
        describe("none", (TOPIC, "replaced-{v}", ["cleanup.policy", "retention.ms"]), include_synonyms=True),
        replace("unknown topic", TOPIC, "nowhere-{v}", ("retention.ms", "1")),
        replace("empty topic", TOPIC, "", ("retention.ms", "1")),
        replace("broker", BROKER, "1", ("log.cleaner.threads", "2")),
        describe("broker", (BROKER, "1", ["log.cleaner.threads"]), include_synonyms=True),
        replace("broker back", BROKER, "1"),
        describe("broker back", (BROKER, "1", ["log.cleaner.threads"]), include_synonyms=True),
        replace("unknown broker", BROKER, "9", ("log.cleaner.threads", "2")),
        replace("read only", BROKER, "1", ("log.dirs", "/x")),
        replace("logger", LOGGER, "1", ("root", "INFO")),
        replace("unknown kind", 99, "x", ("retention.ms", "1")),
        replace("metrics", CLIENT_METRICS, "rm-{v}", ("interval.ms", "2000")),
        replace("metrics back", CLIENT_METRICS, "rm-{v}"),
        replace("group", GROUP, "rg-{v}", ("consumer.session.timeout.ms", "50000")),
        replace("group back", GROUP, "rg-{v}"),
        Ask("AlterConfigs", {}, "no resources"),
    ),
)

LISTED = Story(
    "listed settings",
    "ListConfigResources",
    (
        Ask("ListConfigResources", {}, "all"),
        *(Ask("ListConfigResources", {"resource_types": [kind]}, f"kind {kind}") for kind in (TOPIC, BROKER, LOGGER)),
        Ask("ListConfigResources", {"resource_types": [CLIENT_METRICS]}, "client metrics"),
        Ask("ListConfigResources", {"resource_types": [GROUP]}, "groups"),
        Ask("ListConfigResources", {"resource_types": [GROUP, CLIENT_METRICS]}, "two kinds"),
        Ask("ListConfigResources", {"resource_types": [GROUP, GROUP]}, "a kind twice"),
        Ask("ListConfigResources", {"resource_types": [99]}, "unknown kind"),
        Ask("ListConfigResources", {"resource_types": [0]}, "no kind"),
    ),
)

STORIES = (LISTED, DESCRIBED, TOPIC_CHANGES, BROKER_CHANGES, OTHER_CHANGES, REPLACED)
