"""Transactions from the command line, against a running broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer


@pytest.fixture
def open_transaction(live_broker, topic):
    """A transactional id with a transaction open on partition 1 of the topic, and its producer."""
    name = f"of-{topic}"
    producer = Producer({"bootstrap.servers": live_broker.kafka, "transactional.id": name, "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=1)
    assert producer.flush(20) == 0
    return name


def test_transactions_are_listed_and_described(stratalog, open_transaction, topic) -> None:
    """By state, duration and pattern; with their partitions."""
    (row,) = stratalog("transaction", "list", "--pattern", f"of-{topic}", "--json").rows
    assert (row["transactional_id"], row["state"]) == (open_transaction, "Ongoing")
    assert open_transaction in stratalog("transaction", "list", "--state", "ongoing").out
    assert open_transaction in stratalog("transaction", "list", "--producer-id", str(row["producer_id"])).out
    assert open_transaction not in stratalog("transaction", "list", "--longer-than", "3600").out
    assert open_transaction not in stratalog("transaction", "list", "--state", "Empty").out
    (found,) = stratalog("transaction", "describe", open_transaction, "--json").rows
    assert (found["state"], found["partitions"], found["timeout_ms"]) == ("Ongoing", [f"{topic}-1"], 60_000)
    assert found["producer_id"] == row["producer_id"]
    assert f"{topic}-1" in stratalog("transaction", "describe", open_transaction).out


def test_an_id_without_a_transaction_has_been_open_for_no_time(stratalog, live_broker, open_transaction) -> None:
    """It would seem to hang; brokers let it pass, as in Kafka. A state that is named counts."""
    name = f"idle-{open_transaction}"
    Producer({"bootstrap.servers": live_broker.kafka, "transactional.id": name}).init_transactions(20)
    listed = stratalog("transaction", "list", "--longer-than", "0").out
    assert open_transaction in listed
    assert name not in listed
    assert name in stratalog("transaction", "list", "--longer-than", "0", "--state", "empty").out


def test_missing_transactions_and_partitions_are_exit_code_3(stratalog, topic) -> None:
    """Exit code 3 for an unknown id, for an unknown partition, and where no transaction began."""
    assert stratalog("transaction", "describe", "absent", code=3).err
    assert stratalog("transaction", "producers", "no-such-topic", "--partition", "0", code=3).err
    refused = stratalog("transaction", "abort", topic, "--partition", "0", "--start-offset", "7", code=3)
    assert "no open transaction" in refused.err


def test_a_hanging_transaction_is_aborted(stratalog, open_transaction, topic) -> None:
    """In one partition, found by where it began; afterwards its producer has none open there."""
    (row,) = stratalog("transaction", "producers", topic, "--partition", "1", "--json").rows
    assert (row["start_offset"], row["last_sequence"]) == (0, 0)
    arguments = ("transaction", "abort", topic, "--partition", "1", "--start-offset", "0", "--json")
    (aborted,) = stratalog(*arguments).rows
    assert (aborted["topic"], aborted["partition"], aborted["producer_id"]) == (topic, 1, row["producer_id"])
    (row,) = stratalog("transaction", "producers", topic, "--partition", "1", "--json").rows
    assert row["start_offset"] is None
