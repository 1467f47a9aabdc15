"""Outcomes of commands."""

import pytest

from stratalog.metadata.image.decision import Decision, Failure, batches, failure_of
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import BeginTransactionRecord, EndTransactionRecord, NoOpRecord


def test_a_refusal_keeps_code_and_sentence():
    """The raised error is the answer."""
    error = KafkaError(ErrorCode.INVALID_CONFIG, "no")
    assert failure_of(error) == Failure(ErrorCode.INVALID_CONFIG, "no")


def test_a_decision_is_a_value():
    """Two decisions with the same records and answer are the same."""
    assert Decision((), 3) == Decision((), 3)


@pytest.mark.parametrize(
    ("level", "count", "is_atomic", "sizes"),
    [
        (30, 0, True, []),
        (30, 1_000, True, [1_000]),
        (30, 1_001, True, [1_000, 3]),
        (30, 1_001, False, [1_000, 1]),
        (30, 2_500, False, [1_000, 1_000, 500]),
        (12, 2_500, False, [1_000, 1_000, 500]),
        (12, 10_000, True, [10_000]),
        (12, 10_001, True, [10_000, 3]),
    ],
)
def test_a_large_decision_is_written_in_batches(level, count, is_atomic, sizes):
    """A batch is encoded in one step. A decision that has to hold as a whole becomes a metadata transaction (KIP-868)."""
    decision = Decision((NoOpRecord(),) * count, None, is_atomic=is_atomic)
    parts = list(batches(decision, level))
    assert [len(part) for part in parts] == sizes
    is_transaction = is_atomic and count > (10_000 if level < 13 else 1_000)
    kinds = [type(parts[0][0]), type(parts[-1][-1])] if parts else []
    expected = [BeginTransactionRecord, EndTransactionRecord] if is_transaction else [NoOpRecord, NoOpRecord]
    assert kinds == (expected if parts else [])
