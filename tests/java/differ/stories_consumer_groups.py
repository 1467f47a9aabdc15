"""Consumer groups of KIP-848."""

from __future__ import annotations

from typing import Any

from tests.java.differ.requests import topic
from tests.java.differ.story import Ask, ByVersion, Known, Story, TopicId

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"


def beat(label: str, group: str, member: Any, epoch: Any, **body: Any) -> Ask:
    """A heartbeat; those of epoch 0 join."""
    keep = {"member": "member_id", "epoch": "member_epoch"} if body.pop("kept", False) else {}
    fields = {"group_id": group, "member_id": member, "member_epoch": epoch, **body}
    return Ask("ConsumerGroupHeartbeat", fields, label, keep=keep)


def joining(**body: Any) -> dict[str, Any]:
    """Fields of the first heartbeat of a member."""
    return {"rebalance_timeout_ms": 30_000, "topic_partitions": [], **body}


FIRST = ByVersion(lambda v: MEMBER if v else "")

BEATS = Story(
    "consumer groups",
    "ConsumerGroupHeartbeat",
    (
        topic("k-{v}", 2),
        beat("join", "k-{v}", FIRST, 0, **joining(subscribed_topic_names=["k-{v}"]), kept=True),
        beat("beat", "k-{v}", Known("member"), Known("epoch")),
        beat(
            "owns them", "k-{v}", Known("member"), Known("epoch"),
            topic_partitions=[{"topic_id": TopicId("k-{v}"), "partitions": [0, 1]}],
        ),
        beat("future epoch", "k-{v}", Known("member"), 99),
        beat("unknown member", "k-{v}", "absent", 1),
        beat("empty group", "", Known("member"), 0, **joining(subscribed_topic_names=["k-{v}"])),
        beat("no topics", "k2-{v}", MEMBER, 0, **joining()),
        beat("no time-out", "k2-{v}", MEMBER, 0, subscribed_topic_names=["k-{v}"], topic_partitions=[]),
        beat("owns some at first", "k2-{v}", MEMBER, 0, subscribed_topic_names=["k-{v}"], rebalance_timeout_ms=1,
             topic_partitions=[{"topic_id": TopicId("k-{v}"), "partitions": [0]}]),
        beat("empty instance", "k2-{v}", MEMBER, 0, **joining(subscribed_topic_names=["k-{v}"], instance_id="")),
        beat("empty rack", "k2-{v}", MEMBER, 0, **joining(subscribed_topic_names=["k-{v}"], rack_id="")),
        beat("unknown assignor", "k2-{v}", MEMBER, 0, **joining(subscribed_topic_names=["k-{v}"], server_assignor="x")),
        beat("epoch below leaving", "k2-{v}", MEMBER, -3),
        beat("leaves an unknown group", "k2-{v}", MEMBER, -1),
        beat("static leave without an instance", "k-{v}", Known("member"), -2),
        beat("unknown group", "k3-{v}", MEMBER, 5),
        Ask("ConsumerGroupDescribe", {"group_ids": ["k-{v}"]}, "described"),
        Ask("ListGroups", {"types_filter": ["consumer"]}, "listed"),
        Ask("DescribeGroups", {"groups": ["k-{v}"]}, "described as a classic one"),
        Ask("OffsetFetch", {"groups": [{"group_id": "k-{v}", "member_id": "absent", "member_epoch": 1}]}, "stranger",
            version=9),
        beat("leave", "k-{v}", Known("member"), -1),
        Ask("ConsumerGroupDescribe", {"group_ids": ["k-{v}"]}, "described when empty"),
        Ask("DeleteGroups", {"groups_names": ["k-{v}"]}, "deleted"),
    ),
)  # fmt: skip

REGEX = Story(
    "expressions of consumer groups",
    "ConsumerGroupHeartbeat",
    (
        beat("bad expression", "e-{v}", MEMBER, 0, **joining(subscribed_topic_regex="(")),
        beat("empty expression", "e-{v}", MEMBER, 0, **joining(subscribed_topic_regex="")),
    ),
    versions=(1,),
)

DESCRIBED = Story(
    "described consumer groups",
    "ConsumerGroupDescribe",
    (
        Ask("ConsumerGroupDescribe", {"group_ids": ["nowhere"]}, "unknown"),
        Ask("ConsumerGroupDescribe", {"group_ids": ["nowhere"], "include_authorized_operations": True}, "operations"),
        Ask("ConsumerGroupDescribe", {"group_ids": [""]}, "empty name"),
        Ask("ConsumerGroupDescribe", {"group_ids": ["alone-9"]}, "a classic one"),
        Ask("ConsumerGroupDescribe", {}, "none"),
    ),
)

STORIES = (BEATS, REGEX, DESCRIBED)
