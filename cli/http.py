"""Asking a broker's HTTP side from a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from stratalog.cli.command import HTTP_DEFAULT
from stratalog.cli.output import HttpUnanswered, NotFoundError
from stratalog.client.admin import describe_broker_configs
from stratalog.client.client import Client
from stratalog.wire.address import parse_address
from stratalog.wire.errors import Invalid

__all__ = ["http_address_of", "http_json", "http_option", "http_text_of"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_HTTP_LISTENER: Final = "stratalog.http.listener"
_ALL_ADDRESSES: Final = ("", "0.0.0.0", "::")  # noqa: S104 - to compare with
_TIMEOUT_S: Final = 30.0
_OK: Final = 200
_NOT_FOUND: Final = 404
_OUR_FAULT: Final = 500


def http_option(function: Decorated) -> Decorated:
    """Add ``--http``; None where it is not given."""
    return click.option(
        "--http", envvar="STRATALOG_HTTP", show_envvar=True, metavar="HOST:PORT",
        help="Ask only this HTTP address. By default each broker is asked at the one that its settings name.",
    )(function)  # fmt: skip


def http_address_of(client: Client, node_id: int) -> tuple[str, int]:
    """Where a broker listens for HTTP, by its own settings.

    One that listens on all addresses is asked at the address of its clients.
    """
    broker_host, _ = client.brokers[node_id]
    listener = describe_broker_configs(client, node_id, [_HTTP_LISTENER]).get(_HTTP_LISTENER)
    host, port = parse_address(listener or HTTP_DEFAULT, _HTTP_LISTENER)
    return broker_host if host in _ALL_ADDRESSES else host, port


def http_text_of(client: Client, node_id: int) -> str:
    """The same as ``HOST:PORT``."""
    host, port = http_address_of(client, node_id)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
