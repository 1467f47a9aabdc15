"""The meaning of one-partition fetches that are handled without decoding them: how they look, where they lead, what is
there.

They differ in four places, and mean the same otherwise::

    code  correlation  before: client id, limits, session  epoch  between: topic, partition  offset  behind: limits
    4     4            as in a request that was decoded    4      as there                   8       as there
"""

from __future__ import annotations

import copy
import logging
import struct
from typing import TYPE_CHECKING, Final, cast

from stratalog.broker.api.broker_view import Context
from stratalog.broker.fetches.fetch_attempt import TOPIC_IDS_SINCE
from stratalog.broker.fetches.preferred_replica import RACKS_SINCE, check_reader_epoch, is_local
from stratalog.broker.replicas.unified_log import LogRead, UnifiedLog
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.shortcuts.clearance import Clearance
from stratalog.broker.shortcuts.fetch_answer import AnswerForm
from stratalog.wire.errors import Corrupt, KafkaError
from stratalog.wire.frame import HEADER_BYTES_MIN, read_request_start
from stratalog.wire.messages.fetch import FetchRequest
from stratalog.wire.parts import Part
from stratalog.wire.schema import encode

if TYPE_CHECKING:
    pass

__all__ = ["LONG_WAY", "FetchRoute", "RequestForm", "at_offset", "partition_of"]

log = logging.getLogger(__name__)

VERSION_MIN: Final = 7
"""From this version on requests have the epoch of a session."""

_BEFORE_AT: Final = 8
_EPOCH_BYTES: Final = 4
_OFFSET_BYTES: Final = 8
_READ_COMMITTED: Final = 1


class _NotPlain(Exception):
    """The long way has to look at it."""


LONG_WAY = (_NotPlain, KafkaError, Corrupt, OSError)
"""Errors that the long way meets again, and answers."""


class RequestForm:
    """The bytes that requests of one kind have in common."""

    __slots__ = ("_before", "_behind", "_between", "_code", "_frame_bytes", "_unpack")

    def __init__(self, frame: memoryview, epoch_at: int, offset_at: int) -> None:
        """``frame`` is one of them; epoch and offset stand in it at these positions."""
        self._frame_bytes = len(frame)
        before_bytes, between_bytes = epoch_at - _BEFORE_AT, offset_at - epoch_at - _EPOCH_BYTES
        behind_bytes = len(frame) - offset_at - _OFFSET_BYTES
        self._unpack = struct.Struct(f">Ii{before_bytes}si{between_bytes}sq{behind_bytes}s").unpack
        self._code, _, self._before, _, self._between, _, self._behind = self._unpack(frame)

    def match(self, frame: memoryview) -> tuple[int, int, int] | None:
        """Correlation id, epoch and offset of a request of this kind; None for others."""
        if len(frame) != self._frame_bytes:
            return None
        code, correlation_id, before, epoch, between, offset, behind = self._unpack(frame)
        if before != self._before or between != self._between or behind != self._behind or code != self._code:
            return None
        return correlation_id, epoch, offset

    @classmethod
    def of(cls, context: Context, frame: memoryview) -> RequestForm | None:
        """That of a request of one partition; None unless it is written as we should write it ourselves."""
        request, version = context.request, context.api_version
        client_length: int = read_request_start(frame)[2]
        body_at = HEADER_BYTES_MIN + max(client_length, 0) + context.row.flexible
        if frame[body_at:] != _written(request, version):
            return None
        offsets = [at_offset(request, offset) for offset in (0, -1)]
        epochs = [copy.copy(request) for _ in range(2)]
        epochs[0].session_epoch, epochs[1].session_epoch = 0, -1
        epoch_at, offset_at = (
            body_at + _difference(*(_written(one, version) for one in pair)) for pair in (epochs, offsets)
        )
        return cls(frame, epoch_at, offset_at)


