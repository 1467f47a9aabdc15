"""The headers that precede every body: request headers 1 and 2, response headers 0 and 1.

Request header 2 and response header 1 end with a tag section and belong to flexible versions. The client id keeps
its two-byte length in both, so that a broker can read the header of any ApiVersions request. Response headers of
ApiVersions are always version 0.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, field

__all__ = [
    "RequestHeader",
    "ResponseHeader",
]


class RequestHeader(Message, versions=(1, 2), flexible=2):
    """Which API, which version, and the number that the answer repeats."""

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: str | None = field(compact=False)


class ResponseHeader(Message, versions=(0, 1), flexible=1):
    """The number of the request that this answers."""

    correlation_id: Int32
