"""Groups from the command line, against a running broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from stratalog.cli import group as cli_group
from stratalog.wire.errors import ErrorCode, KafkaError

RECORDS = 6
TIME_MS = 1_700_000_000_000


@pytest.fixture
def filled(stratalog, topic):
    """A topic with three partitions and six records, a second apart, in each of the first two."""
    lines = "".join(
        f'{{"partition": {number}, "value": "v", "timestamp": {TIME_MS + 1000 * n}}}\n'
        for number in (0, 1)
        for n in range(RECORDS)
    )
    stratalog("produce", topic, "--input", "json", stdin=lines)
    return topic


@pytest.fixture
def group(live_broker, filled):
    """A group that is offsets alone: 2 of partition 0, 6 of partition 1."""
    name = f"of-{filled}"
    consumer = Consumer({"bootstrap.servers": live_broker.kafka, "group.id": name, "log_level": 0})
    offsets = [TopicPartition(filled, 0, 2, "note"), TopicPartition(filled, 1, 6)]
    assert [one.error for one in consumer.commit(offsets=offsets, asynchronous=False)] == [None, None]
    consumer.close()
    return name


def offsets_of(stratalog, name: str) -> list[tuple[int, int, int]]:
    (described,) = stratalog("group", "describe", name, "--json").rows
    return [(row["partition"], row["offset"], row["lag"]) for row in described["partitions"]]


@pytest.mark.story
def test_a_group_is_listed_and_described(stratalog, group, filled) -> None:
    """Offsets, ends and lag of each partition; a group of offsets alone is empty."""
    (listed,) = [row for row in stratalog("group", "list", "--json").rows if row["group"] == group]
    assert (listed["type"], listed["state"]) == ("classic", "Empty")
    assert group in stratalog("group", "list", "--state", "empty", "--type", "classic").out
    assert group not in stratalog("group", "list", "--state", "stable").out
    (described,) = stratalog("group", "describe", group, "--json").rows
    assert (described["group"], described["state"], described["members"]) == (group, "Empty", [])
    assert described["lag"] == 4
    assert [(row["topic"], row["partition"], row["offset"], row["log_end"], row["lag"]) for row in described["partitions"]] == [
        (filled, 0, 2, 6, 4),
        (filled, 1, 6, 6, 0),
    ]  # fmt: skip
    text = stratalog("group", "describe", group).out
    assert "Empty" in text.splitlines()[0]
    assert text.splitlines()[2].split() == [filled, "0", "2", "6", "4"]


@pytest.mark.story
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_described(stratalog, live_broker, filled, protocol) -> None:
    """The members and their partitions, of both protocols; the offsets of a group with members cannot be set."""
    name = f"{protocol}-{filled}"
    consumer = Consumer(
        {"bootstrap.servers": live_broker.kafka, "group.id": name, "group.protocol": protocol, "client.id": "reader",
         "auto.offset.reset": "earliest", "log_level": 0}
    )  # fmt: skip
    consumer.subscribe([filled])
    try:
        assert consumer.poll(20) is not None
        (described,) = stratalog("group", "describe", name, "--json").rows
        assert (described["type"], described["state"]) == (protocol, "Stable")
        (member,) = described["members"]
        assert (member["client_id"], member["epoch"] is None) == ("reader", protocol == "classic")
        assert member["partitions"] == [{"topic": filled, "partition": number} for number in range(3)]
        assert {row["member"] for row in described["partitions"]} == {member["member"]}
        assert member["member"] in stratalog("group", "describe", name).out
        reset = ("group", "reset-offsets", name, "--topic", filled, "--to-earliest", "--execute")
        assert "no members" in stratalog(*reset, code=2).err
        assert "non empty group" in stratalog("group", "delete", name, code=1).err
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (["--to-earliest"], (0, 0)),
        (["--to-latest"], (6, 6)),
        (["--to-offset", "4"], (4, 4)),
        (["--shift-by", "-1"], (1, 5)),
        (["--shift-by", "3"], (5, 6)),
        (["--to-datetime", "2023-11-14T22:13:23Z"], (3, 3)),
        (["--to-datetime", str(TIME_MS + 60_000)], (6, 6)),
        (["--to-datetime", "1969-12-31T23:59:59.999Z"], (0, 0)),
    ],
)
def test_offsets_are_reset_with_execute(stratalog, group, option, expected) -> None:
    """Shown first; set with --execute."""
    reset = ("group", "reset-offsets", group, "--all-topics", *option)
    shown = stratalog(*reset, "--json")
    assert [(row["offset"], row["new_offset"], row["executed"]) for row in shown.rows] == [
        (2, expected[0], False),
        (6, expected[1], False),
    ]
    assert "add --execute" in shown.err
    assert [one[1] for one in offsets_of(stratalog, group)] == [2, 6]
    done = stratalog(*reset, "--execute", "--json")
    assert {row["executed"] for row in done.rows} == {True}
    assert [one[1] for one in offsets_of(stratalog, group)] == list(expected)


def test_offsets_that_are_refused_hide_none_that_are_set(stratalog, group, monkeypatch) -> None:
    """Each row says of its own; the exit code is that of the first refusal."""
    whole = cli_group.set_offsets

    def some(client, name, offsets):
        (first, offset), second = list(offsets.items())
        assert whole(client, name, {first: offset}) == {}
        return {second[0]: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")}

    monkeypatch.setattr(cli_group, "set_offsets", some)
    done = stratalog("group", "reset-offsets", group, "--all-topics", "--to-earliest", "--execute", "--json", code=3)
    assert [row["executed"] for row in done.rows] == [True, False]
    assert f"Set 1 offsets of group {group}. 1 were refused." in done.err
    assert done.err.endswith("gone\n")
    assert [one[1] for one in offsets_of(stratalog, group)] == [0, 6]


def test_some_partitions_are_reset(stratalog, group, filled) -> None:
    """Those named, also ones without an offset so far, and of a group that is not there yet."""
    stratalog("group", "reset-offsets", group, "--topic", f"{filled}:0,2", "--to-latest", "--execute")
    assert offsets_of(stratalog, group) == [(0, 6, 0), (1, 6, 0), (2, 0, 0)]
    said = stratalog("group", "reset-offsets", f"new-{group}", "--topic", filled, "--to-offset", "9", "--execute")
    assert "nothing beyond 6" in said.err
    assert offsets_of(stratalog, f"new-{group}") == [(0, 6, 0), (1, 6, 0), (2, 0, 0)]
    nothing = stratalog("group", "reset-offsets", "absent", "--all-topics", "--to-latest", "--execute")
    assert "has committed nothing" in nothing.err


def test_a_group_is_deleted(stratalog, group) -> None:
    """With its offsets; then it is not there."""
    stratalog("group", "delete", group, "--yes")
    assert "not found" in stratalog("group", "describe", group, code=3).err
    stratalog("group", "delete", group, code=3)
    assert group not in stratalog("group", "list").out


def test_a_group_that_is_not_there_keeps_no_other_from_going(stratalog, group) -> None:
    """Those that went are named, and so is each that did not."""
    found = stratalog("group", "delete", "nope", group, "nope2", "--yes", code=3)
    assert found.err.startswith(f"Deleted {group}.\n")
    assert found.err.count("Error: ") == 2
    assert group not in stratalog("group", "list").out


def test_a_deleted_topic_takes_its_offsets_along(stratalog, group, filled) -> None:
    """The group may stay, without them."""
    stratalog("topic", "delete", filled, "--yes")
    rows = [row["group"] for row in stratalog("group", "list", "--json").rows]
    if group in rows:
        assert offsets_of(stratalog, group) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("describe", "absent"), 3),
        (("describe",), 2),
        (("reset-offsets", "g", "--topic", "t"), 2),
        (("reset-offsets", "g", "--to-latest"), 2),
        (("reset-offsets", "g", "--all-topics", "--topic", "t", "--to-latest"), 2),
        (("reset-offsets", "g", "--all-topics", "--to-latest", "--to-earliest"), 2),
        (("reset-offsets", "g", "--topic", "nope", "--to-latest"), 3),
        (("reset-offsets", "g", "--all-topics", "--to-datetime", "yesterday"), 2),
        (("list", "--type", "share"), 2),
    ],
)
def test_senseless_options_are_refused(stratalog, arguments, code) -> None:
    """With the exit code that fits."""
    stratalog("group", *arguments, code=code)


def test_partitions_that_do_not_exist_are_refused(stratalog, group, filled) -> None:
    """By number, or because it is none."""
    reset = ("group", "reset-offsets", group, "--to-latest", "--topic")
    assert "no partition 7" in stratalog(*reset, f"{filled}:0,7", code=3).err
    assert "is not TOPIC" in stratalog(*reset, f"{filled}:x", code=2).err


def test_groups_before_one_that_is_not_there_are_described(stratalog, group) -> None:
    """The error ends the list."""
    found = stratalog("group", "describe", group, "nope", group, "--json", code=3)
    assert [row["group"] for row in found.rows] == [group]
    assert "nope" in found.err
