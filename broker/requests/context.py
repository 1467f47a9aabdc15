"""A handler's knowledge of its request, and its way to answer later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from stratalog.broker.requests.answer_rows import AnswerRows
from stratalog.broker.requests.authorizer import CLUSTER_NAME, OPERATIONS_ON, Operation, ResourceType
from stratalog.broker.requests.dispatch_row import PENDING, Pending, Row
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.frame import CORRELATION_ID_BYTES, ResponseSlot, response_head
from stratalog.wire.schema import Buffer, EncodeError, Message
from stratalog.wire.topic import Uuid

if TYPE_CHECKING:
    from stratalog.broker.requests.dispatch import Dispatcher
    from stratalog.broker.requests.request_source import RequestSource

__all__ = ["RequestContext", "ServedBroker", "TopicNames"]

log = logging.getLogger(__name__)


class TopicNames(Protocol):
    """Knows which topic's rules hold for a name."""

    def access_name(self, name: str, /) -> str:
        """The topic whose access rules hold for ``name``: that of a view, otherwise ``name`` itself."""


class ServedBroker(Protocol):
    """The parts of the broker that every request needs."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""

    @property
    def views(self) -> TopicNames:
        """Topics as they were."""


BrokerT = TypeVar("BrokerT", bound=ServedBroker, covariant=True)  # noqa: PLC0105 - only handed out


class RequestContext(ResponseSlot, Generic[BrokerT]):
    """One request; also the place of its answer in the order of the connection.

    ``RequestContext[View]`` serves requests whose handlers see the broker as a ``View``.

    ``on_abandon``, when set, is called if the connection ends before the answer. ``failure`` is set when the request has
    failed as a whole. ``again``, when set, is called instead of an answer that the active controller is elsewhere now.
    """

    on_abandon: Callable[[], object]
    again: Callable[[], None]
    failure: KafkaError

    __slots__ = (
        "_parked",
        "again",
        "client_id",
        "connection",
        "correlation_id",
        "dispatcher",
        "failure",
        "on_abandon",
        "request",
        "row",
        "started",
    )

    def __init__(  # the base class is not called: this runs once per request
        self, dispatcher: Dispatcher[BrokerT], connection: RequestSource, row: Row, correlation_id: int, request: Any
    ) -> None:
        self.parts = None
        self.dispatcher = dispatcher
        self.row = row
        self._parked = False
        self.started = connection.read_at
        self.connection = connection
        self.client_id = connection.client_id
        self.correlation_id = correlation_id
        self.request = request

    @property
    def broker(self) -> BrokerT:
        """The node that serves the request."""
        return self.dispatcher.broker

    @property
    def api_version(self) -> int:
        """The version of the request, and so of the answer."""
        return self.row.version

    def lease(self) -> Callable[[], None]:
        """Keep the request's bytes unchanged until the returned callable is called, exactly once.

        To be asked for inside the handler: once it has returned, the bytes may be gone.
        """
        return self.connection.lease()

    def allows(self, name: str, operation: Operation | None = None, resource: ResourceType | None = None) -> bool:
        """Whether the caller may do the row's operation, or another one, on the resource called ``name``."""
        api = self.row.api
        permitted = self.dispatcher.permitted(self.connection, api.resource if resource is None else resource, name)
        return permitted >> (api.operation if operation is None else operation) & 1 == 1

    @property
    def is_of_node(self) -> bool:
        """Whether another node asks, one that is allowed to: what nodes do for each other is no use of a client's quota.

        Kafka exempts most of these requests one by one (``sendResponseExemptThrottle``).
        """
        return self.row.is_of_node(self.request) and self.allows(
            CLUSTER_NAME, Operation.CLUSTER_ACTION, ResourceType.CLUSTER
        )

    def require_topic(self, topic: str | Uuid) -> None:
        """Raise TOPIC_AUTHORIZATION_FAILED unless the caller may do the row's operation on a topic, by name or id.

        To be asked before the topic is looked up: the answer does not show whether there is one either. Ids of no topic pass.
        """
        if not self.dispatcher.guarded:
            return
        if isinstance(topic, str):
            name = topic
        else:
            known = self.broker.image.topics.by_id.get(topic)
            if known is None:
                return
            name = known.name
        if not self.allows(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def allows_some(self, operation: Operation, resource: ResourceType) -> bool:
        """Whether the caller may do ``operation`` to any resource of this type."""
        connection = self.connection
        return self.dispatcher.authorizer.allows_some(connection.principal, connection.host, operation, resource)

    def authorized_operations(self, resource: ResourceType, name: str) -> int:
        """The bit set of what the caller may do to a resource (KIP-430)."""
        return self.dispatcher.permitted(self.connection, resource, name) & OPERATIONS_ON[resource]

    def respond(self, response: Message | None) -> None:
        """Answer now; None is no answer (``acks=0``). After the connection has ended this does nothing."""
        if self.parts is not None:
            raise RuntimeError(f"{self.row.api.name} request {self.correlation_id} was answered twice")
        connection = self.connection
        if connection.closed:
            self.parts = []
            return
        self.parts = self.encode(response)
        if self._parked:
            connection.deliver()

    def relay(self, answer: Buffer) -> None:
        """Answer with the header and body that another node has made for this request, after the connection has ended: not."""
        if self.parts is not None:
            raise RuntimeError(f"{self.row.api.name} request {self.correlation_id} was answered twice")
        connection = self.connection
        if connection.closed:
            self.parts = []
            return
        self.row.count(self.dispatcher.monotonic() - self.started)
        self.parts = [response_head(len(answer), self.correlation_id), memoryview(answer)[CORRELATION_ID_BYTES:]]
        if self._parked:
            connection.deliver()

    @property
    def words(self) -> str:
        """The request for log lines: API, version and client address, as ``FETCH v12 from 10.0.0.1:9999``."""
        return f"{self.row.api.name} v{self.row.version} from {self.connection.peer}"

    def fail(self, error: BaseException) -> None:
        """Answer with the error: Kafka's code as it is, anything else as UNKNOWN_SERVER_ERROR with a log entry.

        A request of a client that could be forwarded is asked again elsewhere when this controller is no longer active.
        """
        row = self.row
        if isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER and hasattr(self, "again"):
            again = self.again
            del self.again
            again()
            return
        row.metrics.errors += 1
        if not isinstance(error, KafkaError):
            log.error("%s failed; it is answered with UNKNOWN_SERVER_ERROR", self.words, exc_info=error)
            error = KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "The server experienced an unexpected error; its log has it."
            )
        self.failure = error
        response = row.failure(self.request, error)
        if response is None:
            self.parts = []
            self.connection.refuse(f"{row.api.name} v{row.version} has no answer for the error {error}")
        else:
            self.respond(response)

    def run(self, work: Coroutine[Any, Any, Message | Steps[Message | Pending] | None]) -> Pending:
        """Answer with what a coroutine returns, or with the error it raises. For slow administrative requests.

        It may return the steps that make the answer: see `sliced`.
        """
        task = self.dispatcher.spawn(work)
        task.add_done_callback(self._finished)
        self.on_abandon = task.cancel
        return PENDING

    def sliced(self, steps: Steps[Message | Pending]) -> Pending:
        """Answer with what a generator returns, or with the error it raises; it has its turns beside others.

        For requests that may name or find thousands of things. PENDING returned: the answer follows otherwise.
        """
        connection = self.connection
        is_free = connection.quota is not None and self.is_of_node
        self.dispatcher.slices.start(steps, self._sliced, connection, is_free=is_free)
        return PENDING

    def rows(self, name: str) -> AnswerRows:
        """The list ``name`` of the answer, to be made row by row in the steps of `sliced`."""
        return AnswerRows(self.row.api.response, self.row.version, name)

    def _sliced(self, response: Any, error: Exception | None) -> None:
        if isinstance(error, EncodeError):
            self._cannot_encode(error)
        elif error is not None:
            self.fail(error)
        elif response is not PENDING:
            self.respond(response)

    def _cannot_encode(self, error: EncodeError) -> None:
        row = self.row
        log.error("%s: the answer cannot be encoded; the connection is closed", self.words, exc_info=error)
        self.connection.refuse(f"its answer to {row.api.name} v{row.version} cannot be encoded: {error}")

    def encode(self, response: Message | None) -> list[Any]:
        """The frame of an answer; counts it."""
        row = self.row
        quota = self.connection.quota
        if quota is not None and response is not None:
            quota.mark(self.connection, response)
        try:
            return row.answer(self.correlation_id, response, self.dispatcher.monotonic() - self.started)
        except EncodeError as error:
            self._cannot_encode(error)
            return []

    def park(self) -> None:
        """Take the next place in the connection's order; the answer follows, or is already there."""
        self._parked = True
        self.connection.park(self)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.connection.refuse(f"{self.row.api.name} v{self.row.version} was cancelled")
        elif (error := task.exception()) is not None:
            self.fail(error)
        elif isinstance(result := task.result(), Message | None):
            self.respond(result)
        else:
            self.sliced(result)
