"""Fetches like earlier ones of the same connection, handled without decoding them.

A consumer of one partition that keeps no session asks the same again and again, but for the correlation id and the
offset::

    code  correlation  before: client id, limits, topic, partition  offset  behind: limits
    4     4            as in a request that was decoded             8       as in that request

So a connection remembers what those bytes meant, and its answers are a remembered one with other numbers and records
(`stratalog.broker.api.fetch_answer`). A reader that has everything waits here for the next append, as any other does in
the purgatory, where only its deadline lies.

Beyond that, such a reader *rests* (`stratalog.broker.resting_sockets`): its next request will have to wait for an append, and
whatever appends wakes the loop. So its request wakes nobody, as long as others do; it is read in the very turn in which there
is something to be read, and answered at once. That halves how often a steady stream of small messages wakes the broker. If
there is something and the request is not there yet, the connection rests no longer, and nothing is late. What is late, by up
to `stratalog.broker.resting_sockets.REST_SECONDS`, is the end of a wait for nothing, and a request of such a connection for something else.

A request that is unlike the others takes the long way (`stratalog.broker.api.fetch`), and so does whatever is not plain: an
error, a batch from the archive, an aborted transaction. Nothing is remembered where an authorizer has to be asked, or
a quota to be kept.
"""

from __future__ import annotations

import copy
import struct
from typing import TYPE_CHECKING, Final, cast

from stratalog.broker.api.fetch_answer import VERSION_MIN, AnswerForm
from stratalog.broker.context import RequestContext
from stratalog.broker.fetch_attempt import TOPIC_IDS_SINCE
from stratalog.broker.full_fetch import FullFetch
from stratalog.broker.unified_log import LogRead, UnifiedLog
from stratalog.metadata.fetch_session import EPOCH_FINAL
from stratalog.wire.errors import Corrupt, KafkaError
from stratalog.wire.frame import HEADER_BYTES_MIN, ResponseSlot, read_request_start
from stratalog.wire.messages.fetch import FetchRequest
from stratalog.wire.parts import Part
from stratalog.wire.schema import encode

if TYPE_CHECKING:
    from stratalog.broker.connection import Connection
    from stratalog.broker.partition_table import PartitionTable
    from stratalog.broker.purgatory import Waiter

__all__ = ["FetchShortcut", "remember"]

RESTS_AFTER: Final = 4
"""Requests in a row, each for what follows the answer before, after which a reader that has everything rests."""

STRANGERS_MAX: Final = 8
"""After so many other requests in a row what is remembered gives way to what has become usual."""

_BEFORE_AT: Final = 8
_OFFSET_BYTES: Final = 8
_READ_COMMITTED: Final = 1


class _NotPlain(Exception):
    """The long way has to look at it."""


_LONG_WAY = (_NotPlain, KafkaError, Corrupt, OSError)
"""What the long way meets again, and tells."""


