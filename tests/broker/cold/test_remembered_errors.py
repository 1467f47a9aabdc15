"""Failures are answered for a few seconds, and not kept for ever."""

from __future__ import annotations

import pytest

from stratalog.broker.cold.remembered_errors import RememberedErrors
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages.reports import CorruptReport, FailedReport, MissingReport
from stratalog.wire.errors import ErrorCode, KafkaError

PARTITION = PartitionId("t", bytes(16), 0)


def test_a_failure_is_answered_for_five_seconds():
    """Damage as damage, anything else as an error of storage."""
    now = [0]
    errors = RememberedErrors(PARTITION, lambda: now[0])
    assert errors.remember("a", CorruptReport(PARTITION, "key", 1, 2, "damaged"))
    assert errors.remember("b", MissingReport("key", "gone"))
    for what, code in (("a", ErrorCode.CORRUPT_MESSAGE), ("b", ErrorCode.KAFKA_STORAGE_ERROR)):
        with pytest.raises(KafkaError) as told:
            errors.raise_for(what)
        assert told.value.code is code
    errors.raise_for("c")
    now[0] = 5_000
    errors.raise_for("a")


def test_retriable_failures_are_waited_for(caplog):
    """It is logged, and no reader gets an error."""
    errors = RememberedErrors(PARTITION, lambda: 0)
    assert not errors.remember("a", FailedReport("503", retriable=True))
    errors.raise_for("a")
    assert "503" in caplog.text


def test_few_are_kept():
    """Readers of a bucket where everything is damaged do not fill the memory; the oldest go first."""
    errors = RememberedErrors(PARTITION, lambda: 0)
    for number in range(1000):
        errors.remember(number, MissingReport("key", "gone"))
    errors.raise_for(0)
    with pytest.raises(KafkaError):
        errors.raise_for(999)
    assert len(errors._errors) <= 256
