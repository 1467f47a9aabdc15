"""FindCoordinator: served, and honest about what is not there yet."""

import pytest

from stratalog.broker.api.find_coordinator import API
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.schema import encode_bytes


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_every_key_is_told_to_come_again(broker, version, key_type):
    """COORDINATOR_NOT_AVAILABLE, which clients retry, one answer for each key from version 4 on."""
    request = FindCoordinatorRequest(
        key="g" if version < 4 else "", key_type=key_type if version else 0, coordinator_keys=["g", "h"]
    )
    answer = broker.link().call(request, version)
    answers = [answer] if version < 4 else answer.coordinators
    assert [one.error_code for one in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(answers)
    assert all((one.node_id, one.host, one.port) == (-1, "", -1) for one in answers)
    if version >= 4:
        assert [one.key for one in answers] == ["g", "h"]


@pytest.mark.parametrize("version", [1, 6])
def test_an_unknown_kind_of_key_is_invalid(broker, version):
    """INVALID_REQUEST with a message that names it."""
    request = FindCoordinatorRequest(key="g" if version < 4 else "", key_type=9, coordinator_keys=["g"])
    answer = broker.link().call(request, version)
    one = answer if version < 4 else answer.coordinators[0]
    assert one.error_code == ErrorCode.INVALID_REQUEST
    assert "9" in one.error_message


@pytest.mark.parametrize("version", range(7))
def test_a_request_that_failed_is_answered_for_every_key(version):
    """With the code and message of the error, where the version has its place for them."""
    request = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g", "h"])
    answer = API.failure(request, version, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "why"))
    answers = [answer] if version < 4 else answer.coordinators
    assert [(one.error_code, one.error_message) for one in answers] == [(-1, "why")] * len(answers)
    assert encode_bytes(answer, version)
