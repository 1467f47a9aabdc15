"""Permission to change something over HTTP."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from stratalog.broker.http.refusals import changing_refusal, json_body
from stratalog.broker.requests.authorizer import AllowAll, Operation, ReadOnly


def request(
    remote: str | None = "127.0.0.1",
    content_type: str = "application/json",
    text: str = "{}",
    encoding: str = "identity",
) -> Any:
    async def body() -> bytes:
        return text.encode()

    return SimpleNamespace(remote=remote, content_type=content_type, headers={"Content-Encoding": encoding}, read=body)


@pytest.mark.parametrize("remote", ["127.0.0.1", "127.1.2.3", "::1"])
def test_processes_of_this_machine_may(remote: str) -> None:
    """By any loopback address."""
    assert changing_refusal(request(remote), AllowAll(), Operation.ALTER_CONFIGS, "t") is None


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        (request("10.0.0.1"), 403, "this machine only, not from 10.0.0.1"),
        (request(None), 403, "this machine only"),
        (request("not-an-address"), 403, "this machine only"),
        (request(encoding="gzip"), 415, "without Content-Encoding"),
        (request(content_type="application/x-www-form-urlencoded"), 415, "application/json"),
    ],
)
def test_others_may_not(asked: Any, status: int, words: str) -> None:
    """Other callers, also a form of a web page, get a status and an error text."""
    refusal = changing_refusal(asked, AllowAll(), Operation.ALTER_CONFIGS, "t")
    assert refusal is not None
    assert refusal.status == status
    assert words in json.loads(refusal.text or "")["error"]


def test_the_authorizer_is_asked() -> None:
    """For a client without a log-in."""
    refusal = changing_refusal(request(), ReadOnly(AllowAll()), Operation.ALTER_CONFIGS, "t")
    assert refusal is not None
    assert "User:ANONYMOUS may not ALTER_CONFIGS topic 't'" in json.loads(refusal.text or "")["error"]


@pytest.mark.parametrize(
    ("text", "words"), [("{", "not JSON"), ("[]", "a JSON object"), ("[" * 200_000, "nested too deeply")]
)
async def test_a_body_that_is_no_object_is_refused(text: str, words: str) -> None:
    """With what was expected."""
    answer = await json_body(request(text=text))
    assert words in json.loads(answer.text or "")["error"]  # type: ignore[union-attr]
    assert await json_body(request(text='{"a": 1}')) == {"a": 1}