class FetchShortcut:
    """What a connection's fetches have in common, and the one that waits. Calling it says that the partition has changed."""

    __slots__ = (
        "_before",
        "_behind",
        "_code",
        "_committed",
        "_connection",
        "_context",
        "_ended",
        "_form",
        "_frame_bytes",
        "_in_a_row",
        "_leader_epoch",
        "_limit",
        "_max_bytes",
        "_min_bytes",
        "_next_offset",
        "_offset",
        "_partition",
        "_strangers",
        "_table",
        "_table_version",
        "_unified",
        "_unpack",
        "_waiter",
        "_waiting",
        "rests",
    )

    _waiter: Waiter

    def __init__(self, context: RequestContext, frame: memoryview, unified: UnifiedLog, offset_at: int) -> None:
        """``context`` and ``frame`` are those of a request for ``unified`` alone, whose offset stands at ``offset_at``."""
        request: FetchRequest = context.request
        wanted = request.topics[0].partitions[0]
        self._connection = context.connection
        self._context = context
        self._frame_bytes = len(frame)
        before_bytes, behind_bytes = offset_at - _BEFORE_AT, len(frame) - offset_at - _OFFSET_BYTES
        self._unpack = struct.Struct(f">Ii{before_bytes}sq{behind_bytes}s").unpack
        self._code, _, self._before, self._offset, self._behind = self._unpack(frame)
        self._next_offset = self._offset
        self._limit = 0
        self._unified = unified
        self._partition = unified.partition
        self._table: PartitionTable = context.broker.partitions
        self._table_version = self._table.version
        self._leader_epoch = wanted.current_leader_epoch
        self._committed = request.isolation_level == _READ_COMMITTED
        self._max_bytes = min(
            wanted.partition_max_bytes, request.max_bytes, context.broker.config.integer("fetch.max.bytes")
        )
        self._min_bytes = request.min_bytes
        self._form = AnswerForm(context.row, request.topics[0], committed=self._committed)
        self._in_a_row = self._strangers = 0
        self._waiting: RequestContext | None = None
        self._ended = False
        self.rests = False
        self._partition.watchers.add(self)

    def handle(self, connection: Connection, frame: memoryview) -> bool:
        """Answer a fetch, or let it wait; False, and nothing done, if it or its answer is of another kind."""
        if len(frame) != self._frame_bytes or self._waiting is not None:
            return self._leave()
        code, correlation_id, before, offset, behind = self._unpack(frame)
        if before != self._before or behind != self._behind or code != self._code:
            return self._leave()
        try:
            found = self._look(offset, final=False)
        except _LONG_WAY:
            return self._leave()
        self._strangers = 0
        self._in_a_row = self._in_a_row + 1 if offset == self._next_offset else 0
        if found is None:
            self._wait(correlation_id, offset)
        else:
            self._count(found)
            connection.answer(ResponseSlot(), self._frame(correlation_id, found, connection.read_at))
        return True

    def __call__(self) -> None:
        """Something about the partition has changed: who waits looks again, who rests may have asked for it."""
        slot = self._waiting
        if slot is None:
            if self.rests:
                self._connection.look()
            return
        try:
            found = self._look(self._offset, final=False)
        except _LONG_WAY:
            self._finish(slot)
            return
        if found is not None:
            self._deliver(slot, found)

    def nothing_came(self) -> None:
        """There was news, and no request: the reader is not always the one who waits."""
        self._in_a_row, self.rests = 0, False

    def end(self) -> None:
        """No requests any more; the one that waits, if one does, goes on waiting."""
        self._ended = True
        if self._waiting is None:
            self._partition.watchers.discard(self)

    def gives_way(self) -> bool:
        """Whether other requests have become usual, or what is known here is out of date."""
        return self._waiting is None and (self._strangers >= STRANGERS_MAX or not self._stands())

    def _stands(self) -> bool:
        """Whether the partition is still the one that requests mean."""
        table = self._table
        if self._table_version != table.version:
            if _target(self._context) is not self._unified:
                return False
            self._table_version = table.version
        return True

    # -- reading ----------------------------------------------------------------------------------------------

    def _look(self, offset: int, *, final: bool) -> LogRead | None:
        """What there is, or None if that is not enough and ``final`` is not set. Raises one of `_LONG_WAY`."""
        if not self._stands():
            raise _NotPlain
        partition = self._partition
        partition.check_leader_epoch(self._leader_epoch)
        log = partition.log
        limit = partition.last_stable_offset if self._committed else partition.replica.high_watermark
        self._limit = limit
        if limit <= offset <= log.log_end_offset and offset >= log.log_start_offset:
            return LogRead(next_offset=offset) if final else None
        if offset < log.local_log_start_offset:
            raise _NotPlain
        unified, max_bytes = self._unified, self._max_bytes
        read = unified.read(
            (self._connection, unified),
            offset,
            limit=limit,
            max_bytes=max_bytes,
            committed=self._committed,
            min_one_batch=True,
        )
        size_bytes = read.size_bytes
        if read.aborted or not size_bytes:
            raise _NotPlain
        if size_bytes < self._min_bytes and not final and (read.next_offset >= limit or size_bytes >= max_bytes):
            return None  # as in `FetchAttempt.enough`: a batch that does not fit would not come by waiting
        return read

    def _count(self, found: LogRead) -> None:
        """Note what leaves. The next request is not expected to find anything if this leads to the end."""
        metrics = self._unified.metrics
        metrics.total_fetch_requests += 1
        metrics.bytes_out += found.size_bytes
        self._next_offset = found.next_offset
        self.rests = self._in_a_row >= RESTS_AFTER and found.next_offset >= self._limit
        if found.size_bytes:
            self._connection.patient = False

    def _frame(self, correlation_id: int, found: LogRead, started: float) -> list[Part]:
        """The answer to a request that came at ``started``, counted."""
        context, partition = self._context, self._partition
        context.row.count(context.dispatcher.monotonic() - started)
        numbers = (partition.replica.high_watermark, partition.last_stable_offset, partition.log.log_start_offset)
        return self._form.fill(correlation_id, numbers, found.parts, found.size_bytes)

    # -- waiting ----------------------------------------------------------------------------------------------

    def _wait(self, correlation_id: int, offset: int) -> None:
        context = self._context
        self._offset = offset
        slot = RequestContext(context.dispatcher, self._connection, context.row, correlation_id, None)
        slot.on_abandon = self._abandon
        self._waiting = slot
        # Under no key: the partition calls for whatever else can end the wait.
        self._waiter = context.broker.purgatory.wait((), context.request.max_wait_ms, bool, self._expire)
        slot.park()

    def _expire(self) -> None:
        """Answer with what there is."""
        slot = self._waiting
        assert slot is not None
        try:
            found = self._look(self._offset, final=True)
        except _LONG_WAY:
            self._finish(slot)
        else:
            assert found is not None
            self._deliver(slot, found)

    def _abandon(self) -> None:
        """The request no longer waits."""
        self._waiting = None
        self._waiter.cancel()
        if self._ended:
            self._partition.watchers.discard(self)

    def _deliver(self, slot: RequestContext, found: LogRead) -> None:
        self._abandon()
        self._count(found)
        if self._connection.closed:
            slot.parts = []
            return
        slot.parts = self._frame(slot.correlation_id, found, slot.started)
        self._connection.deliver()

    def _finish(self, slot: RequestContext) -> None:
        """Answer the request that waits with what the long way finds now."""
        self._abandon()
        self._in_a_row, self.rests = 0, False
        slot.request = _at_offset(self._context.request, self._offset)
        try:
            response = FullFetch(slot, slot.request).attempt(final=True)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes an answer
            slot.fail(error)
        else:
            slot.respond(response)

    def _leave(self) -> bool:
        """Leave a request to the long way."""
        self._strangers += 1
        self._in_a_row, self.rests = 0, False
        return False


