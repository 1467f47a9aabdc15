"""Outcomes of commands."""

from stratalog.metadata.image.decision import Decision, Failure, failure_of
from stratalog.wire.errors import ErrorCode, KafkaError


def test_a_refusal_keeps_code_and_sentence():
    """The raised error is the answer."""
    error = KafkaError(ErrorCode.INVALID_CONFIG, "no")
    assert failure_of(error) == Failure(ErrorCode.INVALID_CONFIG, "no")


def test_a_decision_is_a_value():
    """Two decisions with the same records and answer are the same."""
    assert Decision((), 3) == Decision((), 3)
