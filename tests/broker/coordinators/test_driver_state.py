"""The states of a driver: which error a request gets in each."""

import pytest

from stratalog.broker.coordinators.driver_state import DriverState, check_active
from stratalog.wire.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        (DriverState.LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "keys-0 is being loaded"),
        (DriverState.FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE, "a bad disk"),
        (DriverState.CLOSED, ErrorCode.NOT_COORDINATOR, "not the correct coordinator"),
    ],
)
def test_a_shard_that_takes_no_events_says_why(state, code, words):
    """A client asks again after a load, and looks for another coordinator after a close."""
    with pytest.raises(KafkaError, match=words) as refused:
        check_active(state, "keys-0", "a bad disk")
    assert refused.value.code is code


def test_a_shard_that_is_active_takes_events():
    """Also one that was not active before."""
    check_active(DriverState.ACTIVE, "keys-0", None)
