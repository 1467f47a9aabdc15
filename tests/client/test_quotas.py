"""Quotas through the client, against a running broker."""

import pytest

from stratalog.client.quotas import alter_quotas, describe_quotas
from stratalog.wire.errors import ErrorCode, KafkaError


def test_quotas_are_set_described_and_removed(broker):
    """Entities are names by type; None is the default."""
    client = broker.client()
    alter_quotas(client, {"user": "alice", "client-id": None}, {"producer_byte_rate": 5.0, "request_percentage": 1.5})
    alter_quotas(client, {"user": "alice"}, {"consumer_byte_rate": 7.0}, validate_only=True)
    both = ({"user": "alice", "client-id": None}, {"producer_byte_rate": 5.0, "request_percentage": 1.5})
    assert describe_quotas(client) == [both]
    assert describe_quotas(client, {"user": "alice"}) == [both]
    assert describe_quotas(client, {"user": "alice"}, strict=True) == []
    assert describe_quotas(client, {"client-id": None}) == [both]
    alter_quotas(client, {"user": "alice", "client-id": None}, {"producer_byte_rate": None})
    assert describe_quotas(client) == [(both[0], {"request_percentage": 1.5})]


def test_refusals_are_errors(broker):
    """With the broker's code and words."""
    with pytest.raises(KafkaError, match="greater than 0") as raised:
        alter_quotas(broker.client(), {"user": "alice"}, {"producer_byte_rate": -1.0})
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match="should not be used with user"):
        describe_quotas(broker.client(), {"ip": "10.0.0.1", "user": "alice"})
