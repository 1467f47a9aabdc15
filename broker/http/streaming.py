"""Sends a long answer while it is made: neither the loop nor the memory ever holds all of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from aiohttp import web

from stratalog.broker.runtime.slices import Slices, Steps

__all__ = ["stream"]

_WRITE_BYTES: Final = 64 * 1024

log = logging.getLogger(__name__)


async def stream(
    request: web.Request, parts: Iterator[bytes | None], slices: Slices, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Answer with the parts. Each takes a few milliseconds to make; a None among them is a place for a pause.

    They are made in the turns that ``slices`` gives, and no faster than the client takes them. An error before the first
    write is an answer of its own; a later one ends the connection. A client that goes is no error.
    """
    response = web.StreamResponse(headers=headers)
    text = await slices.run(_next_text(parts))
    try:
        await response.prepare(request)
        while text:
            await response.write(text)
            text = await slices.run(_next_text(parts))
        await response.write_eof()
    except ConnectionError:
        log.debug("%s: the client has gone before the end of the answer", request.path)
    return response


def _next_text(parts: Iterator[bytes | None]) -> Steps[bytes]:
    """Parts for one write; nothing at their end."""
    made, size_bytes = [], 0
    for part in parts:
        if part:
            made.append(part)
            size_bytes += len(part)
        if size_bytes >= _WRITE_BYTES:
            break
        yield None
    return b"".join(made)
