"""BrokerRegistration: what each version of the messages carries."""

from stratalog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from stratalog.wire.schema import decode, encode_bytes

UUID = bytes(range(16))
DIRECTORY = bytes(range(16, 32))


def test_request_versions():
    """Migration since 1, directories since 2, the epoch before since 3; version 4 is as 3."""
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="c",
        incarnation_id=UUID,
        listeners=[Listener(name="L", host="h", port=9092, security_protocol=3)],
        features=[Feature(name="f", min_supported_version=0, max_supported_version=1)],
        rack=None,
        is_migrating_zk_broker=True,
        log_dirs=[DIRECTORY],
        previous_broker_epoch=7,
    )
    expected = "00000001 0263" + UUID.hex() + "02 024c 0268 2384 0003 00 02 0266 0000 0001 00 00"
    added = ("", "01", "02" + DIRECTORY.hex(), "0000000000000007", "")
    for version, more in enumerate(added):
        expected += more
        assert encode_bytes(request, version) == bytes.fromhex(expected + "00")


def test_request_defaults():
    """A broker of an old version has named no directory and no clean stop."""
    request = BrokerRegistrationRequest(
        broker_id=1, cluster_id="c", incarnation_id=UUID, listeners=[], features=[], rack="r"
    )
    old = decode(BrokerRegistrationRequest, 0, encode_bytes(request, 0))
    assert (old.rack, old.log_dirs, old.previous_broker_epoch) == ("r", [], -1)


def test_response_versions():
    """A code and the epoch, -1 with an error."""
    for version in range(5):
        answer = encode_bytes(BrokerRegistrationResponse(error_code=101), version)
        assert answer == bytes.fromhex("00000000 0065 ffffffffffffffff 00")
