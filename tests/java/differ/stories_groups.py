"""Classic groups: finding the coordinator, joining, syncing, heartbeats, leaving, descriptions and lists."""

from __future__ import annotations

from typing import Any

from tests.java.differ.story import Ask, Known, Story, Take

ABSENT_MEMBER = "absent-00000000-0000-0000-0000-000000000000"


def find(label: str, kind: int, *keys: str) -> Ask:
    """Asks for coordinators; versions up to 3 for the first key only."""
    return Ask(
        "FindCoordinator", {"key": keys[0] if keys else "", "key_type": kind, "coordinator_keys": list(keys)}, label
    )


FOUND = Story(
    "coordinators",
    "FindCoordinator",
    (
        find("group", 0, "g"),
        find("transaction", 1, "t"),
        find("empty group", 0, ""),
        find("empty transaction", 1, ""),
        find("unknown kind", 9, "g"),
    ),
)

FOUND_MANY = Story(
    "coordinators by many keys",
    "FindCoordinator",
    (find("two", 0, "g", "h"), find("twice", 0, "g", "g"), find("none", 0), find("one of them empty", 0, "", "g")),
    versions=(4, 5, 6),
)


def join(label: str, group: str, member: Any = "", **body: Any) -> Ask:
    """Joins a group as a consumer with one protocol."""
    fields = {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"m"}],
    }
    options = {name: body.pop(name) for name in ("on", "later", "keep") if name in body}
    return Ask("JoinGroup", {**fields, **body}, label, **options)


def sync(label: str, group: str, member: Any, generation: Any = 1, **body: Any) -> Ask:
    """Hands in assignments, or waits for its own."""
    fields = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    return Ask("SyncGroup", {**fields, **body}, label)


def beat(label: str, group: str, member: Any, generation: Any = 1, **body: Any) -> Ask:
    """A heartbeat."""
    until = body.pop("until", None)
    fields = {"group_id": group, "generation_id": generation, "member_id": member, **body}
    return Ask("Heartbeat", fields, label, until=until)


def leave(label: str, group: str, *members: dict[str, Any]) -> Ask:
    """Leaves; versions up to 2 as the first member."""
    first = members[0]["member_id"] if members else ""
    return Ask("LeaveGroup", {"group_id": group, "member_id": first, "members": list(members)}, label)


def described(label: str, *groups: str, **body: Any) -> Ask:
    """Describes groups."""
    return Ask("DescribeGroups", {"groups": list(groups), **body}, label)


def assigned(member: Any) -> dict[str, Any]:
    """An assignment for one member."""
    return {"assignments": [{"member_id": member, "assignment": b"a"}]}


def member(group: str) -> tuple[Ask, ...]:
    """One member joins and gets its assignment; its id is known as ``member`` then."""
    return (
        Ask(
            "JoinGroup",
            {
                "group_id": group, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000,
                "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"m"}],
            },
            "member id", version=9, keep={"member": "member_id"},
        ),
        Ask(
            "JoinGroup",
            {
                "group_id": group, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000,
                "member_id": Known("member"), "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b"m"}],
            },
            "member joins", version=9, keep={"generation": "generation_id"},
        ),
        Ask(
            "SyncGroup",
            {
                "group_id": group, "generation_id": Known("generation"), "member_id": Known("member"),
                "protocol_type": "consumer", "protocol_name": "range", **assigned(Known("member")),
            },
            "member has its assignment", version=5,
        ),
    )  # fmt: skip


