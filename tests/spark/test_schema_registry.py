"""A schema registry, asked over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from stratalog.spark import schema_registry
from stratalog.spark.schema_registry import (
    RegisteredSchema,
    RegistryAccess,
    RegistryError,
    SchemaNotFound,
    SchemaRegistry,
)
from stratalog.wire.errors import Invalid


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "_PAUSES_SECONDS", (0.0, 0.0))


def test_the_schema_of_an_id_is_asked_for_once(registry: Any) -> None:
    """The newest of a subject each time; registries leave the kind out where it is Avro."""
    registry.put(7, '"string"', subject="orders-value")
    del registry.answers["/schemas/ids/7"]["schemaType"]
    client = SchemaRegistry(RegistryAccess(registry.url + "/"))
    for _ in range(2):
        assert client.schema(7) == client.latest("orders-value") == RegisteredSchema("AVRO", '"string"')
    assert registry.asked == ["/schemas/ids/7", *["/subjects/orders-value/versions/latest"] * 2]
    registry.put(8, '"int"', subject="orders-value")
    assert client.latest("orders-value").text == '"int"'


def test_protobuf_is_asked_for_as_a_descriptor(registry: Any) -> None:
    """The text that people write is of no use here."""
    registry.put(3, "syntax = ...", "PROTOBUF")
    registry.answers["/schemas/ids/3?format=serialized"] = {"schema": "Q0E=", "schemaType": "PROTOBUF"}
    assert SchemaRegistry(RegistryAccess(registry.url)).schema(3) == RegisteredSchema("PROTOBUF", "Q0E=")


def test_references_come_behind_what_they_need(registry: Any) -> None:
    """Each once, however often it is referred to."""
    base, middle = ({"name": name, "subject": name, "version": 1} for name in ("base", "middle"))
    registry.put(1, "B", subject="base")
    registry.put(2, "M", subject="middle", references=[base])
    registry.put(3, "T", references=[middle, base])
    assert SchemaRegistry(RegistryAccess(registry.url)).schema(3).references == (("base", "B"), ("middle", "M"))


def test_names_and_subjects_are_told_as_they_must_be(registry: Any) -> None:
    """Basic authentication; a slash in a subject is no path."""
    registry.put(1, '"int"', subject="a%2Fb-value")
    access = RegistryAccess(registry.url, "me", "s3cret")
    assert SchemaRegistry(access).latest("a/b-value").text == '"int"'
    assert registry.authorization == ["Basic " + base64.b64encode(b"me:s3cret").decode()]
    assert "s3cret" not in repr(access)


def test_what_is_not_there_is_told(registry: Any) -> None:
    """At once: asking again would not help. And what is refused names the option."""
    client = SchemaRegistry(RegistryAccess(registry.url))
    with pytest.raises(SchemaNotFound, match="schema 9 is not in the schema registry http"):
        client.schema(9)
    with pytest.raises(SchemaNotFound, match="subject 'x-value' is not in"):
        client.latest("x-value")
    registry.answers["/schemas/ids/1"] = 401
    with pytest.raises(RegistryError, match=r"refuses schema 1: HTTP 401 .*'schemaRegistry.user'"):
        client.schema(1)
    assert len(registry.asked) == 3


def test_a_registry_that_fails_is_asked_again_and_then_given_up(registry: Any) -> None:
    """Three times; an answer that makes no sense is no answer."""
    client = SchemaRegistry(RegistryAccess(registry.url))
    registry.answers["/schemas/ids/1"] = 503
    with pytest.raises(RegistryError, match="gives no answer for schema 1: HTTP 503"):
        client.schema(1)
    assert len(registry.asked) == 3
    registry.answers["/schemas/ids/1"] = {"version": 1}
    with pytest.raises(RegistryError, match="answer for schema 1 has no schema"):
        client.schema(1)
    registry.shutdown()
    registry.server_close()
    with pytest.raises(RegistryError, match=r"gives no answer for schema 2: .*refused"):
        client.schema(2)


@pytest.mark.parametrize("url", ["registry:8081", "file:///etc/passwd", "http://", ""])
def test_only_addresses_of_the_web_are_asked(url: str) -> None:
    """Anything else is a mistake, or worse."""
    with pytest.raises(Invalid, match="'schemaRegistry' must be a URL"):
        RegistryAccess(url)
