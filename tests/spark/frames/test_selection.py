"""Arguments of a Python program, as options of a read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from stratalog.spark.frames.selection import select
from stratalog.spark.source.options import EARLIEST, LATEST
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
BASE = {"archive": "memory:x"}


def test_by_default_all_of_a_topic_is_read_committed() -> None:
    """Without headers, as the Spark source does."""
    asked = select("orders", BASE)
    assert asked.subscription.topics == ("orders",)
    assert (asked.starting.edge, asked.ending.edge) == (EARLIEST, LATEST)
    assert asked.read_committed
    assert "headers" not in asked.columns


def test_one_place_holds_for_all_partitions_and_a_mapping_for_its_own() -> None:
    """Offsets of any integer type, times with a zone; other partitions keep the end of the archive."""
    asked = select("orders", BASE, start=np.int64(5), end={0: 9, 1: datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)})
    assert asked.starting.offset_of(FIRST) == asked.starting.offset_of(SECOND) == 5
    assert (asked.ending.offset_of(FIRST), asked.ending.timestamp_of(FIRST)) == (9, None)
    assert asked.ending.timestamp_of(SECOND) == 2000
    assert asked.ending.offset_of(TopicPartition("orders", 2)) == LATEST


def test_a_time_is_the_first_millisecond_that_is_not_before_it() -> None:
    """Records have milliseconds: one of 1000 ms is before 1000.001 ms, so it belongs neither to the start nor beyond the end."""
    zone = timezone(timedelta(hours=2))
    asked = select("orders", BASE, start=datetime(1970, 1, 1, 2, 0, 1, 1, tzinfo=zone))
    assert asked.starting.timestamp_of(FIRST) == 1001
    assert select("orders", BASE, start=datetime(1960, 1, 1, tzinfo=UTC)).starting.timestamp_of(FIRST) == 0
    assert asked.start_beyond_last_is_latest


def test_partitions_columns_and_isolation_are_those_of_the_source() -> None:
    """One column may be given without a list."""
    asked = select("orders", BASE, partitions=range(2), columns="value", isolation="read_uncommitted")
    assert asked.subscription.assignment == {"orders": (0, 1)}
    assert asked.columns == ("value",)
    assert not asked.read_committed


def test_the_isolation_of_the_topic_holds_unless_the_call_names_one() -> None:
    """An option of the topic is not undone by a default; case does not matter."""
    dirty = {**BASE, "Kafka.Isolation.Level": "read_uncommitted"}
    assert not select("orders", dirty).read_committed
    assert select("orders", dirty, isolation="read_committed").read_committed
    assert not select("orders", BASE, isolation="read_uncommitted").read_committed


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"start": datetime(2026, 1, 1)}, "start: 2026-01-01T00:00:00 has no time zone"),  # noqa: DTZ001 - what is refused
        ({"end": date(2026, 1, 1)}, "end: 2026-01-01 has no time of day"),
        ({"start": -2}, "start: -2 is no offset"),
        ({"start": True}, "start: True is no offset"),
        ({"end": "latest"}, "end: 'latest' is neither an offset nor a datetime"),
        ({"start": {0: "x"}}, "start: 'x' is neither"),
        ({"partitions": [-1]}, "partitions: -1 is no offset"),
        ({"partitions": []}, "partitions: none of topic 'orders' is named"),
        ({"columns": ["vlaue"]}, "names no column of"),
        ({"isolation": "dirty"}, "read_committed or read_uncommitted"),
    ],
)
def test_senseless_arguments_are_refused(selection: dict[str, Any], message: str) -> None:
    """With the name of the argument."""
    with pytest.raises(Invalid, match=message):
        select("orders", BASE, **selection)


@pytest.mark.parametrize("topic", ["a,b", " orders ", "", "../x"])
def test_a_topic_is_one_topic_whatever_its_name(topic: str) -> None:
    """No comma divides it: what no topic is called is an unknown topic when it is read."""
    assert select(topic, BASE).subscription.topics == (topic,)
    assert select(topic, BASE, partitions=[1, 0, 1]).subscription.assignment == {topic: (0, 1)}
