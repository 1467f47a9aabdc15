"""UpdateRaftVoter: what the messages carry."""

from stratalog.wire.messages.update_raft_voter import (
    CurrentLeader,
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from stratalog.wire.schema import encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """The voter, its listeners and its levels."""
    request = UpdateRaftVoterRequest(
        cluster_id="c",
        current_leader_epoch=5,
        voter_id=3,
        voter_directory_id=UUID,
        listeners=[Listener(name="C", host="h", port=9093)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    assert encode_bytes(request, 0) == bytes.fromhex(
        "0263 00000005 00000003" + UUID.hex() + "02 0243 0268 2385 00 0000 0001 00 00"
    )


def test_response_versions():
    """The leader is a tag, which is left out where it is not known."""
    assert encode_bytes(UpdateRaftVoterResponse(), 0) == bytes.fromhex("00000000 0000 00")
    leader = CurrentLeader(leader_id=2, leader_epoch=5, host="h", port=9093)
    assert encode_bytes(UpdateRaftVoterResponse(error_code=6, current_leader=leader), 0) == bytes.fromhex(
        "00000000 0006 01 00 0f 00000002 00000005 0268 00002385 00"
    )
