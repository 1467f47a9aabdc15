"""Errors that are over in a moment."""

from __future__ import annotations

import pytest

from stratalog.client.moving import LAGS_SECONDS, LEADERSHIP_MOVES, LeaderLags, Patience, check_led, lags
from stratalog.wire.errors import ErrorCode, KafkaError

UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("code", sorted(LEADERSHIP_MOVES))
def test_a_move_is_waited_for_as_long_as_the_client_waits(code) -> None:
    """From the first request on."""
    patience = Patience(100, 30)
    assert patience.lasts(KafkaError(code), 129.9)
    assert not patience.lasts(KafkaError(code), 130)


def test_a_leader_that_lags_is_waited_for_a_few_seconds() -> None:
    """From its first answer on, and then also a broker that knows no more; never longer than the client waits."""
    patience = Patience(100, 30)
    assert not patience.lasts(KafkaError(UNKNOWN[0]), 101)
    assert patience.lasts(LeaderLags(UNKNOWN[1]), 110)
    assert patience.lasts(KafkaError(UNKNOWN[0]), 109.9 + LAGS_SECONDS)
    assert not patience.lasts(LeaderLags(UNKNOWN[0]), 110 + LAGS_SECONDS)
    assert not Patience(100, 1).lasts(LeaderLags(UNKNOWN[0]), 101)


def test_other_errors_are_waited_for_at_no_time() -> None:
    """They stay what they are."""
    patience = Patience(100, 30)
    patience.lasts(LeaderLags(UNKNOWN[0]), 100)
    with pytest.raises(KafkaError, match="INVALID_RECORD: orders-0: no key") as refused:
        check_led(ErrorCode.INVALID_RECORD, "orders-0: no key")
    assert not isinstance(refused.value, LeaderLags)
    assert not patience.lasts(refused.value, 100)


def test_the_codes_of_a_leader_that_lags_are_those_of_unknown_topics() -> None:
    """By name and by id."""
    assert [code for code in ErrorCode if lags(code)] == list(UNKNOWN)
    with pytest.raises(LeaderLags):
        check_led(UNKNOWN[0], "orders-0: unknown")
    check_led(0, "orders-0")


def test_a_broker_that_is_away_is_waited_for_as_long_as_the_client_waits() -> None:
    """Where a client waits for brokers at all."""
    patience = Patience(100, 30)
    assert patience.lasts_without(129)
    assert not patience.lasts_without(130)
