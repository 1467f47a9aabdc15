"""AlterClientQuotas: quotas are set, removed, checked and refused, entity by entity."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

ALICE = (("user", "alice"),)


def entry(entity, *operations):
    """The changes for one entity: (key, value), where None removes."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in operations],
    )


def ask(broker, *entries, version=1, validate_only=False):
    """The codes of the answer, in order."""
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = broker.link().call(request, version)
    assert [one.entity for one in answer.entries] == [one.entity for one in entries]
    return [one.error_code for one in answer.entries]


def quotas(broker):
    """The present quotas."""
    return {entity: dict(values) for entity, values in broker.node.image.quotas.by_entity.items()}


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_and_removed_in_every_version(broker, version):
    """They are in the image when the answer comes, and gone when they are removed."""
    pair = (("user", "alice"), ("client-id", None))
    wanted = [entry(ALICE, ("producer_byte_rate", 100.0)), entry(pair, ("request_percentage", 1.5))]
    assert ask(broker, *wanted, version=version) == [0, 0]
    assert quotas(broker) == {ALICE: {"producer_byte_rate": 100.0}, pair[::-1]: {"request_percentage": 1.5}}
    assert ask(broker, entry(ALICE, ("producer_byte_rate", None)), version=version) == [0]
    assert quotas(broker) == {pair[::-1]: {"request_percentage": 1.5}}


def test_a_check_changes_nothing(broker):
    """validate_only answers as the real request would."""
    wanted = [entry(ALICE, ("producer_byte_rate", 100.0)), entry(ALICE[:0], ("producer_byte_rate", 1.0))]
    assert ask(broker, *wanted, validate_only=True) == [0, ErrorCode.INVALID_REQUEST]
    assert quotas(broker) == {}


def test_entities_succeed_and_fail_for_themselves(broker):
    """One that is refused keeps none of its changes; the others keep theirs."""
    refused = entry((("user", "bob"),), ("producer_byte_rate", 5.0), ("no.such", 1.0))
    assert ask(broker, refused, entry(ALICE, ("producer_byte_rate", 5.0))) == [ErrorCode.INVALID_REQUEST, 0]
    assert list(quotas(broker)) == [ALICE]


def test_an_unexpected_failure_is_answered_for_each_entity(broker, monkeypatch):
    """UNKNOWN_SERVER_ERROR, and nothing has changed."""
    monkeypatch.setattr(type(broker.node.control), "execute", lambda *_: 1 / 0)
    wanted = [entry(ALICE, ("producer_byte_rate", 100.0)), entry((("ip", None),), ("connection_creation_rate", 1.0))]
    assert ask(broker, *wanted) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert quotas(broker) == {}
