"""AddRaftVoter: what each version of the messages carries."""

from stratalog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from stratalog.wire.schema import decode, encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """Since 1 the request may ask for an answer before the commit; an older one waits for it."""
    request = AddRaftVoterRequest(
        cluster_id="c",
        timeout_ms=1000,
        voter_id=3,
        voter_directory_id=UUID,
        listeners=[Listener(name="C", host="h", port=9093)],
        ack_when_committed=False,
    )
    expected = "0263 000003e8 00000003" + UUID.hex() + "02 0243 0268 2385 00"
    assert encode_bytes(request, 0) == bytes.fromhex(expected + "00")
    assert encode_bytes(request, 1) == bytes.fromhex(expected + "00 00")
    assert decode(AddRaftVoterRequest, 0, encode_bytes(request, 0)).ack_when_committed


def test_response_versions():
    """A code and a message."""
    for version in (0, 1):
        answer = AddRaftVoterResponse(error_code=126, error_message=None)
        assert encode_bytes(answer, version) == bytes.fromhex("00000000 007e 00 00")
