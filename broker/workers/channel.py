"""Messages between the broker and its worker processes, over a socketpair that both inherit at birth.

``length int32 | incarnation uint64 | request id uint64 | kind uint8 | pickle``; the length counts what follows it.
Both ends are the same version of this program and no other process can reach the socket, so pickle is safe here. The
incarnation is drawn anew for every worker process: an answer that carries another one belongs to the dead.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple

from stratalog.wire.errors import StratalogError

__all__ = ["Kind", "WorkerError", "WorkerMessage", "WorkerMessages", "decode_error", "encode_error", "encode_message"]

_HEAD = Struct(">iQQB")
_HEAD_BYTES = _HEAD.size


class WorkerError(StratalogError):
    """A worker failed with an exception that could not be carried over; the text is what it said."""


class Kind(IntEnum):
    """The kinds of messages."""

    START = 0
    COMMAND = 1
    REPORT = 2
    ERROR = 3
    PULSE = 4
    """A sign of life: seconds since each command under way last got on, by request id."""


class WorkerMessage(NamedTuple):
    """One message; ``body`` is still pickled."""

    incarnation: int
    request_id: int
    kind: Kind
    body: bytes

    def load(self) -> Any:
        """The object in it. Raises whatever unpickling raises."""
        return pickle.loads(self.body)  # noqa: S301 - see the head of this file


def encode_message(incarnation: int, request_id: int, kind: Kind, value: object) -> bytes:
    """A whole message. Raises what pickling raises for a value that cannot be carried."""
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(_HEAD_BYTES - 4 + len(body), incarnation, request_id, kind) + body


def encode_error(incarnation: int, request_id: int, error: BaseException) -> bytes:
    """An exception as a message: itself where it survives pickling, else a :class:`WorkerError` with its text."""
    try:
        message = encode_message(incarnation, request_id, Kind.ERROR, error)
        pickle.loads(message[_HEAD_BYTES:])  # noqa: S301 - our own bytes: some exceptions pickle but do not load
    except Exception:  # noqa: BLE001 - anything may be wrong with a foreign exception
        replacement = WorkerError(f"{type(error).__name__}: {error}")
        return encode_message(incarnation, request_id, Kind.ERROR, replacement)
    return message


def decode_error(message: WorkerMessage) -> Exception:
    """The exception in an error message, whatever it is."""
    try:
        error = message.load()
    except Exception as failure:  # noqa: BLE001 - the answer must arrive in any case
        return WorkerError(f"the worker's error could not be loaded: {failure}")
    return error if isinstance(error, Exception) else WorkerError(repr(error))


class WorkerMessages:
    """Cuts a stream of bytes into messages."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[WorkerMessage]:
        """Add what was received; yields every message that is now complete."""
        pending = self._pending
        pending += data
        position = 0
        while len(pending) - position >= _HEAD_BYTES:
            size, incarnation, request_id, kind = _HEAD.unpack_from(pending, position)
            end = position + 4 + size
            if end > len(pending):
                break
            yield WorkerMessage(incarnation, request_id, Kind(kind), bytes(pending[position + _HEAD_BYTES : end]))
            position = end
        del pending[:position]
