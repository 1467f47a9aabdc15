"""Making, growing and deleting topics; deleting records; replicas and their directories on a cluster of one broker."""

from __future__ import annotations

from typing import Any

from tests.java.differ.requests import batch, produce, topic
from tests.java.differ.story import Ask, ByVersion, Story, TopicId

UNKNOWN_ID = bytes(range(16))


def create(label: str, *topics: dict[str, Any], **body: Any) -> Ask:
    """Creates topics from plain fields; partitions and replicas are 1 where they are not given."""
    given = [{"num_partitions": 1, "replication_factor": 1, **each} for each in topics]
    return Ask("CreateTopics", {"topics": given, "timeout_ms": 10_000, **body}, label)


def with_configs(label: str, name: str, *configs: tuple[str, str | None]) -> Ask:
    """Creates a topic with settings."""
    return create(label, {"name": name, "configs": [{"name": key, "value": value} for key, value in configs]})


def assigned(label: str, name: str, *assignments: tuple[int, tuple[int, ...]], **fields: Any) -> Ask:
    """Creates a topic whose replicas are given."""
    given = [{"partition_index": index, "broker_ids": list(brokers)} for index, brokers in assignments]
    return create(label, {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": given, **fields})


CREATE = Story(
    "create topics",
    "CreateTopics",
    (
        create("one", {"name": "created-{v}"}),
        create("again", {"name": "created-{v}"}),
        create("defaults", {"name": "defaults-{v}", "num_partitions": -1, "replication_factor": -1}),
        create("only checked", {"name": "checked-{v}"}, validate_only=True),
        create("checked and there", {"name": "created-{v}"}, validate_only=True),
        create("no topics"),
        create("empty name", {"name": ""}),
        create("dot", {"name": "."}),
        create("dots", {"name": ".."}),
        create("bad name", {"name": "a b"}),
        create("slash", {"name": "a/b"}),
        create("249 characters", {"name": "{v}" + "n" * 246}, validate_only=True),
        create("250 characters", {"name": "n" * 250}),
        create("no partitions", {"name": "p0-{v}", "num_partitions": 0}),
        create("fewer than none", {"name": "p2-{v}", "num_partitions": -2}),
        create("no replicas", {"name": "r0-{v}", "replication_factor": 0}),
        create("two replicas", {"name": "r2-{v}", "replication_factor": 2}),
        create("fewer replicas than none", {"name": "r-{v}", "replication_factor": -2}),
        create("twice", {"name": "twice-{v}"}, {"name": "twice-{v}"}),
        create("twice and another", {"name": "doubled-{v}"}, {"name": "single-{v}"}, {"name": "doubled-{v}"}),
        create("one good, one bad", {"name": "good-{v}"}, {"name": "bad {v}"}),
        create("dot and underscore collide", {"name": "created_{v}.x"}, {"name": "created.{v}_x"}),
        create("collides with one that is there", {"name": "good.{v}"}),
        assigned("assigned", "assigned-{v}", (0, (1,)), (1, (1,))),
        assigned("assigned to an unknown broker", "to-9-{v}", (0, (9,))),
        assigned("assigned to a broker twice", "to-11-{v}", (0, (1, 1))),
        assigned("assigned to none", "to-none-{v}", (0, ())),
        assigned("a gap in the assignment", "gap-{v}", (0, (1,)), (2, (1,))),
        assigned("a partition assigned twice", "double-{v}", (0, (1,)), (0, (1,))),
        assigned("assignment and partitions", "both-{v}", (0, (1,)), num_partitions=1),
        assigned("assignment and replicas", "both-r-{v}", (0, (1,)), replication_factor=1),
        with_configs("settings", "set-{v}", ("retention.ms", "1000"), ("cleanup.policy", "compact,delete")),
        with_configs("unknown setting", "unknown-setting-{v}", ("no.such.setting", "1")),
        with_configs("bad number", "bad-number-{v}", ("retention.ms", "abc")),
        with_configs("out of range", "range-{v}", ("segment.bytes", "1")),
        with_configs("bad choice", "choice-{v}", ("compression.type", "rar")),
        with_configs("bad list", "list-{v}", ("cleanup.policy", "compact,burn")),
        with_configs("null value", "null-{v}", ("retention.ms", None)),
        with_configs("a setting twice", "setting-twice-{v}", ("retention.ms", "1"), ("retention.ms", "2")),
        with_configs("empty value", "empty-{v}", ("cleanup.policy", "")),
        with_configs("bad boolean", "boolean-{v}", ("preallocate", "yes")),
        with_configs("lag above retention", "lag-{v}", ("max.compaction.lag.ms", "1"), ("min.compaction.lag.ms", "2")),
        create("of Kafka's own", {"name": "__cluster_metadata"}),
    ),
)

DELETE = Story(
    "delete topics",
    "DeleteTopics",
    tuple(topic(f"gone-{letter}-{{v}}") for letter in "abcdef")
    + tuple(
        Ask(
            "DeleteTopics",
            {
                "topic_names": names,
                "topics": [{"name": name} for name in names],
                "timeout_ms": 10_000,
            },
            label,
        )
        for label, names in (
            ("one", ["gone-a-{v}"]),
            ("again", ["gone-a-{v}"]),
            ("two", ["gone-b-{v}", "gone-c-{v}"]),
            ("twice", ["gone-d-{v}", "gone-d-{v}"]),
            ("one and an unknown one", ["gone-e-{v}", "nowhere-{v}"]),
            ("bad name", ["a b"]),
            ("empty name", [""]),
            ("none", []),
        )
    ),
)

DELETE_BY_ID = Story(
    "delete topics by id",
    "DeleteTopics",
    (
        topic("id-a"),
        topic("id-b"),
        Ask("DeleteTopics", {"topics": [{"topic_id": TopicId("id-a")}], "timeout_ms": 10_000}, "one"),
        Ask("DeleteTopics", {"topics": [{"topic_id": TopicId("id-a")}], "timeout_ms": 10_000}, "again"),
        Ask("DeleteTopics", {"topics": [{"topic_id": UNKNOWN_ID}], "timeout_ms": 10_000}, "unknown"),
        Ask("DeleteTopics", {"topics": [{}], "timeout_ms": 10_000}, "neither"),
        Ask(
            "DeleteTopics",
            {"topics": [{"name": "id-b", "topic_id": TopicId("id-b")}], "timeout_ms": 10_000},
            "name and id",
        ),
        Ask(
            "DeleteTopics",
            {"topics": [{"name": "id-b"}, {"topic_id": TopicId("id-b")}], "timeout_ms": 10_000},
            "by name and by id",
        ),
    ),
    versions=(6,),
)


def grow(label: str, name: str, count: int, assignments: list[list[int]] | None = None, **body: Any) -> Ask:
    """Adds partitions to a topic."""
    given = None if assignments is None else [{"broker_ids": each} for each in assignments]
    each = {"name": name, "count": count, "assignments": given}
    return Ask("CreatePartitions", {"topics": [each], "timeout_ms": 10_000, **body}, label)


GROW = Story(
    "create partitions",
    "CreatePartitions",
    (
        topic("grown-{v}", 2),
        grow("three", "grown-{v}", 3),
        grow("only checked", "grown-{v}", 5, validate_only=True),
        grow("the same", "grown-{v}", 3),
        grow("fewer", "grown-{v}", 1),
        grow("none", "grown-{v}", 0),
        grow("negative", "grown-{v}", -1),
        grow("assigned", "grown-{v}", 4, [[1]]),
        grow("assigned too few", "grown-{v}", 6, [[1]]),
        grow("assigned too many", "grown-{v}", 5, [[1], [1]]),
        grow("assigned to none", "grown-{v}", 5, [[]]),
        grow("assigned to an unknown broker", "grown-{v}", 5, [[7]]),
        grow("assigned to a broker twice", "grown-{v}", 5, [[1, 1]]),
        grow("unknown topic", "nowhere-{v}", 5),
        grow("bad name", "a b", 5),
        Ask(
            "CreatePartitions",
            {"topics": [{"name": "grown-{v}", "count": 8, "assignments": None}] * 2, "timeout_ms": 10_000},
            "twice",
        ),
        grow("very many", "grown-{v}", 20_000, validate_only=True),
    ),
)


def delete_records(label: str, *places: tuple[str, int, int]) -> Ask:
    """Deletes records below an offset."""
    topics = [{"name": name, "partitions": [{"partition_index": at, "offset": to}]} for name, at, to in places]
    return Ask("DeleteRecords", {"topics": topics, "timeout_ms": 10_000}, label)


DELETE_RECORDS = Story(
    "delete records",
    "DeleteRecords",
    (
        topic("cut-{v}", 2),
        topic("compacted-{v}", 1, cleanup_policy="compact"),
        produce("cut-{v}", batch(b"a", b"b", b"c", b"d")),
        delete_records("some", ("cut-{v}", 0, 2)),
        delete_records("fewer", ("cut-{v}", 0, 1)),
        delete_records("too many", ("cut-{v}", 0, 5)),
        delete_records("below zero", ("cut-{v}", 0, -2)),
        delete_records("all", ("cut-{v}", 0, -1)),
        delete_records("an empty partition", ("cut-{v}", 1, 0)),
        delete_records("an unknown partition", ("cut-{v}", 2, 0)),
        delete_records("an unknown topic", ("nowhere-{v}", 0, 0)),
        delete_records("a compacted topic", ("compacted-{v}", 0, 0)),
        delete_records("Kafka's own", ("__consumer_offsets", 0, 0)),
        delete_records("none"),
    ),
)


def move(label: str, name: str, partition: int, replicas: list[int] | None, **body: Any) -> Ask:
    """Moves the replicas of a partition."""
    place = {"partition_index": partition, "replicas": replicas}
    return Ask("AlterPartitionReassignments", {"topics": [{"name": name, "partitions": [place]}], **body}, label)


REASSIGN = Story(
    "reassignments",
    "AlterPartitionReassignments",
    (
        topic("moved-{v}"),
        move("to where it is", "moved-{v}", 0, [1]),
        move("to an unknown broker", "moved-{v}", 0, [9]),
        move("to two", "moved-{v}", 0, [1, 9]),
        move("to none", "moved-{v}", 0, []),
        move("to a broker twice", "moved-{v}", 0, [1, 1]),
        move("to a negative broker", "moved-{v}", 0, [-1]),
        move("cancel", "moved-{v}", 0, None),
        move("unknown partition", "moved-{v}", 7, [1]),
        move("unknown topic", "nowhere-{v}", 0, [1]),
        move("same count only", "moved-{v}", 0, [1, 9], allow_replication_factor_change=False),
        Ask("AlterPartitionReassignments", {}, "none"),
        Ask("ListPartitionReassignments", {}, "list all"),
        Ask("ListPartitionReassignments", {"topics": [{"name": "moved-{v}", "partition_indexes": [0]}]}, "list one"),
        Ask("ListPartitionReassignments", {"topics": [{"name": "no", "partition_indexes": [0]}]}, "list unknown"),
    ),
)


def elect(label: str, kind: int, *places: tuple[str, int]) -> Ask:
    """Elects leaders; kind 0 is the preferred one, 1 an unclean one."""
    topics = [{"topic": name, "partitions": [at]} for name, at in places]
    return Ask("ElectLeaders", {"election_type": kind, "topic_partitions": topics}, label)


ELECT = Story(
    "elections",
    "ElectLeaders",
    (
        topic("led-{v}"),
        elect("preferred", 0, ("led-{v}", 0)),
        elect("unclean", 1, ("led-{v}", 0)),
        elect("unknown partition", 0, ("led-{v}", 3)),
        elect("unknown topic", 0, ("nowhere-{v}", 0)),
        elect("none", 0),
        Ask("ElectLeaders", {"election_type": ByVersion(lambda v: 9 if v else 0), "topic_partitions": []}, "no kind"),
    ),
)


def to_directory(label: str, path: str, name: str, partition: int) -> Ask:
    """Moves a replica to a log directory."""
    places = [{"path": path, "topics": [{"name": name, "partitions": [partition]}]}]
    return Ask("AlterReplicaLogDirs", {"dirs": places}, label)


DIRECTORIES = Story(
    "log directories",
    "AlterReplicaLogDirs",
    (
        topic("placed-{v}"),
        to_directory("nowhere", "/no/such/place", "placed-{v}", 0),
        to_directory("nowhere, unknown topic", "/no/such/place", "nowhere-{v}", 0),
        to_directory("not absolute", "place", "placed-{v}", 0),
        Ask("AlterReplicaLogDirs", {}, "none"),
    ),
)


def sizes(label: str, *places: tuple[str, list[int]]) -> Ask:
    """Sizes of partitions."""
    return Ask("DescribeLogDirs", {"topics": [{"topic": name, "partitions": at} for name, at in places]}, label)


SIZES = Story(
    "sizes of log directories",
    "DescribeLogDirs",
    (
        topic("sized-{v}", 2),
        produce("sized-{v}", batch(b"a" * 100)),
        produce("sized-{v}", batch(b"b" * 1000)),
        sizes("one", ("sized-{v}", [0])),
        sizes("all of a topic", ("sized-{v}", [0, 1])),
        sizes("unknown partition", ("sized-{v}", [9])),
        sizes("unknown topic", ("nowhere-{v}", [0])),
        sizes("none"),
    ),
)

STORIES = (CREATE, DELETE, DELETE_BY_ID, GROW, DELETE_RECORDS, REASSIGN, ELECT, DIRECTORIES, SIZES)
