"""Errors of transactions in the words that each version of a request knows.

PRODUCER_FENCED exists since KIP-588, TRANSACTION_ABORTABLE since KIP-890; older clients get what they understand as the
same: INVALID_PRODUCER_EPOCH and INVALID_TXN_STATE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["for_produce", "for_version"]

_FENCED_SINCE: Final[Mapping[int, int]] = {22: 4, 24: 2, 25: 2, 26: 2}
"""By API key: the first version that may be answered PRODUCER_FENCED."""

_ABORTABLE_SINCE: Final[Mapping[int, int]] = {0: 11, 22: 5, 24: 4, 25: 4, 26: 4, 28: 4}
"""By API key: the first version that may be answered TRANSACTION_ABORTABLE."""

_ENLISTS_SINCE: Final[Mapping[int, int]] = {0: 12, 28: 5}

_NOT_YET: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


def for_version(error: KafkaError, api_key: int, version: int) -> ErrorCode:
    """The answer to a request of the producer, in this version."""
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE.get(api_key, 0):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE.get(api_key, 0):
        return ErrorCode.INVALID_TXN_STATE
    return code


def for_produce(error: KafkaError, api_key: int, version: int) -> KafkaError:
    """The answer to Produce (0) or TxnOffsetCommit (28) if the coordinator does not let its transaction in.

    A producer whose Produce is fenced gets INVALID_PRODUCER_EPOCH; an error that it should simply try again becomes
    NOT_ENOUGH_REPLICAS, the one such error that every version repeats without asking for metadata.
    """
    code = for_version(error, api_key, version)
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code in _NOT_YET or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < _ENLISTS_SINCE[api_key]):
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    return error if code is error.code else KafkaError(code, error.message)
