"""Access to the pages that a broker serves without a password: closed to requests that a foreign web page sent.

A page from elsewhere that is open in a browser on this machine can give its own name the address 127.0.0.1, and then
read from here as if from its own server (DNS rebinding). Its requests still carry that name in ``Host``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Collection, Mapping

from aiohttp import web
from aiohttp.typedefs import Middleware

__all__ = ["Handler", "host_is_local", "this_host_only"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def this_host_only(open_paths: Collection[str]) -> Middleware:
    """Answers requests that came over loopback only under a loopback name, but for ``open_paths``; others get 421.

    An operator that listens elsewhere has names that we cannot know, and has put something in front that guards them.
    It stands before the routes, so a new one has it as well.
    """

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        local = "" if request.transport is None else str(request.transport.get_extra_info("sockname")[0])
        if request.path not in open_paths and _is_loopback(local) and not host_is_local(request.headers):
            name = request.headers.get("Host", "")
            text = f"this address is for its own machine; {name!r} is another name: use localhost or 127.0.0.1\n"
            return web.Response(status=421, text=text)
        return await handler(request)

    return checked


def host_is_local(headers: Mapping[str, str]) -> bool:
    """Whether ``Host`` names the machine itself, with any port."""
    host = headers.get("Host", "")
    name = host[1 : host.find("]")] if host.startswith("[") else host.rsplit(":", 1)[0]
    return name.lower().rstrip(".") == "localhost" or name.lower().endswith(".localhost") or _is_loopback(name)


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False
