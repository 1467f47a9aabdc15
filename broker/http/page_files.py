"""The page that shows the tier: a few files beside this one, read once, and what a browser may do with them."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Final

from aiohttp import web

from stratalog.broker.http.server import Route

__all__ = ["FILES", "page_routes"]

FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page/rows.js": ("rows.js", "text/javascript; charset=utf-8"),
    "/page/words.js": ("words.js", "text/javascript; charset=utf-8"),
    "/page/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""File and content type by path: nothing else is ever read from the disk."""

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def page_routes() -> dict[str, Route]:
    """The routes by path. Raises `OSError` if a file of the package is missing."""
    folder = resources.files("stratalog.broker.http") / "page"
    return {path: _route((folder / name).read_bytes(), kind) for path, (name, kind) in FILES.items()}


def _route(content: bytes, content_type: str) -> Route:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**_HEADERS, "ETag": tag}

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=content, headers={**headers, "Content-Type": content_type})

    return answer
