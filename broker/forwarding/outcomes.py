"""Decides about one attempt to ask the active controller: relay the answer, ask again, give up. Pure.

An attempt without an answer is repeated until the request's time is over, as in Kafka, whether or not it may have been
carried out: a client that heard of no outcome would ask again itself. Source: Kafka's ``NodeToControllerRequestThread``
and ``ForwardingManagerImpl``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec

from stratalog.broker.peers.peer_errors import PeerBusy, PeerError, PeerTimeout, PeerUnavailable
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.envelope import EnvelopeResponse
from stratalog.wire.schema import Message, Struct

__all__ = ["BACKOFF_MS", "RETRY_MS", "Ending", "Next", "after_answer", "after_envelope", "after_error"]

RETRY_MS: Final = 20_000
"""How long a request is tried. Clients wait for 30 s: Kafka's 60 s (``retryTimeoutMs``) are silence to them, not an error."""

BACKOFF_MS: Final = 100
"""The pause before it is tried again."""


class Ending(Enum):
    """How an attempt has ended, for the request."""

    DONE = "the answer is there"
    AGAIN = "ask again"
    ELSEWHERE = "ask again, another controller"
    FAIL = "there is no answer"
    RECONNECT = "the client has to connect anew"


class Next(msgspec.Struct, frozen=True):
    """The step after an attempt; ``error`` goes with FAIL."""

    ending: Ending
    error: KafkaError | None = None


_DONE: Final = Next(Ending.DONE)
_AGAIN: Final = Next(Ending.AGAIN)
_ELSEWHERE: Final = Next(Ending.ELSEWHERE)


def after_envelope(answer: EnvelopeResponse) -> Next:
    """Judge the envelope of an answer, not the answer in it."""
    code = answer.error_code
    if code == ErrorCode.NOT_CONTROLLER:
        return _ELSEWHERE
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return Next(Ending.RECONNECT)
    if code != ErrorCode.NONE or answer.response_data is None:
        why = f"The active controller does not take requests from this broker: error {_name(code)} about the envelope."
        return Next(Ending.FAIL, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why))
    return _DONE


def after_answer(answer: Message) -> Next:
    """Judge the answer to a request of this node's own."""
    return _ELSEWHERE if _says_not_controller(answer) else _DONE


def after_error(error: PeerError, left_ms: int) -> Next:
    """Judge an attempt without an answer, ``left_ms`` before the request's time is over."""
    if isinstance(error, PeerUnavailable | PeerBusy) and left_ms > BACKOFF_MS:
        return _AGAIN
    if isinstance(error, PeerUnavailable | PeerBusy | PeerTimeout):
        return Next(
            Ending.FAIL, KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"The active controller did not answer: {error}")
        )
    return Next(
        Ending.FAIL, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The active controller cannot be asked: {error}")
    )


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _says_not_controller(value: Any) -> bool:
    """Whether any error code in a message is NOT_CONTROLLER."""
    if isinstance(value, list):
        return any(map(_says_not_controller, value))
    if not isinstance(value, Struct):
        return False
    return any(
        getattr(value, spec.name) == ErrorCode.NOT_CONTROLLER
        if spec.name == "error_code"
        else _says_not_controller(getattr(value, spec.name))
        for spec in value.fields_declared
    )
