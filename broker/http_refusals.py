"""Requests over HTTP that change something: who may make them, and how refusals are said.

There is no log-in: whoever can reach the listener could ask. So only processes of this machine may change anything, in
JSON that no form of a web page can send, and as far as the authorizer lets an anonymous client do it over Kafka.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any, Final

from aiohttp import web

from stratalog.broker.authorizer import Authorizer, Operation, ResourceType

__all__ = ["ANONYMOUS", "changing_refusal", "json_body", "refused"]

ANONYMOUS: Final = "User:ANONYMOUS"


def refused(status: int, reason: str) -> web.Response:
    """An error as JSON."""
    return web.json_response({"error": reason}, status=status)


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
    if not authorizer.allows(ANONYMOUS, host, operation, resource, name):
        what = f"{resource.name.lower()} {name!r}"
        return refused(403, f"{ANONYMOUS} may not {operation.name} {what}: use the Kafka protocol with a log-in")
    return None


async def json_body(request: web.Request) -> dict[str, Any] | web.Response:
    """The JSON object that was sent, or what to answer if it is none."""
    try:
        body = json.loads(await request.text())
    except ValueError as error:
        return refused(400, f"the body is not JSON: {error}")
    return body if isinstance(body, dict) else refused(400, 'the body is a JSON object, as {} or {"name": "value"}')


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
