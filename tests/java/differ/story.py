"""The words of stories: requests, what they know of earlier answers, differences that are wanted.

A story is a list of requests that both brokers get in the same order. It runs once for each version of the API that it
judges; ``{v}`` in a text is that version, so that every run has topics and groups of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stratalog.wire.messages.registry import APIS
from stratalog.wire.schema import Message
from stratalog.wire.schema_fields import FieldSpec, ListOf, Nested

REQUESTS: dict[str, type[Message]] = {
    pair.request.__name__.removesuffix("Request"): pair.request for pair in APIS.values()
}
RESPONSES: dict[str, type[Message]] = {name: APIS[request.api_key].response for name, request in REQUESTS.items()}


@dataclass(frozen=True)
class Known:
    """A value of an earlier answer of the same broker, kept under this name."""

    name: str


@dataclass(frozen=True)
class TopicId:
    """The id that the same broker gave a topic."""

    topic: str


@dataclass(frozen=True)
class ByVersion:
    """A value that depends on the version of the request."""

    value: Callable[[int], Any]


@dataclass(frozen=True)
class Ask:
    """One request. ``body`` names fields as our declarations do; what it leaves out is zero, empty or the default.

    ``keep`` remembers values of the answer: name to path (``members.0.member_id``). ``version`` is used in place of the
    story's; requests of other APIs than the story's go in their newest version. ``on`` names the connection. A
    ``later`` answer is not waited for: the next `Take` on that connection does. ``until`` asks again until the value at
    a path is as given: another connection's request is being carried out meanwhile.
    """

    api: str
    body: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    version: int | None = None
    keep: Mapping[str, str] = field(default_factory=dict)
    on: str = "main"
    later: bool = False
    answered: bool = True
    until: tuple[str, Any] | None = None


@dataclass(frozen=True)
class Take:
    """Wait for the oldest answer that is due on a connection."""

    on: str = "main"
    keep: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """A frame as it is, without its length; an answer is compared byte by byte, and so is the end of the connection."""

    frame: bytes
    label: str


Step = Ask | Take | Raw


@dataclass(frozen=True)
class Story:
    """Requests in order, run for each version of ``api``, or for those of ``versions``."""

    name: str
    api: str
    steps: Sequence[Step]
    versions: Sequence[int] | None = None


@dataclass(frozen=True)
class Wanted:
    """A difference that is meant to be: where it shows, what both say, and why it stays.

    All but name and reason are regular expressions over the whole text. A path reads ``topics[].error_message``, after
    the label of the request and a colon; ``kafka`` and ``ours`` are compared with Python's own text of the values.
    """

    name: str
    reason: str
    story: str = ".*"
    path: str = ".*"
    kafka: str = ".*"
    ours: str = ".*"

    def explains(self, story: str, path: str, kafka: Any, ours: Any) -> bool:
        """Whether a difference is this one."""
        pairs = ((self.story, story), (self.path, path), (self.kafka, repr(kafka)), (self.ours, repr(ours)))
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in pairs)


Lookup = Callable[[Known | TopicId], Any]


def build(cls: type[Any], body: Mapping[str, Any], version: int, text: Callable[[str], str], known: Lookup) -> Any:
    """A message or struct of ``cls`` from plain values."""
    specs = {spec.name: spec for spec in cls.fields_declared}
    unknown = body.keys() - specs.keys()
    assert not unknown, f"{cls.__name__} has no {', '.join(sorted(unknown))}"
    values = {name: _value(specs[name], body[name], version, text, known) for name in specs if name in body}
    for name, spec in specs.items():
        if spec.required and name not in values:
            values[name] = _zero(spec)
    return cls(**values)


def _value(spec: FieldSpec, value: Any, version: int, text: Callable[[str], str], known: Lookup) -> Any:
    if isinstance(value, ByVersion):
        value = value.value(version)
    if isinstance(value, TopicId):
        value = TopicId(text(value.topic))
    if isinstance(value, Known | TopicId):
        return known(value)
    if isinstance(value, str):
        return text(value)
    kind = spec.type
    if isinstance(value, Mapping) and isinstance(kind, Nested):
        return build(kind.cls, value, version, text, known)
    if isinstance(value, list | tuple) and isinstance(kind, ListOf):
        if isinstance(kind.element, Nested):
            return [build(kind.element.cls, each, version, text, known) for each in value]
        return [_value(spec, each, version, text, known) for each in value]
    return value


def _zero(spec: FieldSpec) -> Any:
    if isinstance(spec.type, ListOf):
        return []
    if isinstance(spec.type, Nested):
        return build(spec.type.cls, {}, 0, str, lambda _: None)
    return None if spec.nullable(0) and spec.name == "records" else spec.type.default
