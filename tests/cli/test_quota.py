"""Quotas from the command line, against a running broker."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_quotas(stratalog):
    """Every test begins without quotas."""
    yield
    for row in stratalog("quota", "list", "--json").rows:
        names = []
        for kind in ("user", "client-id", "ip"):
            field = kind.replace("-", "_")
            if field in row:
                names += [f"--default-{kind}"] if row[field] is None else [f"--{kind}", row[field]]
        stratalog("quota", "remove", *names, row["key"])


@pytest.mark.story
def test_quotas_are_set_listed_and_removed(stratalog) -> None:
    """The whole life, as a user sees it."""
    stratalog("quota", "set", "--client-id", "etl", "producer_byte_rate=1048576", "request_percentage=12.5")
    stratalog("quota", "set", "--user", "alice", "--default-client-id", "consumer_byte_rate=5")
    stratalog("quota", "set", "--default-ip", "connection_creation_rate=50")
    assert stratalog("quota", "list", "--json").rows == [
        {"ip": None, "key": "connection_creation_rate", "value": 50},
        {"client_id": "etl", "key": "producer_byte_rate", "value": 1048576},
        {"client_id": "etl", "key": "request_percentage", "value": 12.5},
        {"user": "alice", "client_id": None, "key": "consumer_byte_rate", "value": 5},
    ]
    assert "<default>" in stratalog("quota", "list").out
    assert [row["key"] for row in stratalog("quota", "list", "--user", "alice", "--json").rows] == [
        "consumer_byte_rate"
    ]
    stratalog("quota", "remove", "--client-id", "etl", "request_percentage")
    stratalog("quota", "remove", "--user", "alice", "--default-client-id", "--all")
    assert [row["key"] for row in stratalog("quota", "list", "--json").rows] == [
        "connection_creation_rate",
        "producer_byte_rate",
    ]


def test_a_dry_run_changes_nothing(stratalog) -> None:
    """The broker checks."""
    assert "Would set" in stratalog("quota", "set", "--user", "u", "producer_byte_rate=5", "--dry-run").err
    assert "Invalid configuration key" in stratalog("quota", "set", "--user", "u", "x=5", "--dry-run", code=1).err
    assert stratalog("quota", "list", "--json").rows == []


def test_a_missing_entry_cannot_be_removed(stratalog) -> None:
    """Exit code 3, and nothing is changed."""
    assert "has no quota" in stratalog("quota", "remove", "--user", "u", "--all", code=3).err
    stratalog("quota", "set", "--user", "u", "producer_byte_rate=5")
    asked = stratalog("quota", "remove", "--user", "u", "producer_byte_rate", "consumer_byte_rate", code=3)
    assert "user u has no consumer_byte_rate" in asked.err
    assert len(stratalog("quota", "list", "--json").rows) == 1


def test_wrong_commands_are_explained(stratalog) -> None:
    """Exit code 2."""
    assert "name a --user" in stratalog("quota", "set", "producer_byte_rate=5", code=2).err
    assert "exclude" in stratalog("quota", "set", "--user", "u", "--default-user", "producer_byte_rate=5", code=2).err
    assert "KEY=NUMBER" in stratalog("quota", "set", "--user", "u", "producer_byte_rate=fast", code=2).err
    assert "name quotas" in stratalog("quota", "remove", "--user", "u", code=2).err
