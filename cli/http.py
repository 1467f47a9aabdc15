"""Asking a broker's HTTP side from a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from stratalog.cli.command import HTTP_DEFAULT
from stratalog.cli.output import HttpUnanswered, NotFoundError
from stratalog.wire.address import parse_address
from stratalog.wire.errors import Invalid

__all__ = ["http_json", "http_option"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_TIMEOUT_S: Final = 30.0
_OK: Final = 200
_NOT_FOUND: Final = 404
_OUR_FAULT: Final = 500


def http_option(function: Decorated) -> Decorated:
    """Add ``--http``."""
    return click.option(
        "--http", envvar="STRATALOG_HTTP", default=HTTP_DEFAULT, show_default=True, show_envvar=True,
        metavar="HOST:PORT", help="The broker's HTTP address.",
    )(function)  # fmt: skip


def http_json(http: str, method: str, path: str, body: object = None) -> dict[str, Any]:
    """One request to the broker's HTTP side and its JSON answer.

    Raises `NotFoundError`, `Invalid` for what the broker refuses as wrong, `HttpUnanswered` if it does not answer or cannot.
    """
    from http.client import HTTPConnection, HTTPException

    host, port = parse_address(http, "--http")
    connection = HTTPConnection(host or "127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"} if content else {})
        response = connection.getresponse()
        answer = json.load(response)
    except (OSError, HTTPException, ValueError) as error:
        raise HttpUnanswered(f"No broker answers at http {host}:{port}: {error}. Give --http HOST:PORT.") from error
    finally:
        connection.close()
    if response.status != _OK:
        text = str(answer.get("error", response.reason))
        if response.status == _NOT_FOUND:
            raise NotFoundError(text)
        if response.status < _OUR_FAULT:
            raise Invalid(text)
        raise HttpUnanswered(f"The broker at http {host}:{port} answers {response.status}: {text}.")
    assert isinstance(answer, dict)
    return answer
