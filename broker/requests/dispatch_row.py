"""One row of the dispatch table: what an API module declares, and what the table makes of it per version."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Generic, TypeVar, cast

from msgspec import Struct

from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.runtime.metrics import ApiMetrics
from stratalog.wire.errors import KafkaError
from stratalog.wire.frame import encode_response, response_head
from stratalog.wire.parts import Part
from stratalog.wire.schema import Message, decoder, encoder

__all__ = ["API_VERSIONS_KEY", "NO_RESPONSE", "PENDING", "Api", "Handler", "Pending", "Row", "failed_response"]

API_VERSIONS_KEY: Final = 18
"""``ApiVersions``: answered with response header v0 in every version (KIP-511)."""


class Pending(Enum):
    """Returned by a handler when the answer comes later, through ``context.respond``."""

    PENDING = "pending"


PENDING: Final = Pending.PENDING
NO_RESPONSE: Final = None
"""Returned by a handler when the client expects no answer (``acks=0``)."""

RequestT = TypeVar("RequestT", bound=Message)

Handler = Callable[[Any, RequestT], Message | Pending | None]
"""``handle(context, request) -> response | PENDING | NO_RESPONSE``; a plain function that never blocks."""

FailureAnswer = Callable[[RequestT, int, KafkaError], Message | None]
"""``failure(request, version, error) -> response``; None closes the connection instead."""


class Api(Struct, Generic[RequestT], frozen=True, kw_only=True):
    """One API key as its module declares it.

    ``versions``: the first and last version that is served. ``operation`` and ``resource``: what the caller must be
    allowed to do; rows on the cluster are checked before the handler, others by the handler for each name.
    ``failure`` builds the answer to a request that failed as a whole, for responses that lack a top-level
    ``error_code`` in some version. ``advertised_since``: a smaller first version to announce than is served (KAFKA-18659).
    ``encoder(version)``: an encoder of the API's own for ``response``, in place of the compiled one.
    ``remember(context, frame)`` is called after the handler, where no quota holds: it may set the connection's
    ``shortcut`` for requests like this one, which then asks the authorizer by itself.
    ``forwarded``: the active controller decides, and brokers hand such requests on to it (KIP-590). ``handled_first``:
    the handler of the broker that was asked runs all the same, and itself hands on what it does not answer. ``by_quorum``: a
    broker of a cluster hands them on even if the active controller is in its own process. ``of_nodes(request, version)`` says
    whether a request is one of another node, which no quota of clients holds up; those with ``CLUSTER_ACTION`` all are.
    """

    key: int
    versions: tuple[int, int]
    request: type[RequestT]
    response: type[Message]
    handle: Handler[RequestT]
    operation: Operation
    resource: ResourceType
    failure: FailureAnswer[RequestT] | None = None
    advertised_since: int | None = None
    encoder: Callable[[int], Callable[[Any], list[Part]]] | None = None
    remember: Callable[[Any, memoryview], None] | None = None
    forwarded: bool = False
    handled_first: bool = False
    by_quorum: bool = False
    of_nodes: Callable[[RequestT, int], bool] | None = None

    @property
    def name(self) -> str:
        """``Produce`` for ``ProduceRequest``: the label in metrics and logs."""
        return self.request.__name__.removesuffix("Request")

    @property
    def advertised(self) -> tuple[int, int]:
        """The versions that ``ApiVersions`` announces."""
        first, last = self.versions
        return first if self.advertised_since is None else self.advertised_since, last


def failed_response(response: type[Message], version: int, error: KafkaError) -> Message | None:
    """A ``response`` that says nothing but the error, or None where ``version`` has no top-level ``error_code``."""
    specs = {spec.name: spec for spec in response.fields_declared}
    if "error_code" not in specs or not specs["error_code"].present(version):
        return None
    values: dict[str, Any] = {}
    for name, spec in specs.items():
        if spec.required:
            values[name] = spec.default() if isinstance(spec.default, type) else _copied(spec.default)
    values["error_code"] = int(error.code)
    if "error_message" in specs:
        values["error_message"] = error.message
    return cast("Callable[..., Message]", response)(**values)


def _copied(default: object) -> object:
    return list(default) if isinstance(default, list) else default


class Row:
    """One (API key, version) of the table; its codec is compiled when the first request comes."""

    __slots__ = (
        "api",
        "checked",
        "decode",
        "encode",
        "flexible",
        "forward",
        "handle",
        "metrics",
        "on_cluster",
        "response_flexible",
        "version",
    )

    def __init__(self, api: Api[Any], version: int, metrics: ApiMetrics) -> None:
        self.api = api
        self.version = version
        self.metrics = metrics
        self.handle = api.handle
        self.forward: Callable[[Any, memoryview], bool] | None = None
        """Hands a request on to the active controller; False if that is in this process. None where it always is."""
        self.flexible = version >= api.request.flexible_since
        self.response_flexible = self.flexible and api.key != API_VERSIONS_KEY
        self.checked = False
        """Whether the dispatcher looks at a request before its handler does."""
        self.on_cluster = api.resource is ResourceType.CLUSTER and api.operation is not Operation.ANY
        self.decode: Callable[[memoryview, int, int, int], tuple[Any, int]] = self._decode_first
        self.encode: Callable[[Any], list[Part]] = self._encode_first

    def is_of_node(self, request: Any) -> bool:
        """Whether clients do not ask this, only other nodes of the cluster do."""
        if self.api.of_nodes is not None:
            return self.api.of_nodes(request, self.version)
        return self.api.operation is Operation.CLUSTER_ACTION

    def answer(self, correlation_id: int, response: Message | None, seconds: float) -> list[Part]:
        """The frame of an answer given ``seconds`` after the request came, and its count; no bytes for None.

        Raises ``EncodeError`` for what this version cannot carry.
        """
        self.count(seconds)
        if response is None:
            return []
        parts = self.encode(response)
        if len(parts) == 1 and not self.response_flexible:
            body = parts[0]
            return [response_head(len(body) + 4, correlation_id) + body]  # type: ignore[operator]
        return encode_response(correlation_id, parts, flexible=self.response_flexible)

    def count(self, seconds: float) -> None:
        """Note an answer that was given ``seconds`` after its request came."""
        metrics = self.metrics
        microseconds = int(seconds * 1e6)
        metrics.time_us += microseconds
        metrics.time_buckets[microseconds.bit_length()] += 1

    def failure(self, request: Any, error: KafkaError) -> Message | None:
        """The answer to a request that failed as a whole; None where only closing the connection says so."""
        if self.api.failure is not None:
            return self.api.failure(request, self.version, error)
        return failed_response(self.api.response, self.version, error)

    def compile(self) -> None:
        """Compile the codec now instead of on the first request."""
        self.decode = decoder(self.api.request, self.version)
        own = self.api.encoder
        self.encode = encoder(self.api.response, self.version) if own is None else own(self.version)

    def _decode_first(self, frame: memoryview, position: int, elements_max: int, tags_max: int) -> tuple[Any, int]:
        self.compile()
        return self.decode(frame, position, elements_max, tags_max)

    def _encode_first(self, response: Any) -> list[Part]:
        self.compile()
        return self.encode(response)
