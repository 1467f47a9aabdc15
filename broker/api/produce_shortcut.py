"""Produce requests like earlier ones of the same connection, handled without decoding them.

Two requests that bring a batch to the same partition differ in three places: the correlation id, the batch, and its
length. The rest is the same bytes, and means the same::

    code  correlation  prefix: client id, acks, time-out, topic, partition   length  batch  suffix
    4     4            as in a request that was decoded                                     as in that request

So a connection remembers what the bytes before the batch meant, each partition as a :class:`_Route`. A request
with such a prefix goes straight to :meth:`Partition.append`, and its answer is a remembered one with other numbers.

A request that is unlike them in any way takes the long way (`stratalog.broker.api.produce`), and nothing can tell by
which way a request went: the same checks, answers, errors and counts. Nothing is remembered where an authorizer has
to be asked, and all of it is forgotten when the partitions led here change or the client id does.
"""

from __future__ import annotations

import struct
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from stratalog.broker.api.produce_transactions import PRODUCER_AT, PRODUCER_FIELDS
from stratalog.broker.buffers import COPIED_BYTES_MAX
from stratalog.broker.context import RequestContext
from stratalog.broker.unified_log import UnifiedLog
from stratalog.hot.log import AppendInfo
from stratalog.metadata.topic_names import is_internal
from stratalog.wire.batch import HEADER_BYTES
from stratalog.wire.errors import KafkaError
from stratalog.wire.frame import HEADER_BYTES_MIN, ResponseSlot, encode_response, read_request_start
from stratalog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from stratalog.wire.primitives import unsigned_varint
from stratalog.wire.schema import encode

if TYPE_CHECKING:
    from stratalog.broker.connection import Connection
    from stratalog.broker.partition_table import PartitionTable

__all__ = ["ProduceShortcut", "remember"]

ROUTES_MAX: Final = 64
"""Partitions that a connection remembers; those beyond them take the long way."""

LOOK_EVERY: Final = 8
"""Of so many requests that took the long way, one is learned from."""

STRANGERS_MAX: Final = 64
"""After so many in a row of which nothing could be learned, another shape (another topic's, say) takes over."""

_LOG_START_SINCE: Final = 5
_ZSTD_SINCE: Final = 7
_TOPIC_IDS_SINCE: Final = 13
_PREFIX_AT: Final = 8
_FIXED_LENGTH = struct.Struct(">i")
_ATTRIBUTES_AT: Final = 22
_TRANSACTIONAL: Final = 0x10
_ZSTD_OR_UNKNOWN: Final = 0x04

_LENGTH_BYTES_MAX: Final = 5
_NO_TAGS: Final = bytes(3)
"""How flexible versions end: no tagged fields of the partition, of the topic and of the request."""

_MARKS: Final = bytes(range(0x81, 0x99))
"""Stand, in the answer that is taken apart, for the three numbers that change. No topic's name holds such bytes."""


class _Append(ResponseSlot):
    """One request: the place of its answer, and the append that waits for it (`WaitingAppend`)."""

    __slots__ = (
        "connection",
        "correlation_id",
        "deadline",
        "info",
        "log_start_offset",
        "route",
        "size_bytes",
        "started",
    )

    info: AppendInfo

    def __init__(self, route: _Route, connection: Connection, correlation_id: int, size_bytes: int) -> None:
        # The base class is not called: this runs once per request.
        self.parts = None
        self.route = route
        self.connection = connection
        self.correlation_id = correlation_id
        self.size_bytes = size_bytes
        self.started = connection.read_at
        self.log_start_offset = route.partition.log.log_start_offset
        self.deadline = inf if route.acks == 1 else route.monotonic() + route.timeout_seconds

    def acknowledge(self, outcome: AppendInfo | KafkaError) -> None:
        """The append has ended: count it, and answer."""
        route, connection = self.route, self.connection
        if type(outcome) is not AppendInfo:
            route.refuse(self, cast("KafkaError", outcome))
            return
        base_offset, last_offset, log_append_time_ms, _, _ = outcome
        metrics = route.metrics
        metrics.bytes_in += self.size_bytes
        metrics.messages_in += last_offset - base_offset + 1
        if connection.closed:
            self.parts = []
            return
        route.row.count(route.monotonic() - self.started)
        size, before, behind = route.answer_size, route.answer_before, route.answer_behind
        if route.tells_log_start:
            start = self.log_start_offset
            answer = route.pack(size, self.correlation_id, before, base_offset, log_append_time_ms, start, behind)
        else:
            answer = route.pack(size, self.correlation_id, before, base_offset, log_append_time_ms, behind)
        self.parts = [answer]
        connection.deliver()


