"""Kafka's DumpLogSegments on what transactions of Kafka's own client leave in the coordinators' logs."""

from __future__ import annotations

import re

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

MESSAGES = 600


@pytest.fixture(scope="module")
def copied(kafka, serve, clients):
    """A broker on which the copier has copied a topic in transactions v2, and aborted some of them."""
    broker = serve(
        "transaction.state.log.num.partitions=3",
        "offsets.topic.num.partitions=3",
        "group.initial.rebalance.delay.ms=0",
    )
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    for name in ("source", "target"):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    clients.load(broker.address, "none", [("source", 0, b"%d" % n, 1_700_000_000_000) for n in range(MESSAGES)])
    kafka.run(
        "TransactionalMessageCopier", "--transactional-id", "copier", "--broker-list", broker.address, "--input-topic",
        "source", "--input-partition", "0", "--output-topic", "target", "--consumer-group", "group", "--max-messages",
        str(MESSAGES), "--transaction-size", "20", "--enable-random-aborts",
    ).ok()  # fmt: skip
    broker.stop()
    return broker


def test_the_transaction_log_is_kafkas(kafka, copied) -> None:
    """--transaction-log-decoder prints every state, with the version of the client's transactions."""
    dump = kafka.dump(copied.files(".log", partition="__transaction_state-*"), "--transaction-log-decoder").clean()
    assert "Could not decode" not in dump.text
    payloads = [line for line in dump.text.splitlines() if "payload:" in line]
    states = set(re.findall(r'"transactionStatus":(\d)', "\n".join(payloads)))
    assert len(payloads) > MESSAGES // 20
    assert states == set("012345"), payloads[-5:]  # Empty, Ongoing, and both ends prepared and complete
    assert '"clientTransactionVersion":2' in payloads[-1]


def test_the_offsets_of_transactions_are_kafkas(kafka, copied) -> None:
    """--offsets-decoder reads the pending offsets and the markers between them."""
    dump = kafka.dump(copied.files(".log", partition="__consumer_offsets-*"), "--offsets-decoder").clean()
    for end in ("COMMIT", "ABORT"):
        assert f"endTxnMarker: {end}" in dump.text


def test_markers_stand_in_the_topic(kafka, copied) -> None:
    """One for each transaction of the partition, with the epoch behind its batches (KIP-890)."""
    dump = kafka.dump(copied.files(".log", ".txnindex", partition="target-0"), "--print-data-log").clean()
    markers = re.findall(r"endTxnMarker: (COMMIT|ABORT)", dump.text)
    assert markers.count("COMMIT") == MESSAGES // 20
    assert "ABORT" in markers
