"""Requests over HTTP that change something: the permission to make them, and the form of refusals.

There is no log-in: any client that can reach the listener could ask. So only processes of this machine may change
anything, in JSON that no form of a web page can send, and as far as the authorizer lets an anonymous client do it over
Kafka.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from typing import Any, Final

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError

from stratalog.broker.http.origin import Handler
from stratalog.broker.requests.authorizer import Authorizer, Operation, ResourceType

__all__ = [
    "ANONYMOUS",
    "MISTAKES",
    "MistakesOfClients",
    "answer_bad_requests",
    "changing_refusal",
    "json_body",
    "length_required",
    "refused",
]

ANONYMOUS: Final = "User:ANONYMOUS"

_PLAIN: Final = "identity"

MISTAKES: Final = (HttpProcessingError, ClientPayloadError, web.RequestPayloadError)
"""Raised by aiohttp for bytes that are no HTTP, and for bodies that are not what their header says."""


class MistakesOfClients(logging.Filter):
    """Keeps strangers' errors out of the log: errors that a client's bytes cause. ``count`` has their number."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is about something else."""
        mistake = record.exc_info is not None and isinstance(record.exc_info[1], MISTAKES)
        self.count += mistake
        return not mistake


def refused(status: int, reason: str) -> web.Response:
    """An error as JSON."""
    return web.json_response({"error": reason}, status=status)


def length_required() -> web.Response:
    """The answer to a body in chunks: each may be one byte, and costs as much as a request."""
    response = refused(411, "send the body with Content-Length, not in chunks")
    response.force_close()
    return response


def changing_refusal(
    request: web.Request,
    authorizer: Authorizer,
    operation: Operation,
    name: str,
    resource: ResourceType = ResourceType.TOPIC,
) -> web.Response | None:
    """Why this request may not change the topic ``name``, or another ``resource``; None if it may."""
    host = request.remote or ""
    if not _is_loopback(host):
        return refused(403, f"changes are taken from this machine only, not from {host}: use the Kafka protocol")
    if request.content_type != "application/json":
        return refused(415, "send JSON, with Content-Type: application/json")
    encoding = request.headers.get("Content-Encoding", _PLAIN)
    if encoding.strip().lower() != _PLAIN:
        return refused(415, f"send JSON without Content-Encoding, not as {encoding}: nothing is unpacked here")
    if not authorizer.allows(ANONYMOUS, host, operation, resource, name):
        what = f"{resource.name.lower()} {name!r}"
        return refused(403, f"{ANONYMOUS} may not {operation.name} {what}: use the Kafka protocol with a log-in")
    return None


async def json_body(request: web.Request) -> dict[str, Any] | web.Response:
    """The JSON object that was sent, or what to answer if it is none."""
    try:
        body = json.loads(await request.read())
    except ConnectionError as error:  # the client has gone: the answer is lost, and the log gets no line
        return refused(400, f"the body did not come to its end: {error}")
    except RecursionError:
        return refused(400, "the body is not the JSON of settings: it is nested too deeply")
    except ValueError as error:
        return refused(400, f"the body is not JSON: {error}")
    return body if isinstance(body, dict) else refused(400, 'the body is a JSON object, as {} or {"name": "value"}')


@web.middleware
async def answer_bad_requests(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A body that cannot be read is the client's mistake: 400, and nothing in the log.

    A body that ends too early, for one.
    """
    try:
        return await handler(request)
    except MISTAKES as error:
        return refused(400, f"the body cannot be read: {error}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