class _Route:
    """What a prefix means: where the batch goes, for what the producer waits, and how the answer looks."""

    __slots__ = (
        "_dispatcher",
        "_request",
        "acks",
        "answer_before",
        "answer_behind",
        "answer_size",
        "metrics",
        "monotonic",
        "pack",
        "partition",
        "row",
        "tells_log_start",
        "timeout_seconds",
        "transactional",
    )

    def __init__(self, context: RequestContext, unified: UnifiedLog) -> None:
        """``context`` is that of a request of one batch, to ``unified``."""
        request: ProduceRequest = context.request
        topic = request.topic_data[0]
        data = PartitionProduceData(index=topic.partition_data[0].index, records=None)
        self._request = ProduceRequest(
            transactional_id=request.transactional_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            topic_data=[TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])],
        )
        self._dispatcher = context.dispatcher
        self.row = context.row
        self.transactional = 0 if request.transactional_id is None else _TRANSACTIONAL
        self.partition = unified.partition
        self.metrics = unified.metrics
        self.monotonic = context.dispatcher.monotonic
        self.acks = request.acks
        self.timeout_seconds = request.timeout_ms / 1000
        base_offset, log_append_time_ms, log_start_offset = struct.unpack(">qqq", _MARKS)
        answer = PartitionProduceResponse(
            index=data.index,
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
        )
        parts = encode_response(0, self.row.encode(self._response(answer)), flexible=self.row.response_flexible)
        self.tells_log_start = self.row.version >= _LOG_START_SINCE
        numbers = 3 if self.tells_log_start else 2
        before, _, behind = b"".join(cast("list[bytes]", parts)).partition(_MARKS[: 8 * numbers])
        self.answer_size, self.answer_before, self.answer_behind = before[:4], before[_PREFIX_AT:], behind
        self.pack = struct.Struct(f">4si{len(self.answer_before)}s{numbers}q{len(behind)}s").pack

    def transaction_is_open(self, frame: memoryview, batch_at: int) -> bool:
        """Whether the batch continues a transaction: then nobody has to be asked about it."""
        producer_id, epoch = PRODUCER_FIELDS.unpack_from(frame, batch_at + PRODUCER_AT)
        return self.partition.log.producer_state.has_open_transaction(producer_id, epoch)

    def fail(self, slot: _Append, error: Exception) -> None:
        """Something unexpected was raised: answer, and note, what the long way would."""
        self._dispatcher.fail(self._context(slot), error)

    def refuse(self, slot: _Append, error: KafkaError) -> None:
        """The append has ended with an error."""
        self.metrics.failed_produce_requests += 1
        self.metrics.bytes_rejected += slot.size_bytes
        connection = slot.connection
        if connection.closed:
            slot.parts = []
            return
        index = self._request.topic_data[0].partition_data[0].index
        answer = PartitionProduceResponse(
            index=index, error_code=error.code, error_message=error.message, base_offset=-1
        )
        slot.parts = self._context(slot).encode(self._response(answer))
        connection.deliver()

    def _response(self, answer: PartitionProduceResponse) -> ProduceResponse:
        topic = self._request.topic_data[0]
        return ProduceResponse(
            responses=[
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer]),
            ]
        )

    def _context(self, slot: _Append) -> RequestContext:
        """The request as the long way would have it."""
        context = RequestContext(self._dispatcher, slot.connection, self.row, slot.correlation_id, self._request)
        context.started = slot.started
        return context


class ProduceShortcut:
    """The routes of one connection, for requests of one shape: one version, and prefixes of one length."""

    __slots__ = (
        "_batch_at",
        "_batch_end",
        "_frame_bytes",
        "_length",
        "_routes",
        "_shape",
        "_size_bytes",
        "_suffix",
        "_table",
        "_table_version",
        "_unpack",
        "_unseen",
    )

    def __init__(self, shape: _Shape, table: PartitionTable) -> None:
        self._shape = shape
        self._suffix = _NO_TAGS if shape.flexible else b""
        self._table = table
        self._table_version = table.version
        self._routes: dict[bytes, _Route] = {}
        self._unseen = 0
        self._frame_bytes = -1

    def handle(self, connection: Connection, frame: memoryview) -> bool:
        """Handle a request like earlier ones; False, and nothing done, if it is not like them."""
        if len(frame) != self._frame_bytes and not self._lay_out(len(frame)):
            return False
        code, correlation_id, prefix, length, attributes, suffix = self._unpack(frame)
        route = self._routes.get(prefix)
        if (
            route is None
            or code != self._shape.code
            or length != self._length
            or suffix != self._suffix
            or attributes & self._shape.refused != route.transactional
            or self._table_version != self._table.version
        ):
            return False
        if route.transactional and not route.transaction_is_open(frame, self._batch_at):
            return False
        slot = _Append(route, connection, correlation_id, self._size_bytes)
        records = frame[self._batch_at : self._batch_end]
        route.metrics.total_produce_requests += 1
        try:
            if slot.size_bytes <= COPIED_BYTES_MAX:
                route.partition.append(bytearray(records), route.acks, None, slot)
            else:
                route.partition.append(records, route.acks, connection.lease(), slot)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes an answer
            route.fail(slot, error)
        else:
            connection.park(slot)
        return True

    def _lay_out(self, frame_bytes: int) -> bool:
        """Prepare for requests of this size; False if no batch fits in."""
        prefix_bytes = self._shape.prefix_bytes
        rest = frame_bytes - _PREFIX_AT - prefix_bytes - len(self._suffix)
        if rest < HEADER_BYTES + _LENGTH_BYTES_MAX:
            return False
        length = _length_before(rest) if self._shape.flexible else _FIXED_LENGTH.pack(rest - _FIXED_LENGTH.size)
        size_bytes = rest - len(length)
        layout = (
            f">Ii{prefix_bytes}s{len(length)}s{_ATTRIBUTES_AT}xB{size_bytes - _ATTRIBUTES_AT - 1}x{len(self._suffix)}s"
        )
        self._unpack = struct.Struct(layout).unpack
        self._length = length
        self._size_bytes = size_bytes
        self._batch_end = frame_bytes - len(self._suffix)
        self._batch_at = self._batch_end - size_bytes
        self._frame_bytes = frame_bytes
        return True

    def looks_at(self) -> bool:
        """Whether to learn from one more request that had to take the long way: not from every one, for it costs."""
        if self._table_version != self._table.version:
            return True
        self._unseen += 1
        return not self._unseen % LOOK_EVERY and len(self._routes) < ROUTES_MAX

    def gives_way(self, shape: _Shape) -> bool:
        """Whether requests of another shape have become usual, or what is known here is out of date."""
        if self._table_version != self._table.version:
            return True
        return shape != self._shape and self._unseen >= STRANGERS_MAX

    def learn(self, shape: _Shape, prefix: bytes, route: _Route) -> None:
        """Remember where such a prefix leads."""
        if shape == self._shape:
            self._routes[prefix] = route
            self._unseen = 0