JOINED = Story(
    "joined groups",
    "JoinGroup",
    (
        join("first", "j-{v}", keep={"member": "member_id"}),
        join("second", "j-{v}", Known("member"), keep={"generation": "generation_id"}),
        sync("assignment", "j-{v}", Known("member"), Known("generation"), **assigned(Known("member"))),
        join("again, nothing new", "j-{v}", Known("member")),
        join("unknown member", "j-{v}", ABSENT_MEMBER),
        join("another protocol type", "j-{v}", Known("member"), protocol_type="connect"),
        join("another protocol", "j-{v}", Known("member"), protocols=[{"name": "other", "metadata": b""}]),
        join("a stranger with another protocol", "j-{v}", "", protocols=[{"name": "other", "metadata": b""}]),
        join("a stranger of another type", "j-{v}", "", protocol_type="connect"),
        join("no protocols", "j2-{v}", "", protocols=[]),
        join("no protocol type", "j3-{v}", "", protocol_type=""),
        join("empty group", ""),
        join("short session", "j4-{v}", session_timeout_ms=10),
        join("long session", "j4-{v}", session_timeout_ms=100_000_000),
        join("unknown member of an unknown group", "j5-{v}", ABSENT_MEMBER),
        described("described", "j-{v}"),
    ),
)

STATIC = Story(
    "static members",
    "JoinGroup",
    (
        join("first", "s-{v}", group_instance_id="i", keep={"member": "member_id", "generation": "generation_id"}),
        sync(
            "assignment", "s-{v}", Known("member"), Known("generation"), group_instance_id="i",
            **assigned(Known("member")),
        ),
        beat("beat", "s-{v}", Known("member"), Known("generation"), group_instance_id="i"),
        beat("wrong member", "s-{v}", ABSENT_MEMBER, Known("generation"), group_instance_id="i"),
        beat("wrong instance", "s-{v}", Known("member"), Known("generation"), group_instance_id="x"),
        Ask("JoinGroup", {
            "group_id": "s-{v}", "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000,
            "group_instance_id": "i", "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"m"}],
        }, "comes back", keep={"member2": "member_id", "generation2": "generation_id"}),
        beat("the old one", "s-{v}", Known("member"), Known("generation2"), group_instance_id="i"),
        beat("the new one", "s-{v}", Known("member2"), Known("generation2"), group_instance_id="i"),
        described("described", "s-{v}"),
        Ask("LeaveGroup", {"group_id": "s-{v}", "members": [{"member_id": "", "group_instance_id": "x"}]}, "leave, unknown"),
        Ask("LeaveGroup", {"group_id": "s-{v}", "members": [{"member_id": ABSENT_MEMBER, "group_instance_id": "i"}]}, "leave, wrong id"),
        Ask("LeaveGroup", {"group_id": "s-{v}", "members": [{"member_id": "", "group_instance_id": "i"}]}, "leave"),
        described("left", "s-{v}"),
    ),
    versions=(5, 6, 7, 8, 9),
)  # fmt: skip

TWO = Story(
    "two members",
    "JoinGroup",
    (
        *member("two-{v}"),
        Ask("JoinGroup", {
            "group_id": "two-{v}", "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"n"}],
        }, "second member id", version=9, keep={"second": "member_id"}),
        join("second joins", "two-{v}", Known("second"), on="b", later=True),
        beat("first hears of it", "two-{v}", Known("member"), Known("generation"), until=("error_code", 27)),
        join("first joins again", "two-{v}", Known("member")),
        Take("b"),
        sync("stale generation", "two-{v}", Known("member"), 1),
        sync("unknown member", "two-{v}", ABSENT_MEMBER, 2),
        sync("first has all", "two-{v}", Known("member"), 2, **assigned(Known("member"))),
        sync("second has none", "two-{v}", Known("second"), 2),
        sync("second again", "two-{v}", Known("second"), 2),
        beat("second beats", "two-{v}", Known("second"), 2),
        described("both", "two-{v}"),
        leave("second leaves", "two-{v}", {"member_id": Known("second")}),
        beat("first beats", "two-{v}", Known("member"), 2),
        leave("first leaves", "two-{v}", {"member_id": Known("member")}),
        described("none", "two-{v}"),
    ),
    versions=(4, 5, 6, 7, 8, 9),
)  # fmt: skip

