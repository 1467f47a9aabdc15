"""Encodes each row of a long list in an answer as soon as it is made.

An answer may have many thousands of rows. Encoded one by one, they cost the memory of their bytes and not of their objects,
making the answer can pause after any row, and an answer that no client would take is refused before it is complete.
"""

from __future__ import annotations

from typing import Any, Final

from stratalog.broker.runtime.slices import Steps
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.parts import EncodedList
from stratalog.wire.schema import Message, element_encoder

__all__ = ["ANSWER_BYTES_MAX", "AnswerRows"]

ANSWER_BYTES_MAX: Final = 100 << 20
"""The default of librdkafka's ``receive.message.max.bytes``, and the largest frame that a broker takes."""


class AnswerRows:
    """One list of one answer: `add` each row, then put what `close` returns in the place of the list."""

    def __init__(self, response: type[Message], version: int, name: str) -> None:
        """``name`` is the field of ``response`` that holds the list, in the given version of the API."""
        self._encode = element_encoder(response, version, name)
        self._name = f"{response.__name__} v{version}"
        self._encoded = EncodedList()

    def add(self, row: Any) -> Steps[None]:
        """Append a row, a message of the list's type; pauses on the way and after it.

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
        """The encoded list, for the response's field."""
        self._encoded.close()
        return self._encoded
