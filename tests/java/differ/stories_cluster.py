"""Features, the quorum, brokers that go, and frames that hold no request."""

from __future__ import annotations

from typing import Any

from tests.java.differ.story import Ask, Raw, Story


def feature(label: str, name: str, level: int, **body: Any) -> Ask:
    """Changes the level of a feature."""
    own = {key: body.pop(key) for key in ("upgrade_type", "allow_downgrade") if key in body}
    return Ask(
        "UpdateFeatures", {"feature_updates": [{"feature": name, "max_version_level": level, **own}], **body}, label
    )


FEATURES = Story(
    "features",
    "UpdateFeatures",
    (
        feature("unknown", "no.such", 1),
        feature("the same", "transaction.version", 2),
        feature("lower without leave", "transaction.version", 1),
        feature("beyond all", "transaction.version", 99),
        feature("negative", "transaction.version", -1),
        feature("only checked", "transaction.version", 1, upgrade_type=2, validate_only=True),
        feature("unknown kind", "transaction.version", 1, upgrade_type=9),
        feature("metadata lower", "metadata.version", 25, upgrade_type=2),
        Ask("UpdateFeatures", {"feature_updates": [{"feature": "group.version", "max_version_level": 1}] * 2}, "twice"),
        Ask("UpdateFeatures", {}, "none"),
    ),
)

QUORUM = Story(
    "quorum",
    "DescribeQuorum",
    (
        Ask(
            "DescribeQuorum", {"topics": [{"topic_name": "nowhere", "partitions": [{"partition_index": 0}]}]}, "unknown"
        ),
        Ask(
            "DescribeQuorum",
            {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 7}]}]},
            "unknown partition",
        ),
        Ask("DescribeQuorum", {}, "none"),
    ),
)

GONE = Story(
    "brokers that go",
    "UnregisterBroker",
    (Ask("UnregisterBroker", {"broker_id": 9}, "unknown"), Ask("UnregisterBroker", {"broker_id": -1}, "negative")),
)


def header(key: int, version: int, client: bytes = b"\x00\x01a") -> bytes:
    """A request header of version 1."""
    return key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + client


FRAMES = Story(
    "frames",
    "ApiVersions",
    (
        Raw(header(18, 99) + b"\0", "versions of a version to come"),
        Raw(header(18, 99), "a header that ends too early"),
        Raw(header(3, 99), "metadata of a version to come"),
        Raw(header(999, 0), "unknown API"),
        Raw(header(-1, 0), "negative API"),
        Raw(header(3, 1) + b"\x7f\xff\xff\xff", "a list longer than the frame"),
        Raw(header(3, 1) + b"\x00\x00\x00\x01\x00\x09ab", "a text longer than the frame"),
        Raw(header(4, 0), "an API between brokers of before"),
        Raw(b"\x00", "one byte"),
        Raw(header(0, 2), "an old produce"),
        Raw(header(1, 3), "an old fetch"),
    ),
    versions=(0,),
)

STORIES = (FEATURES, QUORUM, GONE, FRAMES)
