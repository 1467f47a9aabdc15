"""Topics from the command line, against a running broker."""

from __future__ import annotations

import pytest


def names_of_topics(stratalog) -> list[str]:
    """Not all that is printed: an id may hold any short word."""
    return [row["topic"] for row in stratalog("topic", "list", "--json").rows]


def test_a_topic_is_created_listed_described_and_deleted(stratalog) -> None:
    """The whole life, as a user sees it."""
    stratalog("topic", "create", "life", "--partitions", "2", "--config", "retention.ms=-1")
    (listed,) = [row for row in stratalog("topic", "list", "--json").rows if row["topic"] == "life"]
    assert (listed["partitions"], listed["replication_factor"], listed["internal"]) == (2, 1, False)
    (described,) = stratalog("topic", "describe", "life", "--json").rows
    assert described["topic_id"] == listed["topic_id"]
    assert described["configs"] == {"retention.ms": "-1"}
    assert described["config_sources"] == {"retention.ms": "topic"}
    assert [(part["partition"], part["log_start"], part["log_end"]) for part in described["partitions"]] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    stratalog("topic", "delete", "life", "--yes")
    assert "life" not in names_of_topics(stratalog)


def test_creating_twice_fails_by_default(stratalog, topic) -> None:
    """Exit code 1, or a note."""
    assert "already exists" in stratalog("topic", "create", topic, code=1).err
    assert "there already" in stratalog("topic", "create", topic, "--if-not-exists").err


def test_json_tells_what_was_created(stratalog) -> None:
    """Id, partitions and replicas as the broker decided them."""
    (made,) = stratalog("topic", "create", "told", "--json").rows
    assert (made["topic"], made["partitions"], made["replication_factor"], made["created"]) == ("told", 1, 1, True)


def test_a_dry_run_creates_nothing(stratalog) -> None:
    """The broker checks; the topic is not there afterwards."""
    stratalog("topic", "create", "dry", "--dry-run")
    stratalog("topic", "describe", "dry", code=3)
    assert "nonsense" in stratalog("topic", "create", "dry", "--dry-run", "--config", "nonsense=1", code=1).err


def test_settings_are_changed_and_given_back(stratalog, topic) -> None:
    """Only those named; a time may have a unit."""
    stratalog("topic", "alter", topic, "--config", "retention.ms=5s", "--config", "segment.ms=7")
    stratalog("topic", "alter", topic, "--delete-config", "segment.ms")
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert described["configs"] == {"retention.ms": "5000"}
    assert "retention.ms=5000  (topic)" in stratalog("topic", "describe", topic).out


def test_a_topic_gets_more_partitions(stratalog, topic) -> None:
    """Never fewer; a dry run only asks."""
    stratalog("topic", "alter", topic, "--partitions", "7", "--dry-run")
    stratalog("topic", "alter", topic, "--partitions", "5", "--config", "segment.ms=7")
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert len(described["partitions"]) == 5
    assert described["configs"] == {"segment.ms": "7"}
    assert "4 would not be an increase" in stratalog("topic", "alter", topic, "-p", "4", code=1).err


def test_all_settings_are_shown_on_demand(stratalog, topic) -> None:
    """With where each comes from."""
    (described,) = stratalog("topic", "describe", topic, "--configs", "all", "--json").rows
    assert described["configs"]["segment.bytes"] == str(1 << 30)
    assert described["config_sources"]["segment.bytes"] == "default"


def test_a_wrong_setting_changes_nothing(stratalog, topic) -> None:
    """Exit code 1 and Kafka's words."""
    assert "Unknown topic config name: nonsense" in stratalog("topic", "alter", topic, "-c", "nonsense=1", code=1).err


@pytest.mark.parametrize(
    "arguments", [("describe", "nope"), ("alter", "nope", "-c", "retention.ms=1"), ("delete", "nope")]
)
def test_a_topic_that_is_not_there_is_exit_code_3(stratalog, arguments) -> None:
    """And is not created by asking."""
    assert "nope" in stratalog("topic", *arguments, code=3).err
    assert "nope" not in names_of_topics(stratalog)


def test_topics_that_went_beside_one_that_is_not_there_are_named(stratalog, topic) -> None:
    """They do not come back, so the error alone would mislead."""
    found = stratalog("topic", "delete", "nope", topic, "nope2", topic, code=3)
    assert found.err.startswith(f"Deleted {topic}.\n")
    assert {"nope", "nope2"} <= {word.strip(":") for word in found.err.split()}
    assert topic not in names_of_topics(stratalog)


@pytest.mark.parametrize(
    "arguments", [("alter", "x"), ("create", "x", "-c", "novalue"), ("create", "x", "-p", "0"), ("describe",)]
)
def test_senseless_options_are_a_usage_error(stratalog, arguments) -> None:
    """Before anything is sent."""
    stratalog("topic", *arguments, code=2)
