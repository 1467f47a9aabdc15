"""The first requests of clients: versions, metadata, the cluster, topics by pages."""

from __future__ import annotations

from tests.java.differ.requests import topic
from tests.java.differ.story import Ask, ByVersion, Story, TopicId

UNKNOWN_ID = bytes(range(16))


def metadata(label: str, *topics: dict | None, **body: object) -> Ask:
    """Asks for topics."""
    asked = None if topics == (None,) else list(topics)
    return Ask("Metadata", {"topics": asked, "allow_auto_topic_creation": False, **body}, label)


def pages(label: str, *names: str, limit: int = 2000, cursor: dict | None = None) -> Ask:
    """Asks for topics page by page."""
    body = {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": cursor}
    return Ask("DescribeTopicPartitions", body, label)


API_VERSIONS = Story(
    "api versions",
    "ApiVersions",
    (
        Ask("ApiVersions", {"client_software_name": "a.b-c", "client_software_version": "1.0-x"}, "good"),
        Ask("ApiVersions", {"client_software_name": "", "client_software_version": "1"}, "empty name"),
        Ask("ApiVersions", {"client_software_name": "a", "client_software_version": ""}, "empty version"),
        Ask("ApiVersions", {"client_software_name": "-a", "client_software_version": "1"}, "begins with a dash"),
        Ask("ApiVersions", {"client_software_name": "a b", "client_software_version": "1"}, "with a space"),
    ),
)

METADATA = Story(
    "metadata",
    "Metadata",
    (
        topic("known-{v}", 2),
        metadata("one", {"name": "known-{v}"}),
        metadata("unknown", {"name": "nowhere-{v}"}),
        metadata("one of each", {"name": "nowhere-{v}"}, {"name": "known-{v}"}),
        metadata("twice", {"name": "known-{v}"}, {"name": "known-{v}"}),
        metadata("bad name", {"name": "a b"}),
        metadata("name of dots", {"name": ".."}),
        metadata("empty name", {"name": ""}),
        metadata("long name", {"name": "n" * 250}),
        metadata("none"),
        metadata("operations", {"name": "known-{v}"}, include_topic_authorized_operations=True),
        metadata("operations of the cluster", {"name": "known-{v}"}, include_cluster_authorized_operations=True),
        metadata("operations of an unknown one", {"name": "no-{v}"}, include_topic_authorized_operations=True),
        metadata("by id", {"topic_id": TopicId("known-{v}"), "name": ByVersion(lambda v: None if v >= 10 else "no")}),
        metadata("by unknown id", {"topic_id": UNKNOWN_ID, "name": ByVersion(lambda v: None if v >= 10 else "no")}),
        metadata("by id and name", {"topic_id": TopicId("known-{v}"), "name": "known-{v}"}),
        metadata("internal", {"name": "__consumer_offsets"}),
    ),
)

CLUSTER = Story(
    "cluster",
    "DescribeCluster",
    (
        Ask("DescribeCluster", {"include_cluster_authorized_operations": False}, "plain"),
        Ask("DescribeCluster", {"include_cluster_authorized_operations": True}, "operations"),
        Ask("DescribeCluster", {"include_cluster_authorized_operations": False, "endpoint_type": 2}, "controllers"),
        Ask("DescribeCluster", {"include_cluster_authorized_operations": False, "endpoint_type": 9}, "unknown type"),
        Ask("DescribeCluster", {"include_cluster_authorized_operations": False, "include_fenced_brokers": True}, "all"),
    ),
)

TOPIC_PAGES = Story(
    "topic pages",
    "DescribeTopicPartitions",
    (
        topic("paged-a", 3),
        topic("paged-b", 2),
        pages("both", "paged-a", "paged-b"),
        pages("not in order", "paged-b", "paged-a"),
        pages("twice", "paged-a", "paged-a"),
        pages("unknown", "paged-c", "paged-a"),
        pages("bad name", "a b"),
        pages("limit", "paged-a", "paged-b", limit=2),
        pages("limit at a border", "paged-a", "paged-b", limit=3),
        pages("no limit", "paged-a", limit=0),
        pages("negative limit", "paged-a", limit=-1),
        pages("cursor", "paged-a", "paged-b", cursor={"topic_name": "paged-a", "partition_index": 1}),
        pages("cursor behind", "paged-a", "paged-b", cursor={"topic_name": "paged-b", "partition_index": 0}),
        pages("cursor before", "paged-b", cursor={"topic_name": "paged-a", "partition_index": 0}),
        pages("cursor beyond", "paged-a", cursor={"topic_name": "paged-a", "partition_index": 9}),
        pages("cursor negative", "paged-a", cursor={"topic_name": "paged-a", "partition_index": -1}),
        pages("cursor behind all", "paged-a", cursor={"topic_name": "z", "partition_index": 0}),
    ),
)

STORIES = (API_VERSIONS, METADATA, CLUSTER, TOPIC_PAGES)
