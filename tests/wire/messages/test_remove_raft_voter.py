"""RemoveRaftVoter: what the messages carry."""

from stratalog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from stratalog.wire.schema import encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """The voter by id and directory."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=3, voter_directory_id=UUID)
    assert encode_bytes(request, 0) == bytes.fromhex("00 00000003" + UUID.hex() + "00")


def test_response_versions():
    """A code and a message."""
    answer = RemoveRaftVoterResponse(error_code=127, error_message="no")
    assert encode_bytes(answer, 0) == bytes.fromhex("00000000 007f 036e6f 00")
