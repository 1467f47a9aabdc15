"""Committed offsets: of members, of groups that only commit, in old and new forms; deletions."""

from __future__ import annotations

from typing import Any

from tests.java.differ.requests import topic
from tests.java.differ.stories_groups import ABSENT_MEMBER, member
from tests.java.differ.story import Ask, Known, Story, TopicId

UNKNOWN_ID = bytes(range(16))


def commit(label: str, group: str, name: str, *places: tuple[int, int], metadata: str | None = "m", **body: Any) -> Ask:
    """Commits offsets of one topic: (partition, offset)."""
    partitions = [
        {"partition_index": at, "committed_offset": offset, "committed_metadata": metadata} for at, offset in places
    ]
    topic_id = body.pop("topic_id", TopicId(name))
    topics = [{"name": name, "topic_id": topic_id, "partitions": partitions}]
    return Ask("OffsetCommit", {"group_id": group, "member_id": "", "topics": topics, **body}, label)


def fetched(label: str, group: str, name: str | None, *partitions: int, **body: Any) -> Ask:
    """Asks for offsets of one topic, or of all."""
    topic_id = body.pop("topic_id", None) or (TopicId(name) if name else UNKNOWN_ID)
    old = None if name is None else [{"name": name, "partition_indexes": list(partitions)}]
    new = None if name is None else [{"name": name, "topic_id": topic_id, "partition_indexes": list(partitions)}]
    own = {key: body.pop(key) for key in ("member_id", "member_epoch") if key in body}
    fields = {"group_id": group, "topics": old, "groups": [{"group_id": group, "topics": new, **own}]}
    return Ask("OffsetFetch", {**fields, **body}, label)


COMMITTED = Story(
    "committed offsets",
    "OffsetCommit",
    (
        topic("c-{v}", 2),
        commit("without members", "alone-{v}", "c-{v}", (0, 5)),
        commit("again", "alone-{v}", "c-{v}", (0, 7), (1, 3)),
        commit("null metadata", "alone-{v}", "c-{v}", (0, 8), metadata=None),
        commit("long metadata", "alone-{v}", "c-{v}", (0, 9), metadata="m" * 5000),
        commit("negative offset", "alone-{v}", "c-{v}", (0, -5)),
        commit("unknown partition", "alone-{v}", "c-{v}", (9, 1)),
        commit("unknown topic", "alone-{v}", "nowhere-{v}", (0, 1), topic_id=UNKNOWN_ID),
        commit("generation without members", "alone-{v}", "c-{v}", (0, 1), generation_id_or_member_epoch=3),
        commit("member of an unknown group", "new-{v}", "c-{v}", (0, 1), member_id=ABSENT_MEMBER),
        commit("generation of an unknown group", "new-{v}", "c-{v}", (0, 1), generation_id_or_member_epoch=1),
        commit("empty group", "", "c-{v}", (0, 1)),
        Ask("OffsetCommit", {"group_id": "alone-{v}", "member_id": ""}, "nothing"),
        *member("live-{v}"),
        commit(
            "as a member", "live-{v}", "c-{v}", (0, 4), member_id=Known("member"),
            generation_id_or_member_epoch=Known("generation"),
        ),
        commit("old generation", "live-{v}", "c-{v}", (0, 4), member_id=Known("member"), generation_id_or_member_epoch=0),
        commit("unknown member", "live-{v}", "c-{v}", (0, 4), member_id=ABSENT_MEMBER, generation_id_or_member_epoch=1),
        commit("no member of a live group", "live-{v}", "c-{v}", (0, 4)),
        commit(
            "unknown instance", "live-{v}", "c-{v}", (0, 4), member_id=Known("member"), group_instance_id="x",
            generation_id_or_member_epoch=Known("generation"),
        ),
        fetched("fetched", "alone-{v}", None),
        fetched("fetched of members", "live-{v}", None),
        Ask("DescribeGroups", {"groups": ["alone-{v}"]}, "described"),
        Ask("ListGroups", {"states_filter": ["empty"]}, "listed"),
    ),
)  # fmt: skip

FETCHED = Story(
    "fetched offsets",
    "OffsetFetch",
    (
        topic("f-{v}", 2),
        commit("committed", "fg-{v}", "f-{v}", (0, 5)),
        fetched("one", "fg-{v}", "f-{v}", 0),
        fetched("one without an offset", "fg-{v}", "f-{v}", 1),
        fetched("unknown partition", "fg-{v}", "f-{v}", 0, 9),
        fetched("unknown topic", "fg-{v}", "nowhere-{v}", 0, topic_id=UNKNOWN_ID),
        fetched("unknown group", "nowhere-{v}", "f-{v}", 0, 1),
        fetched("empty group", "", "f-{v}", 0),
        fetched("stable", "fg-{v}", "f-{v}", 0, require_stable=True),
        fetched("unknown member", "fg-{v}", "f-{v}", 0, member_id="m", member_epoch=1),
        fetched("unknown member of an unknown group", "nowhere-{v}", "f-{v}", 0, member_id="m", member_epoch=1),
        fetched("no partitions", "fg-{v}", "f-{v}"),
    ),
)

FETCHED_ALL = Story(
    "all fetched offsets",
    "OffsetFetch",
    (fetched("all", "fg-{v}", None), fetched("all of an unknown group", "nowhere-{v}", None)),
    versions=tuple(range(2, 11)),
)

FETCHED_OF_GROUPS = Story(
    "fetched offsets of groups",
    "OffsetFetch",
    (
        Ask("OffsetFetch", {"groups": [{"group_id": name, "topics": None} for name in ("fg-{v}", "no-{v}")]}, "two"),
        Ask("OffsetFetch", {"groups": [{"group_id": "fg-{v}", "topics": None}] * 2}, "twice"),
        Ask("OffsetFetch", {}, "none"),
    ),
    versions=(8, 9, 10),
)


def delete(label: str, group: str, *places: tuple[str, int]) -> Ask:
    """Deletes committed offsets."""
    topics = [{"name": name, "partitions": [{"partition_index": at}]} for name, at in places]
    return Ask("OffsetDelete", {"group_id": group, "topics": topics}, label)


OFFSETS_DELETED = Story(
    "deleted offsets",
    "OffsetDelete",
    (
        topic("od", 2),
        commit("committed", "odg", "od", (0, 5), (1, 6)),
        delete("one", "odg", ("od", 0)),
        delete("again", "odg", ("od", 0)),
        delete("unknown partition", "odg", ("od", 9)),
        delete("unknown topic", "odg", ("nowhere", 0)),
        delete("unknown group", "nowhere", ("od", 0)),
        delete("empty group", "", ("od", 0)),
        delete("nothing", "odg"),
        fetched("fetched", "odg", None),
    ),
)

STORIES = (COMMITTED, FETCHED, FETCHED_ALL, FETCHED_OF_GROUPS, OFFSETS_DELETED)
