"""Lists of answers that may have many thousands of rows: each row is encoded as soon as it is made.

So an answer costs the memory of its bytes, not that of its rows, making it can pause after any row, and one that would
be larger than any client takes is refused before it is made.
"""

from __future__ import annotations

from typing import Any, Final

from stratalog.broker.slices import Steps
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.parts import EncodedList
from stratalog.wire.schema import Message, element_encoder

__all__ = ["ANSWER_BYTES_MAX", "AnswerRows"]

ANSWER_BYTES_MAX: Final = 100 << 20
"""What ``receive.message.max.bytes`` of librdkafka lets through by default, and a frame to a broker has at most."""


class AnswerRows:
    """One list of one answer. ``encoded`` is its value once all rows are added and `close` was called."""

    def __init__(self, response: type[Message], version: int, name: str) -> None:
        self._encode = element_encoder(response, version, name)
        self._name = f"{response.__name__} v{version}"
        self._encoded = EncodedList()

    def add(self, row: Any) -> Steps[None]:
        """Append a row; pauses on the way and after it.

        Raises `EncodeError`, and `KafkaError` INVALID_REQUEST once the rows are larger than `ANSWER_BYTES_MAX`.
        """
        parts = yield from self._encode(row)
        self._encoded.add(parts)
        if self._encoded.size_bytes > ANSWER_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The answer would have more than {ANSWER_BYTES_MAX} bytes after {self._encoded.row_count} entries of "
                f"{self._name}; ask for fewer at once.",
            )
        yield None

    def close(self) -> Any:
        """The list for the answer, in the place of a list of rows."""
        self._encoded.close()
        return self._encoded
