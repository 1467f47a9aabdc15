"""Rows of a dump, and messages in them."""

from __future__ import annotations

from stratalog.cli.dump.row import message_fields, problem, row
from stratalog.wire.records.metadata import BrokerEndpoint, RegisterBrokerRecord
from stratalog.wire.topic import uuid_text


def test_a_row_says_first_what_it_is() -> None:
    """Fields keep their order; a problem has a place, known or not."""
    assert list(row("batch", position=1, offset=2)) == ["what", "position", "offset"]
    assert problem("torn", position=7) == {"what": "problem", "position": 7, "offset": None, "reason": "torn"}


def test_a_message_becomes_plain_values() -> None:
    """Nested lists of structs, and uuids as Kafka prints them."""
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)
    record = RegisterBrokerRecord(
        broker_id=1, incarnation_id=bytes(range(16)), broker_epoch=5, end_points=[endpoint], features=[], rack=None
    )
    fields = message_fields(record)
    assert fields["incarnation_id"] == uuid_text(bytes(range(16)))
    assert fields["end_points"] == [{"name": "PLAINTEXT", "host": "localhost", "port": 9092, "security_protocol": 0}]
    assert fields["rack"] is None