class FetchRoute:
    """The partition that such requests ask for, and how much of it."""

    __slots__ = (
        "_clearance",
        "_committed",
        "_form",
        "_leader_epoch",
        "_max_bytes",
        "_min_bytes",
        "_table",
        "_table_version",
        "_version",
        "connection",
        "context",
        "limit",
        "partition",
        "unified",
    )

    def __init__(self, context: Context, unified: UnifiedLog) -> None:
        """``context`` is that of a request for ``unified`` alone."""
        request: FetchRequest = context.request
        wanted = request.topics[0].partitions[0]
        self.context = context
        self.connection = context.connection
        self.unified = unified
        self.partition = unified.partition
        self.limit = 0
        """Up to where the reader might have read when it was looked last."""
        self._clearance = Clearance.of(context, (Operation.READ, ResourceType.TOPIC, unified.topic_partition.topic))
        self._table = context.broker.partitions
        self._table_version = self._table.version
        self._leader_epoch = wanted.current_leader_epoch
        self._version = context.api_version
        self._committed = request.isolation_level == _READ_COMMITTED
        whole_bytes = min(request.max_bytes, context.broker.config.integer("fetch.max.bytes"))
        self._max_bytes = min(wanted.partition_max_bytes, whole_bytes)
        self._min_bytes = min(request.min_bytes, whole_bytes)
        self._form = AnswerForm(context.row, request, committed=self._committed)

    def stands(self) -> bool:
        """Whether the partition is still the one that requests mean, and the client may read it."""
        table = self._table
        if self._table_version != table.version:
            if partition_of(self.context) is not self.unified:
                return False
            self._table_version = table.version
        clearance = self._clearance
        return clearance is None or clearance.holds()

    def look(self, offset: int, *, final: bool) -> LogRead | None:
        """The records there are, or None if they are not enough yet and
        ``final`` is not set. Raises one of `LONG_WAY`.
        """
        try:
            return self._look(offset, final=final)
        except LONG_WAY:
            raise
        except Exception as error:
            # The appender calls this, and must not suffer.
            log.exception("%s: the fetch shortcut failed; the usual way answers", self.unified.topic_partition)
            raise _NotPlain from error

    def _look(self, offset: int, *, final: bool) -> LogRead | None:
        if not self.stands():
            raise _NotPlain
        partition = self.partition
        check_reader_epoch(partition, self._leader_epoch, self._version)
        local = partition.log
        self.limit = limit = partition.last_stable_offset if self._committed else partition.high_watermark
        unified = self.unified
        reader = self.connection, unified
        if limit <= offset <= local.log_end_offset and offset >= local.log_start_offset:
            unified.leave_archive(reader, offset)
            return LogRead(next_offset=offset) if final else None
        if offset < local.local_log_start_offset:
            raise _NotPlain
        max_bytes = self._max_bytes
        read = unified.read(
            reader,
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

    def count(self, found: LogRead) -> None:
        """Note what leaves."""
        metrics = self.unified.metrics
        metrics.total_fetch_requests += 1
        metrics.bytes_out += found.size_bytes
        if found.size_bytes:
            self.connection.patient = False

    def frame(self, correlation_id: int, found: LogRead, started: float) -> list[Part]:
        """The answer to a request that came at ``started``, counted."""
        context, partition = self.context, self.partition
        context.row.count(context.dispatcher.monotonic() - started)
        numbers = (partition.high_watermark, partition.last_stable_offset, partition.log.start.offset)
        return self._form.fill(correlation_id, numbers, found.parts, found.size_bytes)


def partition_of(context: Context) -> UnifiedLog | None:
    """The partition that a request asks for, if it is one alone and lies here, and such a request may be remembered."""
    request: FetchRequest = context.request
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1 or context.api_version < VERSION_MIN:
        return None
    if request.forgotten_topics_data or min(request.max_wait_ms, request.min_bytes, request.max_bytes) <= 0:
        return None
    topic, wanted = topics[0], topics[0].partitions[0]
    if wanted.last_fetched_epoch >= 0 or request.replica_id >= 0 or request.replica_state is not None:
        return None  # a follower reads beyond the marks, and is counted
    if context.api_version >= RACKS_SINCE and not is_local(context.broker.config, request.rack_id):
        return None  # it may be sent elsewhere, now or later
    table = context.broker.partitions
    try:
        if context.api_version >= TOPIC_IDS_SINCE:
            return table.by_id(topic.topic_id, wanted.partition)
        return table.by_name(topic.topic, wanted.partition)
    except KafkaError:
        return None


def at_offset(request: FetchRequest, offset: int) -> FetchRequest:
    """The same request for the records from another offset on."""
    request = copy.copy(request)
    topic = copy.copy(request.topics[0])
    wanted = copy.copy(topic.partitions[0])
    wanted.fetch_offset = offset
    topic.partitions, request.topics = [wanted], [topic]
    return request


def _written(request: FetchRequest, version: int) -> bytes:
    return b"".join(cast("list[bytes]", encode(request, version)))


def _difference(one: bytes, other: bytes) -> int:
    """Where two requests begin to differ."""
    return next(position for position, byte in enumerate(one) if byte != other[position])