SYNCED = Story(
    "synced groups",
    "SyncGroup",
    (
        *member("y-{v}"),
        sync("again", "y-{v}", Known("member")),
        sync("old generation", "y-{v}", Known("member"), 0),
        sync("future generation", "y-{v}", Known("member"), 7),
        sync("unknown member", "y-{v}", ABSENT_MEMBER),
        sync("unknown group", "nowhere-{v}", ABSENT_MEMBER),
        sync("empty group", "", ABSENT_MEMBER),
        sync("another protocol", "y-{v}", Known("member"), protocol_name="other"),
        sync("another type", "y-{v}", Known("member"), protocol_type="connect"),
    ),
)

BEATS = Story(
    "heartbeats",
    "Heartbeat",
    (
        *member("h-{v}"),
        beat("good", "h-{v}", Known("member")),
        beat("old generation", "h-{v}", Known("member"), 0),
        beat("future generation", "h-{v}", Known("member"), 9),
        beat("unknown member", "h-{v}", ABSENT_MEMBER),
        beat("empty member", "h-{v}", ""),
        beat("unknown group", "nowhere-{v}", ABSENT_MEMBER),
        beat("empty group", "", ABSENT_MEMBER),
    ),
)

LEFT = Story(
    "left groups",
    "LeaveGroup",
    (
        *member("l-{v}"),
        leave("unknown member", "l-{v}", {"member_id": ABSENT_MEMBER}),
        leave("unknown group", "nowhere-{v}", {"member_id": ABSENT_MEMBER}),
        leave("empty group", "", {"member_id": ABSENT_MEMBER}),
        leave("good", "l-{v}", {"member_id": Known("member")}),
        leave("again", "l-{v}", {"member_id": Known("member")}),
        described("left", "l-{v}"),
    ),
)

DESCRIBED = Story(
    "described groups",
    "DescribeGroups",
    (
        *member("d-{v}"),
        described("one", "d-{v}"),
        described("unknown", "nowhere-{v}"),
        described("empty name", ""),
        described("twice", "d-{v}", "d-{v}"),
        described("both", "nowhere-{v}", "d-{v}"),
        described("none"),
        described("operations", "d-{v}", include_authorized_operations=True),
        described("operations of an unknown one", "nowhere-{v}", include_authorized_operations=True),
    ),
)

LISTED = Story(
    "listed groups",
    "ListGroups",
    (
        Ask("ListGroups", {}, "all"),
        *(Ask("ListGroups", {"states_filter": [state]}, f"state {state}") for state in ("Stable", "empty", "dead")),
        Ask("ListGroups", {"states_filter": ["no-such-state"]}, "unknown state"),
        *(Ask("ListGroups", {"types_filter": [kind]}, f"type {kind}") for kind in ("classic", "Consumer")),
        Ask("ListGroups", {"types_filter": ["no-such-type"]}, "unknown type"),
        Ask("ListGroups", {"types_filter": ["classic"], "states_filter": ["Empty", "Stable"]}, "type and states"),
    ),
)

DELETED = Story(
    "deleted groups",
    "DeleteGroups",
    (
        *member("x-{v}"),
        Ask("DeleteGroups", {"groups_names": ["x-{v}"]}, "not empty"),
        leave("leaves", "x-{v}", {"member_id": Known("member")}),
        Ask("DeleteGroups", {"groups_names": ["x-{v}", "nowhere-{v}"]}, "empty and unknown"),
        Ask("DeleteGroups", {"groups_names": ["x-{v}"]}, "again"),
        Ask("DeleteGroups", {"groups_names": [""]}, "empty name"),
        Ask("DeleteGroups", {"groups_names": ["nowhere-{v}", "nowhere-{v}"]}, "twice"),
        Ask("DeleteGroups", {}, "none"),
    ),
)

STORIES = (LISTED, FOUND, FOUND_MANY, JOINED, STATIC, TWO, SYNCED, BEATS, LEFT, DESCRIBED, DELETED)
