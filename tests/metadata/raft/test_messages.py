"""The values that nodes say to each other."""

from typing import get_args

from msgspec import structs

from stratalog.metadata.raft.messages import Answer, ApiVersionsAnswer, FetchRequest, Request
from stratalog.metadata.raft.voter_set import ReplicaKey


def test_requests_are_values_that_can_be_compared_and_kept():
    """An answer belongs to the request that equals the one under way."""
    assert FetchRequest(1, ReplicaKey(1), 2, 1) == FetchRequest(1, ReplicaKey(1), 2, 1)
    assert FetchRequest(1, ReplicaKey(1), 2, 1) != FetchRequest(1, ReplicaKey(1), 3, 1)
    for kind in get_args(Request):
        assert kind.__hash__ is not None


def test_every_answer_of_the_quorum_names_error_epoch_and_leader():
    """So each answer brings news of an election; the answer to ApiVersions is the server's."""
    for kind in get_args(Answer):
        names = {field.name for field in structs.fields(kind)}
        assert "error" in names
        if kind is not ApiVersionsAnswer:
            assert {"epoch", "leader_id", "endpoints"} <= names
