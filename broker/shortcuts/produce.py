"""Produce requests like earlier ones of the same connection, handled without decoding them.

Two requests that bring a batch to the same partition differ in three places: the correlation id, the batch, and its
length. The rest is the same bytes, and means the same::

    code  correlation  prefix: client id, acks, time-out, topic, partition   length  batch  suffix
    4     4            as in a request that was decoded                                     as in that request

So a connection remembers what the bytes before the batch meant, each partition as a :class:`Route`. A request
with such a prefix goes straight to :meth:`Leader.append`, and its answer is a remembered one with other numbers.

A request that is unlike them in any way takes the long way (`stratalog.broker.api.produce`), and nothing can tell by
which way a request went: the same checks, answers, errors and counts. The authorizer is asked as on the long way
(`stratalog.broker.shortcuts.clearance`), and all routes are forgotten when the partitions led here change or the client id does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from stratalog.broker.api.broker_view import Context
from stratalog.broker.network.buffers import COPIED_BYTES_MAX
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.shortcuts.clearance import Clearance
from stratalog.broker.shortcuts.produce_route import TRANSACTIONAL, Route, WaitingAnswer
from stratalog.metadata.image.topic_names import is_internal
from stratalog.wire.batch import HEADER_BYTES
from stratalog.wire.errors import KafkaError
from stratalog.wire.frame import HEADER_BYTES_MIN, read_request_start
from stratalog.wire.messages.produce import ProduceRequest
from stratalog.wire.primitives import unsigned_varint
from stratalog.wire.schema import encode

if TYPE_CHECKING:
    from stratalog.broker.network.connection import Connection
    from stratalog.broker.replicas.partition_table import PartitionTable

__all__ = ["ProduceShortcut", "remember"]

ROUTES_MAX: Final = 1024
ROUTES_MIN: Final = 64
ROUTES_OF_ALL: Final = 1 << 17
"""Partitions that a connection remembers, half a KB each, a little more where an authorizer rules; those beyond them take the long way. Fewer where many clients are
connected, so that all of them together know so many."""

LOOK_EVERY: Final = 8
"""One look for so many requests that took the long way since the last one that taught something."""

LAYOUTS_MAX: Final = 4096
"""Sizes of requests that the broker is prepared for at a time."""

STRANGERS_MAX: Final = 64
"""After so many useless ones in a row, another shape (another topic's, say) takes over."""

_ZSTD_SINCE: Final = 7
_TOPIC_IDS_SINCE: Final = 13
_PREFIX_AT: Final = 8
_FIXED_LENGTH = struct.Struct(">i")
_ATTRIBUTES_AT: Final = 22
_ZSTD_OR_UNKNOWN: Final = 0x04

_LENGTH_BYTES_MAX: Final = 5
_NO_TAGS: Final = bytes(3)
"""How flexible versions end: no tagged fields of the partition, of the topic and of the request."""


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

    rests = False

    def __init__(self, shape: _Shape, table: PartitionTable) -> None:
        self._shape = shape
        self._suffix = _NO_TAGS if shape.flexible else b""
        self._table = table
        self._table_version = table.version
        self._routes: dict[bytes, Route] = {}
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
        clearance = route.clearance
        if clearance is not None and not clearance.holds():
            return False
        leader = route.partition.leader
        if leader is None:
            return False
        slot = WaitingAnswer(route, connection, correlation_id, self._size_bytes)
        records = frame[self._batch_at : self._batch_end]
        route.metrics.total_produce_requests += 1
        try:
            if slot.size_bytes <= COPIED_BYTES_MAX:
                leader.append(bytearray(records), route.acks, None, slot)
            else:
                leader.append(records, route.acks, connection.lease(), slot)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes an answer
            route.fail(slot, error)
        else:
            connection.park(slot)
        return True

    def nothing_came(self) -> None:
        """Do nothing: it never rests."""

    def end(self) -> None:
        """Do nothing: there is nothing to give back."""

    def _lay_out(self, frame_bytes: int) -> bool:
        """Prepare for requests of this size; False if no batch fits in."""
        layout = _layout(frame_bytes, self._shape.prefix_bytes, flexible=self._shape.flexible)
        if layout is None:
            return False
        self._unpack, self._length, self._batch_at, self._size_bytes = layout
        self._batch_end = self._batch_at + self._size_bytes
        self._frame_bytes = frame_bytes
        return True

    def looks_at(self, connection_count: int) -> bool:
        """Whether to learn from one more request that had to take the long way: not from every one, for it costs."""
        if self._table_version != self._table.version:
            return True
        unseen = self._unseen
        self._unseen = unseen + 1
        if unseen % LOOK_EVERY:
            return False
        share = max(ROUTES_OF_ALL // max(connection_count, 1), ROUTES_MIN)
        return len(self._routes) < min(share, ROUTES_MAX)

    def gives_way(self, shape: _Shape) -> bool:
        """Whether requests of another shape have become usual, or what is known here is out of date."""
        if self._table_version != self._table.version:
            return True
        return shape != self._shape and self._unseen >= STRANGERS_MAX

    def learn(self, shape: _Shape, prefix: bytes, route: Route) -> None:
        """Remember where such a prefix leads."""
        if shape == self._shape:
            self._routes[prefix] = route
            self._unseen = 0


_Layout = tuple[Callable[[memoryview], tuple[Any, ...]], bytes, int, int]
"""Takes a request apart; the length that stands before the batch; where the batch begins; its bytes."""


class _Shape(NamedTuple):
    """The common properties of requests whose prefix alone identifies them."""

    code: int
    prefix_bytes: int
    flexible: bool
    refused: int
    """The attributes of a batch at which the long way looks twice."""


@lru_cache(maxsize=LAYOUTS_MAX)
def _layout(frame_bytes: int, prefix_bytes: int, *, flexible: bool) -> _Layout | None:
    """The positions of the parts in a request of this size; None if no batch fits in."""
    suffix_bytes = len(_NO_TAGS) if flexible else 0
    rest = frame_bytes - _PREFIX_AT - prefix_bytes - suffix_bytes
    if rest < HEADER_BYTES + _LENGTH_BYTES_MAX:
        return None
    length = _length_before(rest) if flexible else _FIXED_LENGTH.pack(rest - _FIXED_LENGTH.size)
    size_bytes = rest - len(length)
    layout = f">Ii{prefix_bytes}s{len(length)}s{_ATTRIBUTES_AT}xB{size_bytes - _ATTRIBUTES_AT - 1}x{suffix_bytes}s"
    return struct.Struct(layout).unpack, length, frame_bytes - suffix_bytes - size_bytes, size_bytes


def _length_before(rest: int) -> bytes:
    """The compact length that fills ``rest`` bytes together with what it counts.

    There is none for a few sizes (129 bytes, say); what is returned for those is found in no request.
    """
    for length_bytes in range(1, _LENGTH_BYTES_MAX):
        if rest - length_bytes + 1 < 1 << 7 * length_bytes:
            return unsigned_varint(rest - length_bytes + 1)
    return unsigned_varint(rest - _LENGTH_BYTES_MAX + 1)


def remember(context: Context, frame: memoryview) -> None:
    """Learn from a request that took the long way, after it was handled, how to handle one like it."""
    connection = context.connection
    shortcut = connection.shortcut
    if isinstance(shortcut, ProduceShortcut) and not shortcut.looks_at(len(context.broker.server.connections)):
        return
    unified = _target(context)
    found = None if unified is None else _find_prefix(context, frame)
    if unified is None or found is None:
        return
    clearance = _clearance(context, unified)
    if clearance is not None and not clearance.holds():
        return
    shape, prefix = found
    if not isinstance(shortcut, ProduceShortcut) or shortcut.gives_way(shape):
        shortcut = ProduceShortcut(shape, context.broker.partitions)
        connection.remember(shortcut)
    shortcut.learn(shape, prefix, Route(context, unified, clearance))


def _clearance(context: Context, unified: UnifiedLog) -> Clearance | None:
    """The checks of requests to ``unified``. A route with a transactional id takes only transactional batches."""
    transactional_id = context.request.transactional_id
    topic = (Operation.WRITE, ResourceType.TOPIC, unified.topic_partition.topic)
    if transactional_id is None:
        return Clearance.of(context, topic)
    return Clearance.of(context, topic, (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id))


def _target(context: Context) -> UnifiedLog | None:
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
    table = context.broker.partitions
    try:
        by_id = context.api_version >= _TOPIC_IDS_SINCE
        unified = table.by_id(topic.topic_id, data.index) if by_id else table.by_name(topic.name, data.index)
    except KafkaError:
        return None
    return None if is_internal(unified.topic_partition.topic) else unified


def _find_prefix(context: Context, frame: memoryview) -> tuple[_Shape, bytes] | None:
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
    refused = TRANSACTIONAL if context.api_version >= _ZSTD_SINCE else TRANSACTIONAL | _ZSTD_OR_UNKNOWN
    return _Shape(code, len(prefix), flexible, refused), prefix
