"""A schema registry, asked over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from stratalog.spark.values import schema_registry
from stratalog.spark.values.schema_registry import (
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


def test_names_and_subjects_are_encoded_for_the_url(registry: Any) -> None:
    """Basic authentication; a slash in a subject is no path."""
    registry.put(1, '"int"', subject="a%2Fb-value")
    access = RegistryAccess(registry.url, "me", "s3cret")
    assert SchemaRegistry(access).latest("a/b-value").text == '"int"'
    assert registry.authorization == ["Basic " + base64.b64encode(b"me:s3cret").decode()]
    assert "s3cret" not in repr(access)


def test_missing_schemas_are_reported(registry: Any) -> None:
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


@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.1:{other}/schemas/ids/1",
        "http://localhost:{port}/x",
        "https://127.0.0.1:{port}/x",
        "file:///etc/passwd",
    ],
)
def test_credentials_go_to_no_other_origin(registry: Any, another_registry: Any, place: str) -> None:
    """A stranger who answers for the registry could otherwise have the password sent anywhere."""
    another_registry.put(1, '"int"')
    registry.answers["/schemas/ids/1"] = place.format(other=another_registry.server_port, port=registry.server_port)
    client = SchemaRegistry(RegistryAccess(registry.url, "me", "s3cret"))
    with pytest.raises(RegistryError, match=r"answers 302 and names .*|refuses schema 1: HTTP 302"):
        client.schema(1)
    assert another_registry.asked == []
    assert registry.asked == ["/schemas/ids/1"]


def test_a_redirect_within_the_registry_is_followed(registry: Any) -> None:
    """To another path; one that leads in circles ends."""
    registry.put(1, '"int"')
    registry.answers["/schemas/ids/2"] = registry.url + "/schemas/ids/1"
    client = SchemaRegistry(RegistryAccess(registry.url, "me", "s3cret"))
    assert client.schema(2).text == '"int"'
    registry.answers["/schemas/ids/3"] = "/schemas/ids/3"
    with pytest.raises(RegistryError, match="HTTP 302"):
        client.schema(3)
    assert len(registry.asked) < 20


def test_a_chain_of_references_without_an_end_is_given_up(registry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted on the way down: the way back never comes."""

    class Endless(dict[str, Any]):
        def get(self, path: str, default: Any = None) -> Any:
            number = len(registry.asked)
            return {"schema": "x", "references": [{"name": f"n{number}", "subject": f"s{number}", "version": 1}]}

    registry.answers = Endless()
    with pytest.raises(RegistryError, match="schema 1 refers to more than 100 schemas"):
        SchemaRegistry(RegistryAccess(registry.url)).schema(1)
    assert len(registry.asked) == 101


def test_references_are_bounded_in_bytes_and_readable(registry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred answers of 4 MiB would be too much as well; what is no reference is said."""
    monkeypatch.setattr(schema_registry, "_REFERENCES_BYTES_MAX", 10)
    registry.put(1, "x" * 11, subject="large")
    registry.put(2, "y", references=[{"name": "large", "subject": "large", "version": 1}])
    client = SchemaRegistry(RegistryAccess(registry.url))
    with pytest.raises(RegistryError, match="that schema 2 refers to have more than 10 bytes"):
        client.schema(2)
    for number, references in enumerate(([{"name": "a"}], [1], 7, [{"name": "a", "subject": "b", "version": "c"}]), 3):
        registry.put(number, "y", references=references)
        with pytest.raises(RegistryError, match=f"the references of schema {number} cannot be read"):
            client.schema(number)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b" " * (4 << 20) + b"{}", "with more than 4194304 bytes"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "no JSON object"),
    ],
)
def test_answers_are_bounded(registry: Any, answer: bytes, words: str) -> None:
    """In bytes, which are not read on, and in depth."""
    registry.answers["/schemas/ids/1"] = answer
    with pytest.raises(RegistryError, match=words):
        SchemaRegistry(RegistryAccess(registry.url)).schema(1)
