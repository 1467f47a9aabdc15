"""Options of keys and values."""

from __future__ import annotations

import pytest

from stratalog.spark.values.options import VALUE_OPTIONS, FieldOptions, ValueOptions, parse_value_options
from stratalog.wire.errors import Invalid

REGISTRY = {"schemaRegistry": "http://registry:8081"}


def parsed(topics: tuple[str, ...] = ("orders",), **options: str) -> ValueOptions:
    assert set(options) <= set(VALUE_OPTIONS)
    return parse_value_options({name.lower(): value for name, value in options.items()}, topics)


def test_by_default_all_stays_bytes() -> None:
    """No value is decoded, no registry is asked."""
    assert parsed() == ValueOptions()
    assert parsed(keyFormat="Binary").decoded() == {}


def test_a_schema_stands_in_the_option_or_in_a_file() -> None:
    """Keys and values each have their own."""
    options = parsed(keyFormat="string", valueFormat="protobuf", valueSchemaFile="/x.desc", valueMessage="t.Order")
    assert options.decoded() == {
        "key": FieldOptions("string"),
        "value": FieldOptions("protobuf", file="/x.desc", message="t.Order"),
    }
    assert parsed(valueFormat="json", valueSchema="a int").value == FieldOptions("json", "a int")


def test_the_subject_is_that_of_the_topic_or_the_one_named() -> None:
    """A schema of one's own needs none."""
    options = parsed(valueFormat="avro", **REGISTRY, **{"schemaRegistry.user": "me", "schemaRegistry.password": "x"})
    assert options.value.subject == "orders-value"
    assert options.registry is not None
    assert (options.registry.user, options.registry.password) == ("me", "x")
    assert parsed(keyFormat="avro", keySubject="k", **REGISTRY).key.subject == "k"
    assert parsed(valueFormat="avro", valueSchema="{}", **REGISTRY).value.subject == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valueFormat": "xml"}, "'valueFormat' must be one of binary, string, json, avro, protobuf, got 'xml'"),
        ({"valueSchema": "a int"}, "'valueSchema' has no meaning with 'valueFormat' binary"),
        ({"keyFormat": "string", "keyMessage": "m"}, "'keyMessage' has no meaning with 'keyFormat' string"),
        ({"valueFormat": "avro"}, "needs one of the options 'valueSchema', 'valueSchemaFile' and 'schemaRegistry'"),
        ({"valueFormat": "avro", "valueSchema": "{}", "valueSchemaFile": "f"}, "only one of the options"),
        ({"valueFormat": "avro", "valueSchema": "{}", "valueMessage": "m"}, "'valueMessage' has no meaning"),
        ({"valueFormat": "avro", "valueSchema": "{}", "valueSubject": "s"}, "'valueSubject' has no meaning"),
        ({"valueFormat": "avro", "schemaRegistry": "registry"}, "'schemaRegistry' must be a URL"),
        (REGISTRY, "'schemaRegistry' needs 'keyFormat' or 'valueFormat'"),
        ({"schemaRegistry.user": "me"}, "needs the option 'schemaRegistry', the URL"),
    ],
)
def test_contradicting_options_are_refused(options: dict[str, str], message: str) -> None:
    """By the names of the options."""
    with pytest.raises(Invalid, match=message):
        parsed(**options)


def test_many_topics_need_a_subject() -> None:
    """There is no one schema that all of them are read with, unless it is named."""
    with pytest.raises(Invalid, match="option 'valueSubject' must be specified"):
        parsed(("a", "b"), valueFormat="avro", **REGISTRY)
    assert parsed((), valueFormat="avro", valueSubject="all", **REGISTRY).value.subject == "all"