class _Shape(NamedTuple):
    """What requests must have in common to be told apart by their prefix alone."""

    code: int
    prefix_bytes: int
    flexible: bool
    refused: int
    """The attributes of a batch at which the long way looks twice."""


def _length_before(rest: int) -> bytes:
    """The compact length that fills ``rest`` bytes together with what it counts.

    There is none for a few sizes (129 bytes, say); what is returned for those is found in no request.
    """
    for length_bytes in range(1, _LENGTH_BYTES_MAX):
        if rest - length_bytes + 1 < 1 << 7 * length_bytes:
            return unsigned_varint(rest - length_bytes + 1)
    return unsigned_varint(rest - _LENGTH_BYTES_MAX + 1)


def remember(context: RequestContext, frame: memoryview) -> None:
    """Learn from a request that took the long way, after it was handled, how to handle one like it."""
    connection = context.connection
    shortcut = connection.shortcut
    if isinstance(shortcut, ProduceShortcut) and not shortcut.looks_at():
        return
    unified = _target(context)
    found = None if unified is None else _find_prefix(context, frame)
    if unified is None or found is None:
        return
    shape, prefix = found
    if not isinstance(shortcut, ProduceShortcut) or shortcut.gives_way(shape):
        shortcut = connection.shortcut = ProduceShortcut(shape, context.broker.partitions)
    shortcut.learn(shape, prefix, _Route(context, unified))


def _target(context: RequestContext) -> UnifiedLog | None:
    """The partition to which a request of one batch leads, if it is one that can be remembered."""
    request: ProduceRequest = context.request
    topics = request.topic_data
    if request.acks not in (1, -1):
        return None
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        return None
    topic, data = topics[0], topics[0].partition_data[0]
    if data.records is None or len(data.records) < HEADER_BYTES:
        return None
    table: PartitionTable = context.broker.partitions
    try:
        by_id = context.api_version >= _TOPIC_IDS_SINCE
        unified = table.by_id(topic.topic_id, data.index) if by_id else table.by_name(topic.name, data.index)
    except KafkaError:
        return None
    return None if is_internal(unified.topic_partition.topic) else unified


def _find_prefix(context: RequestContext, frame: memoryview) -> tuple[_Shape, bytes] | None:
    """The shape and prefix of a request of one batch; None unless it is written as we should write it ourselves.

    That is how it is known, without parsing, where the batch begins: nothing optional (tagged fields, lengths in
    more bytes than they need) can lie before or behind it.
    """
    code, _, client_length = read_request_start(frame)
    flexible = context.row.flexible
    body_at = HEADER_BYTES_MIN + max(client_length, 0) + flexible
    before, records, *behind = cast("list[bytes]", encode(context.request, context.api_version))
    suffix = b"".join(behind)
    batch_at = body_at + len(before)
    if (
        len(frame) != batch_at + len(records) + len(suffix)
        or frame[body_at:batch_at] != before
        or frame[len(frame) - len(suffix) :] != suffix
    ):
        return None
    length_bytes = len(unsigned_varint(len(records) + 1)) if flexible else _FIXED_LENGTH.size
    prefix = frame[_PREFIX_AT : batch_at - length_bytes].tobytes()
    refused = _TRANSACTIONAL if context.api_version >= _ZSTD_SINCE else _TRANSACTIONAL | _ZSTD_OR_UNKNOWN
    return _Shape(code, len(prefix), flexible, refused), prefix
