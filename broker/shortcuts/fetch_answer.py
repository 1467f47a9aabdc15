"""How the answers to fetches of one partition look: one that was encoded once, with other numbers and records."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from stratalog.wire.frame import encode_response
from stratalog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from stratalog.wire.parts import Part
from stratalog.wire.primitives import unsigned_varint

if TYPE_CHECKING:
    from stratalog.broker.requests.dispatch_row import Row

__all__ = ["AnswerForm"]

_LENGTH = struct.Struct(">i")
_HEAD_BYTES: Final = 8
_SIZE_BYTES: Final = 4

_MARKS: Final = bytes(range(0x81, 0x99))
"""Stand for the three numbers in the answer that is taken apart. No topic's name holds such bytes."""

_RECORDS: Final = bytes(range(0xA1, 0xA9))
"""Stand there for the records."""


class AnswerForm:
    """Everything of an answer but its correlation id, its three numbers and its records; from version 5 on."""

    __slots__ = ("_fixed_bytes", "_flexible", "_numbers_behind", "_pack", "_records_behind", "_start")

    def __init__(self, row: Row, request: FetchRequest, *, committed: bool) -> None:
        """Encodes answers to requests of ``row`` like this one, which names one
        partition. ``committed``: they read what is committed.
        """
        topic = request.topics[0]
        high_watermark, last_stable_offset, log_start_offset = struct.unpack(">qqq", _MARKS)
        answer = PartitionData(
            partition_index=topic.partitions[0].partition,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
            aborted_transactions=[] if committed else None,
            records=_RECORDS,
        )
        response = FetchResponse(
            session_id=request.session_id,
            responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[answer])],
        )
        self._flexible = row.response_flexible
        parts = encode_response(0, row.encode(response), flexible=self._flexible)
        before, _, rest = b"".join(cast("list[bytes]", parts)).partition(_MARKS)
        between, _, self._records_behind = rest.partition(_RECORDS)
        self._start = before[_HEAD_BYTES:]
        self._numbers_behind = between[: -len(self._length(len(_RECORDS)))]
        layout = f">ii{len(self._start)}sqqq{len(self._numbers_behind)}s"
        self._pack = struct.Struct(layout).pack
        self._fixed_bytes = struct.calcsize(layout) - _SIZE_BYTES + len(self._records_behind)

    def fill(
        self,
        correlation_id: int,
        numbers: tuple[int, int, int],
        records: Sequence[Part],
        size_bytes: int,
    ) -> list[Part]:
        """A frame with ``size_bytes`` of records; ``numbers`` are high watermark, last stable offset and log start."""
        length = self._length(size_bytes)
        frame_bytes = self._fixed_bytes + len(length) + size_bytes
        head = self._pack(frame_bytes, correlation_id, self._start, *numbers, self._numbers_behind) + length
        if not size_bytes:
            return [head + self._records_behind]
        return [head, *records, self._records_behind] if self._records_behind else [head, *records]

    def _length(self, size_bytes: int) -> bytes:
        return unsigned_varint(size_bytes + 1) if self._flexible else _LENGTH.pack(size_bytes)