def remember(context: RequestContext, frame: memoryview) -> None:
    """Remember a fetch that took the long way, after it was handled, if another like it needs not."""
    connection = context.connection
    shortcut = connection.shortcut
    if shortcut is not None and not (isinstance(shortcut, FetchShortcut) and shortcut.gives_way()):
        return
    unified = _target(context)
    offset_at = None if unified is None else _find_offset(context, frame)
    if unified is not None and offset_at is not None:
        connection.remember(FetchShortcut(context, frame, unified, offset_at))


def _target(context: RequestContext) -> UnifiedLog | None:
    """The partition that a request asks for, if it is one alone and led here, and the request may be remembered."""
    request: FetchRequest = context.request
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1 or context.api_version < VERSION_MIN:
        return None
    if request.session_id or request.session_epoch != EPOCH_FINAL or request.max_wait_ms <= 0 or request.min_bytes <= 0:
        return None
    topic, wanted = topics[0], topics[0].partitions[0]
    if wanted.last_fetched_epoch >= 0:
        return None
    table: PartitionTable = context.broker.partitions
    try:
        if context.api_version >= TOPIC_IDS_SINCE:
            return table.by_id(topic.topic_id, wanted.partition)
        return table.by_name(topic.topic, wanted.partition)
    except KafkaError:
        return None


def _find_offset(context: RequestContext, frame: memoryview) -> int | None:
    """Where the offset stands in the request; None unless it is written as we should write it ourselves."""
    request, version = context.request, context.api_version
    client_length: int = read_request_start(frame)[2]
    body_at = HEADER_BYTES_MIN + max(client_length, 0) + context.row.flexible
    if frame[body_at:] != _written(request, version):
        return None
    zeros, ones = (_written(_at_offset(request, offset), version) for offset in (0, -1))
    return body_at + next(position for position, byte in enumerate(zeros) if byte != ones[position])


def _written(request: FetchRequest, version: int) -> bytes:
    return b"".join(cast("list[bytes]", encode(request, version)))


def _at_offset(request: FetchRequest, offset: int) -> FetchRequest:
    """The same request for the records from another offset on."""
    request = copy.copy(request)
    topic = copy.copy(request.topics[0])
    wanted = copy.copy(topic.partitions[0])
    wanted.fetch_offset = offset
    topic.partitions, request.topics = [wanted], [topic]
    return request
