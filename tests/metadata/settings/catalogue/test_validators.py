"""Bounds and choices of settings, with Kafka's words."""

import pytest

from stratalog.metadata.settings.catalogue.types import ConfigError
from stratalog.metadata.settings.catalogue.validators import (
    AddressCounts,
    AnyList,
    GzipLevel,
    IgnoreCaseOneOf,
    ListOf,
    NonEmptyText,
    OneOf,
    Range,
    ThrottledReplicas,
    address_counts,
    at_least,
    between,
)

_REFUSED = [
    (at_least(1), 0, "Invalid value 0 for configuration n: Value must be at least 1"),
    (between(1, 17), 18, "Invalid value 18 for configuration n: Value must be no more than 17"),
    (Range(0, 1), 1.5, "Invalid value 1.5 for configuration n: Value must be no more than 1"),
    (at_least(1), None, "Invalid value null for configuration n: Value must be non-null"),
    (OneOf(("a", "b")), "A", "Invalid value A for configuration n: String must be one of: a, b"),
    (
        IgnoreCaseOneOf(("info", "debug")),
        "loud",
        "Invalid value loud for configuration n: String must be one of (case insensitive): INFO, DEBUG",
    ),
    (NonEmptyText(), "", "Invalid value  for configuration n: String must be non-empty"),
    (ListOf(("a", "b")), ("c",), "Invalid value c for configuration n: String must be one of: a, b"),
    (ListOf(("a", "b")), ("a", "a"), "Configuration 'n' values must not be duplicated."),
    (
        ListOf(("a", "b"), empty_allowed=False),
        (),
        "Configuration 'n' must not be empty. Valid values include: [a, b]",
    ),
    (AnyList(), ("a", ""), "Configuration 'n' values must not be empty."),
    (
        AnyList(empty_allowed=False),
        (),
        "Configuration 'n' must not be empty. Valid values include: any non-empty value",
    ),
    (AnyList(), None, "Configuration 'n' values must not be null."),
    (GzipLevel(), 0, "Invalid value 0 for configuration n: Value must be between 1 and 9 or equal to -1"),
    (GzipLevel(), 10, "Invalid value 10 for configuration n: Value must be between 1 and 9 or equal to -1"),
    (
        ThrottledReplicas(),
        ("0:1", "x"),
        (
            "Invalid value [0:1, x] for configuration n: n must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        ),
    ),
]


@pytest.mark.parametrize(("validator", "value", "sentence"), _REFUSED)
def test_a_value_out_of_bounds_is_refused_with_kafkas_sentence(validator, value, sentence):
    """Each validator has Kafka's text for what it refuses."""
    with pytest.raises(ConfigError) as caught:
        validator("n", value)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("validator", "value"),
    [
        (at_least(1), 1),
        (between(1, 17), 17),
        (Range(0, 1), 0.5),
        (OneOf(("a", "b")), "b"),
        (IgnoreCaseOneOf(("info",)), "Info"),
        (NonEmptyText(), None),
        (ListOf(("a", "b")), ()),
        (AnyList(null_allowed=True), None),
        (GzipLevel(), -1),
        (GzipLevel(), 9),
        (ThrottledReplicas(), ("*",)),
        (ThrottledReplicas(), ("0:1", "1:2")),
        (ThrottledReplicas(), ()),
    ],
)
def test_a_value_within_bounds_is_accepted(validator, value):
    """Bounds are inclusive."""
    validator("n", value)


@pytest.mark.parametrize(
    ("validator", "text"),
    [
        (at_least(0), "[0,...]"),
        (between(1, 17), "[1,...,17]"),
        (Range(None, 3), "[...,3]"),
        (OneOf(("a", "b")), "[a, b]"),
        (GzipLevel(), "[1,...,9] or -1"),
        (NonEmptyText(), "non-empty string"),
        (AnyList(), ""),
        (AddressCounts(), "address:count,address:count,..."),
        (AnyList(empty_allowed=False), "non-empty list"),
        (ListOf(("a",)), "[a]"),
        (IgnoreCaseOneOf(("a",)), "(case insensitive) [A]"),
    ],
)
def test_valid_values_read_as_in_kafkas_reference(validator, text):
    """The text of a validator is the column "Valid Values"."""
    assert str(validator) == text


def test_counts_of_addresses_come_under_the_names_that_sockets_tell():
    """Without brackets, in the short form."""
    counts = address_counts(" 10.0.0.1:7 ,[0:0::1]:2147483647,2001:DB8::1:0,")
    assert counts == {"10.0.0.1": 7, "::1": 2147483647, "2001:db8::1": 0}
    assert address_counts("") == {}
    with pytest.raises(ValueError, match=r"'10\.0\.0\.1:2147483648' is not address:count"):
        address_counts("10.0.0.1:2147483648")
