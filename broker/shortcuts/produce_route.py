"""Where a produce request goes that is handled without decoding it, and how its answer looks.

A :class:`Route` is what the bytes before the batch mean (`stratalog.broker.shortcuts.produce`). Its answers are one
that was encoded once, with other numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Final, cast

from stratalog.broker.api.broker_view import Context
from stratalog.broker.api.produce_refusal import describe_refusal, name_leaders
from stratalog.broker.api.produce_transactions import PRODUCER_AT, PRODUCER_FIELDS
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.context import RequestContext
from stratalog.broker.shortcuts.clearance import Clearance
from stratalog.hot.log.log import AppendInfo
from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.frame import ResponseSlot, encode_response
from stratalog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from stratalog.wire.record_rules import RECORD_ERRORS_MAX

if TYPE_CHECKING:
    from stratalog.broker.network.connection import Connection

__all__ = ["TRANSACTIONAL", "Route", "WaitingAnswer"]

TRANSACTIONAL: Final = 0x10
"""The bit of a batch's attributes."""

_LOG_START_SINCE: Final = 5
_HEAD_BYTES: Final = 8

_MARKS: Final = bytes(range(0x81, 0x99))
"""Stand, in the answer that is taken apart, for the three numbers that change. No topic's name holds such bytes."""


class WaitingAnswer(ResponseSlot):
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

    def __init__(self, route: Route, connection: Connection, correlation_id: int, size_bytes: int) -> None:
        # The base class is not called: this runs once per request.
        self.parts = None
        self.route = route
        self.connection = connection
        self.correlation_id = correlation_id
        self.size_bytes = size_bytes
        self.started = connection.read_at
        self.log_start_offset = route.partition.log.start.offset
        self.deadline = inf if route.acks == 1 else route.monotonic() + route.timeout_ms / 1000

    @property
    def source(self) -> Hashable:
        """The connection."""
        return self.connection

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


class Route:
    """The meaning of a prefix: where the batch goes, for what the producer waits, and how the answer looks."""

    __slots__ = (
        "_dispatcher",
        "_enlistment",
        "_index",
        "_topic_id",
        "_topic_name",
        "_transactional_id",
        "acks",
        "answer_before",
        "answer_behind",
        "answer_size",
        "clearance",
        "metrics",
        "monotonic",
        "pack",
        "partition",
        "row",
        "tells_log_start",
        "timeout_ms",
        "transactional",
    )

    def __init__(self, context: Context, unified: UnifiedLog, clearance: Clearance | None) -> None:
        """``context`` is that of a request of one batch, to ``unified``, which needs the ``clearance``."""
        request: ProduceRequest = context.request
        topic = request.topic_data[0]
        named = unified.topic_partition
        self._index = named.partition
        self._topic_name = topic.name and named.topic  # one string for all partitions
        self._topic_id = topic.topic_id
        self._transactional_id = request.transactional_id
        self._dispatcher = context.dispatcher
        self._enlistment = context.broker.transactions.enlistment
        self.row = context.row
        self.clearance = clearance
        self.transactional = 0 if request.transactional_id is None else TRANSACTIONAL
        self.partition = unified.partition
        self.metrics = unified.metrics
        self.monotonic = context.dispatcher.monotonic
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        base_offset, log_append_time_ms, log_start_offset = struct.unpack(">qqq", _MARKS)
        answer = PartitionProduceResponse(
            index=self._index,
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
        )
        parts = encode_response(0, self.row.encode(self._response(answer)), flexible=self.row.response_flexible)
        self.tells_log_start = self.row.version >= _LOG_START_SINCE
        numbers = 3 if self.tells_log_start else 2
        before, _, behind = b"".join(cast("list[bytes]", parts)).partition(_MARKS[: 8 * numbers])
        self.answer_size, self.answer_before, self.answer_behind = before[:4], before[_HEAD_BYTES:], behind
        self.pack = _packing(len(self.answer_before), numbers, len(behind))

    def transaction_is_open(self, frame: memoryview, batch_at: int) -> bool:
        """Whether the batch continues a transaction, and none before it waits for the coordinator: then it goes straight to the log."""
        producer = Producer(*PRODUCER_FIELDS.unpack_from(frame, batch_at + PRODUCER_AT))
        log = self.partition.log
        is_open = log.producer_state.has_open_transaction(*producer)
        return is_open and not self._enlistment.is_asking(log.topic_partition, producer)

    def fail(self, slot: WaitingAnswer, error: Exception) -> None:
        """Something unexpected was raised: answer, and note, what the long way would."""
        self._dispatcher.fail(self._context(slot), error)

    def refuse(self, slot: WaitingAnswer, error: KafkaError) -> None:
        """The append has ended with an error."""
        self.metrics.failed_produce_requests += 1
        self.metrics.bytes_rejected += slot.size_bytes
        connection = slot.connection
        if connection.closed:
            slot.parts = []
            return
        answer = PartitionProduceResponse(index=self._index, base_offset=-1)
        describe_refusal(answer, error, slot.log_start_offset, RECORD_ERRORS_MAX)
        context, response = self._context(slot), self._response(answer)
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            name_leaders(context, response)
        slot.parts = context.encode(response)
        connection.deliver()

    def _response(self, answer: PartitionProduceResponse) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(name=self._topic_name, topic_id=self._topic_id, partition_responses=[answer]),
            ]
        )

    def _context(self, slot: WaitingAnswer) -> Context:
        """The request as the long way would have it."""
        data = PartitionProduceData(index=self._index, records=None)
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self.acks,
            timeout_ms=self.timeout_ms,
            topic_data=[TopicProduceData(name=self._topic_name, topic_id=self._topic_id, partition_data=[data])],
        )
        context = RequestContext(self._dispatcher, slot.connection, self.row, slot.correlation_id, request)
        context.started = slot.started
        return context


@lru_cache(256)
def _packing(before_bytes: int, numbers: int, behind_bytes: int) -> Callable[..., bytes]:
    """Writes an answer; the same for every partition of a topic."""
    return struct.Struct(f">4si{before_bytes}s{numbers}q{behind_bytes}s").pack
