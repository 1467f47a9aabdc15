"""Changing and describing quotas: what Kafka takes and refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.controller.quotas import (
    QuotaAlteration,
    QuotaFilter,
    alter_client_quotas,
    quota_search,
)
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.quotas_image import entity_of
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_client_quotas import MatchType

ALICE = [("user", "alice")]


def after(*alterations, image=EMPTY_IMAGE):
    """The image after changes that all succeed."""
    decision = alter_client_quotas(image, [QuotaAlteration(*one) for one in alterations])
    assert [failure for _, failure in decision.result if failure] == []
    return image.apply(decision.records)


def refusal(entity, *operations):
    """Why a change is refused."""
    decision = alter_client_quotas(EMPTY_IMAGE, [QuotaAlteration(entity, operations)])
    ((told, failure),) = decision.result
    assert told == entity
    assert decision.records == ()
    assert failure.code is ErrorCode.INVALID_REQUEST
    return failure.message


def test_quotas_are_set_changed_and_removed():
    """Only what is named changes, and only what changes is written."""
    image = after((ALICE, [("producer_byte_rate", 1024.0), ("request_percentage", 12.5)]))
    assert image.quotas.of(entity_of({"user": "alice"})) == {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    same = alter_client_quotas(image, [QuotaAlteration(ALICE, [("producer_byte_rate", 1024.0), ("no_such", None)])])
    assert same.records == ()
    image = after((ALICE, [("producer_byte_rate", None), ("request_percentage", 99.0)]), image=image)
    assert image.quotas.of(entity_of({"user": "alice"})) == {"request_percentage": 99.0}
    assert after((ALICE, [("request_percentage", None)]), image=image).quotas.by_entity == {}


def test_a_check_alone_writes_nothing():
    """validate_only says what would happen."""
    wanted = [QuotaAlteration(ALICE, [("producer_byte_rate", 1.0)]), QuotaAlteration(ALICE, [])]
    decision = alter_client_quotas(EMPTY_IMAGE, wanted, validate_only=True)
    assert decision.records == ()
    assert [failure and failure.code for _, failure in decision.result] == [None, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        ([], "Invalid empty client quota entity"),
        ([("user", "a"), ("user", "b")], "at most one name"),
        ([("group", "a")], "type: group"),
        ([("client-id", "")], "Empty client-id"),
        ([("ip", "10.0.0.1"), ("user", "a")], "Invalid quota entity combination"),
        ([("ip", "no.such.host")], "no IP address"),
    ],
)
def test_entities_that_cannot_have_quotas(entity, words):
    """Types, names and combinations are checked."""
    assert words in refusal(entity, ("producer_byte_rate", 1.0))


@pytest.mark.parametrize(
    ("entity", "operation", "words"),
    [
        (ALICE, ("retention.ms", 1.0), "Invalid configuration key"),
        (ALICE, ("connection_creation_rate", 1.0), "Invalid configuration key"),
        ([("ip", None)], ("producer_byte_rate", 1.0), "Invalid configuration key"),
        (ALICE, ("producer_byte_rate", 0.0), "greater than 0"),
        (ALICE, ("request_percentage", -1.0), "greater than 0"),
        (ALICE, ("request_percentage", float("nan")), "greater than 0"),
        (ALICE, ("request_percentage", float("inf")), "too large"),
        (ALICE, ("consumer_byte_rate", 1e30), "too large"),
        ([("ip", "::1")], ("connection_creation_rate", 2.0**31), "too large"),
        (ALICE, ("consumer_byte_rate", 1.5), "fractional"),
    ],
)
def test_values_that_are_no_quotas(entity, operation, words):
    """Each key has its range; bytes and connections are whole."""
    assert words in refusal(entity, operation)


def test_a_key_named_twice_is_refused():
    """It would be open which of the two holds."""
    assert "once" in refusal(ALICE, ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))


def test_fractions_of_percentages_and_mutations_are_taken():
    """They are real numbers."""
    after((ALICE, [("request_percentage", 0.5), ("controller_mutation_rate", 0.1)]))


def described(image, *filters, strict=False):
    """The entities that filters find."""
    is_found = quota_search([QuotaFilter(*one) for one in filters], strict=strict)
    found = [(entity, quotas) for entity, quotas in image.quotas.by_entity.items() if is_found(entity)]
    return [entity for entity, _ in found]


NAMES = st.none() | st.sampled_from(["a", "b"])
ENTITIES = st.dictionaries(st.sampled_from(["user", "client-id"]), NAMES, min_size=1).map(entity_of)
FILTERS = st.lists(
    st.tuples(st.sampled_from(["user", "client-id"]), st.sampled_from(MatchType), st.sampled_from(["a", "b"])).map(
        lambda one: one if one[1] is MatchType.EXACT else (*one[:2], None)
    ),
    unique_by=lambda one: one[0],
)


@given(st.lists(ENTITIES, unique=True), FILTERS, st.booleans())
def test_filters_find_what_they_describe(entities, filters, strict):
    """Beside the definition, word by word."""
    image = after(*[(entity, [("producer_byte_rate", 1.0)]) for entity in entities])
    expected = []
    for entity in entities:
        names = dict(entity)
        good = not strict or len(names) == len(filters)
        for kind, match, wanted in filters:
            good = good and kind in names and (match is MatchType.SPECIFIED or names[kind] == wanted)
        if good:
            expected.append(entity)
    assert described(image, *filters, strict=strict) == expected


@pytest.mark.parametrize(
    ("filters", "code"),
    [
        ([("", MatchType.DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", MatchType.DEFAULT, None)] * 2, ErrorCode.INVALID_REQUEST),
        ([("group", MatchType.DEFAULT, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", MatchType.EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", MatchType.DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", MatchType.SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", MatchType.SPECIFIED, None), ("user", MatchType.SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_mean_nothing(filters, code):
    """They are refused as a whole."""
    with pytest.raises(KafkaError) as raised:
        described(EMPTY_IMAGE, *filters)
    assert raised.value.code is code
