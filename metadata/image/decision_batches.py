"""The batches of the metadata log in which the records of a decision are written.

A record whose text no node could read again, and one that fits no batch, are refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from stratalog.metadata.image.decision import RECORDS_PER_BATCH_MAX, RECORDS_TOGETHER, Decision, at_once
from stratalog.metadata.image.features import TRANSACTIONS_SINCE
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.quorum.batch_bounds import BATCH_BYTES_MAX, RECORD_OVERHEAD_BYTES, TEXT_BYTES_MAX, parts
from stratalog.wire.batch import HEADER_BYTES
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import BeginTransactionRecord, EndTransactionRecord
from stratalog.wire.schema import Message, Struct

__all__ = ["batch_steps", "batches"]

_VALUE_BYTES_MAX: Final = BATCH_BYTES_MAX - HEADER_BYTES - RECORD_OVERHEAD_BYTES
_RECORDS_PER_PAUSE: Final = 100


def batch_steps(decision: Decision[object], level: int) -> Generator[None, None, list[tuple[Message, ...]]]:
    """The batches of a decision, of at most `RECORDS_TOGETHER` records and `BATCH_BYTES_MAX` each; pauses every 100 records.

    An atomic decision that is larger becomes a metadata transaction (KIP-868). Below level 13 of ``metadata.version``,
    which has none, it is one batch of up to `RECORDS_PER_BATCH_MAX` records, and a transaction if it is larger yet.

    Raises `KafkaError`: INVALID_REQUEST for a text of more than `TEXT_BYTES_MAX` bytes, RECORD_LIST_TOO_LARGE for a record
    that fits no batch.
    """
    records, sizes = decision.records, []
    for record, value in zip(records, record_values(records, level), strict=True):
        if len(value) > TEXT_BYTES_MAX:
            _check(record, len(value))
        sizes.append(len(value))
        if len(sizes) % _RECORDS_PER_PAUSE == 0:
            yield
    has_transactions = level >= TRANSACTIONS_SINCE
    together = RECORDS_TOGETHER if has_transactions or not decision.is_atomic else RECORDS_PER_BATCH_MAX
    found = list(parts(sizes, together))
    if decision.is_atomic and len(found) > 1:
        records = (BeginTransactionRecord(), *records, EndTransactionRecord())
        found = list(parts([0, *sizes, 0], together))
    return [records[one] for one in found]


batches = at_once(batch_steps)


def _check(record: Message, value_bytes: int) -> None:
    """Raise `KafkaError` for a large record that is too large, or has a text that is too long."""
    kind = type(record).__name__
    name = _long_text(record)
    if name is not None:
        why = f"{name} of a {kind} has more than {TEXT_BYTES_MAX} bytes: no node could read the record again."
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    if value_bytes > _VALUE_BYTES_MAX:
        why = f"a {kind} would have {value_bytes} bytes, and a batch of the metadata log has {BATCH_BYTES_MAX} at most."
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, why)


def _long_text(struct: Message | Struct) -> str | None:
    """The name of a field whose text, or one of whose texts, is too long for a record; None without one."""
    for spec in struct.fields_declared:
        value = getattr(struct, spec.name)
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, str) and len(one.encode()) > TEXT_BYTES_MAX:
                return spec.name
            inside = _long_text(one) if isinstance(one, Struct) else None
            if inside is not None:
                return inside
    return None
