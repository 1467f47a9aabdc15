"""Error codes, compared with those of other implementations."""

import kafka.errors

from stratalog.wire.errors import Corrupt, ErrorCode, Fenced, Invalid, KafkaError, Retriable, StratalogError


def test_codes_agree_with_another_implementation():
    """Every code that kafka-python knows has the same number here, and nearly the same name."""
    theirs = {
        cls.errno: cls.message
        for cls in vars(kafka.errors).values()
        if isinstance(cls, type) and isinstance(getattr(cls, "errno", None), int)
    }
    known = {code.value: code.name for code in ErrorCode}
    same = [number for number, name in theirs.items() if known.get(number) == name]
    assert len(same) > 90
    assert {number for number in theirs if 0 <= number <= 133} <= set(known)


def test_codes_have_no_gap():
    """From -1 to 133, each once."""
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_a_kafka_error_says_its_code_and_its_reason():
    """The code that dispatch encodes and the text that a person reads."""
    error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "1 of 2 in-sync replicas")
    assert (error.code, error.message, error.retriable) == (19, "1 of 2 in-sync replicas", True)
    assert str(error) == "NOT_ENOUGH_REPLICAS: 1 of 2 in-sync replicas"
    assert not KafkaError(ErrorCode.MESSAGE_TOO_LARGE).retriable


def test_inner_errors_form_one_tree():
    """One root to catch at a boundary."""
    assert all(issubclass(kind, StratalogError) for kind in (Retriable, Fenced, Corrupt, Invalid))
