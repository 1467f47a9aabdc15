"""From a received frame to a handler, and from its result to an answer. Plain functions: no task per request."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Generic

from stratalog.broker.requests.authorizer import CLUSTER_NAME, AllowAll, Authorizer, Operation, ResourceType
from stratalog.broker.requests.context import BrokerT, RequestContext, ServedBroker
from stratalog.broker.requests.dispatch_row import API_VERSIONS_KEY, NO_RESPONSE, PENDING, Api, Handler, Pending, Row
from stratalog.broker.requests.forwarding import Forwarding
from stratalog.broker.requests.request_source import RequestSource
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.slices import Slices
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.frame import (
    HEADER_BYTES_MIN,
    ResponseSlot,
    decode_request_header,
    encode_response,
    read_request_start,
    request_code,
    skip_tagged_fields,
)
from stratalog.wire.schema import EncodeError

__all__ = [
    "NO_RESPONSE",
    "PENDING",
    "Api",
    "Dispatcher",
    "Handler",
    "Operation",
    "Pending",
    "RequestContext",
    "ResourceType",
]

log = logging.getLogger(__name__)

_BEFORE_AUTHENTICATION = frozenset({17, API_VERSIONS_KEY, 36})
"""SaslHandshake, ApiVersions, SaslAuthenticate."""

_VERSIONS_REFUSED = struct.Struct(">hihhh")


class Dispatcher(Generic[BrokerT]):
    """The dispatch table of a broker.

    Handlers find ``broker`` as ``context.broker``. Rows may be added until the first connection is made.
    """

    def __init__(
        self,
        broker: BrokerT,
        apis: Iterable[Api[Any]],
        *,
        metrics: Metrics,
        monotonic: Callable[[], float],
        authorizer: Authorizer | None = None,
    ) -> None:
        self.broker = broker
        self.authorizer: Authorizer = AllowAll() if authorizer is None else authorizer
        self.monotonic = monotonic
        self.slices = Slices(lambda callback: asyncio.get_running_loop().call_soon(callback), monotonic)
        self.guarded = authorizer is not None
        """Whether any request may be refused."""
        self.forwarding: Forwarding | None = None
        """The way to the active controller; None where that is always in this process."""
        self._apis: dict[int, Api[Any]] = {}
        self._rows: dict[int, Row] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        for api in apis:
            self._register(api, metrics)

    def _register(self, api: Api[Any], metrics: Metrics) -> None:
        if api.key in self._apis:
            raise ValueError(f"API key {api.key} is registered twice: {self._apis[api.key].name} and {api.name}")
        self._apis[api.key] = api
        first, last = api.versions
        for version in range(first, last + 1):
            row = Row(api, version, metrics.api(api.name, version))
            row.checked = self.guarded and row.on_cluster
            self._rows[request_code(api.key, version)] = row

    def forward_by(self, forwarding: Forwarding) -> None:
        """From now on requests that the active controller decides go to it, wherever it is."""
        self.forwarding = forwarding
        for row in self._rows.values():
            if row.api.forwarded and not row.api.handled_first:
                row.forward = forwarding.forward
                row.checked = True

    @property
    def apis(self) -> list[Api[Any]]:
        """Every registered API by key."""
        return [self._apis[key] for key in sorted(self._apis)]

    def api(self, key: int) -> Api[Any] | None:
        """The row of an API key; None if it is not served."""
        return self._apis.get(key)

    def advertised(self) -> list[tuple[int, int, int]]:
        """``(key, first version, last version)`` of every row, as ``ApiVersions`` announces them.

        Of an API that is forwarded only the versions that the active controller serves as well, if that has told them
        (Kafka's ``ApiVersionsResponse.controllerApiVersions``).
        """
        versions = None if self.forwarding is None else self.forwarding.versions
        rows = []
        for api in self.apis:
            first, last = api.advertised
            if versions is not None and api.forwarded:
                first_there, last_there = versions.get(api.key, (0, -1))
                first, last = max(first, first_there), min(last, last_there)
            if first <= last:
                rows.append((api.key, first, last))
        return rows

    def compile(self, keys: Iterable[int]) -> None:
        """Compile the codecs of the newest version of these keys before the first request needs them."""
        for key in keys:
            self._rows[request_code(key, self._apis[key].versions[1])].compile()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine beside the connections; the dispatcher keeps it alive."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel what :meth:`spawn` still runs, and wait for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def permitted(self, connection: RequestSource, resource: ResourceType, name: str) -> int:
        """The set of operations that the client of a connection may do to a resource, as numbers of `Operation`."""
        if resource is ResourceType.TOPIC and self.guarded:
            name = self.broker.views.access_name(name)
        return self.authorizer.permitted(connection.principal, connection.host, resource, name)

    def dispatch(self, connection: RequestSource, frame: memoryview) -> None:
        """Handle one request; ``frame`` is valid until this returns, unless the handler leases it.

        Every frame, also one that cannot be decoded or whose handler fails, ends as an answer, a parked answer or a
        closed connection with one line in the log.
        """
        code, correlation_id, client_length = read_request_start(frame)
        row = self._rows.get(code)
        if row is None or not connection.authenticated:
            if not self._admit(connection, code, correlation_id, row):
                return
            assert row is not None
        try:
            position = HEADER_BYTES_MIN + client_length if client_length > 0 else HEADER_BYTES_MIN
            client = frame[HEADER_BYTES_MIN:position].tobytes()
            if client != connection.client_id_bytes or client_length <= 0 or len(client) != client_length:
                header = decode_request_header(frame, flexible=False)
                connection.identify(header.client_id, client)
            if row.flexible:
                position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
            request, _ = row.decode(frame, position, connection.elements_max, connection.tags_max)
        except (Invalid, IndexError, ValueError) as error:
            row.metrics.errors += 1
            connection.refuse(f"{row.api.name} v{row.version} cannot be decoded: {error}")
            return
        context = RequestContext(self, connection, row, correlation_id, request)
        try:
            if row.checked and self._goes_elsewhere(context, row, frame):
                context.park()
                return
            quota = None if connection.quota is None or context.is_of_node else connection.quota
            response = (
                row.handle(context, request)
                if quota is None
                else quota.handle(connection, row.api.key, len(frame), partial(row.handle, context, request))
            )
            if row.api.remember is not None and connection.quota is None:
                row.api.remember(context, frame)
            if response is PENDING:
                context.park()
            else:
                connection.answer(context, row.answer(correlation_id, response, self.monotonic() - connection.read_at))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises becomes an answer
            self.fail(context, error)

    def fail(self, context: RequestContext[ServedBroker], error: Exception) -> None:
        """A handler raised, or its answer cannot be encoded; what it may already have answered stands."""
        if isinstance(error, EncodeError):
            log.error("%s: the answer cannot be encoded; the connection is closed", context.words, exc_info=error)
            context.connection.refuse(f"an answer to it cannot be encoded: {error}")
            return
        if context.parts is not None:
            log.error("%s: the handler failed after it had answered; the answer stands", context.words, exc_info=error)
            context.park()
            return
        context.fail(error)
        if context.parts:
            context.connection.answer(context, context.parts)
        elif context.parts is None:
            context.park()  # it is asked again elsewhere

    def _goes_elsewhere(self, context: RequestContext[ServedBroker], row: Row, frame: memoryview) -> bool:
        """Whether the active controller in another process answers. Raises `KafkaError` for a client that may not ask.

        A request that goes elsewhere is not checked here: the controller knows the newest rules.
        """
        if row.forward is not None and row.forward(context, frame):
            return True
        if self.guarded and row.on_cluster and not context.allows(CLUSTER_NAME):
            raise KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{row.api.operation.name} on the cluster is denied."
            )
        return False

    def _admit(self, connection: RequestSource, code: int, correlation_id: int, row: Row | None) -> bool:
        """Whether to go on with a request of an unknown row or before authentication."""
        api_key, version = code >> 16, code & 0xFFFF
        if row is None and api_key == API_VERSIONS_KEY and API_VERSIONS_KEY in self._apis:
            connection.answer(ResponseSlot(), self._refused_versions(correlation_id))
            return False
        if row is None:
            known = self._apis.get(api_key)
            versions = (
                "" if known is None else f"; {known.name} is served from v{known.versions[0]} to v{known.versions[1]}"
            )
            connection.refuse(f"API key {api_key} v{version} is not served{versions}")
            return False
        if api_key not in _BEFORE_AUTHENTICATION:
            connection.refuse(f"{row.api.name} v{version} before authentication")
            return False
        return True

    def _refused_versions(self, correlation_id: int) -> list[Any]:
        """``ApiVersions`` in an unknown version: a v0 body with error 35 and our range (KIP-511)."""
        first, last = self._apis[API_VERSIONS_KEY].advertised
        body = _VERSIONS_REFUSED.pack(int(ErrorCode.UNSUPPORTED_VERSION), 1, API_VERSIONS_KEY, first, last)
        return encode_response(correlation_id, [body], flexible=False)
