"""Answers of other replicas."""

import pytest

from stratalog.broker.quorum.batches import data_batch
from stratalog.broker.quorum.wire.received_answers import answer_from_wire
from stratalog.broker.quorum.wire.sent_answers import answer_to_wire
from stratalog.broker.quorum.wire.sent_requests import request_to_wire
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter
from stratalog.wire.errors import Corrupt, ErrorCode, Invalid
from stratalog.wire.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from stratalog.wire.messages.fetch import EpochEndOffset, FetchResponse, SnapshotId
from stratalog.wire.messages.registry import APIS
from stratalog.wire.messages.update_raft_voter import UpdateRaftVoterResponse
from stratalog.wire.schema import decode, encode_bytes

LISTENER = "CONTROLLER"
ME = ReplicaKey(2, b"me" * 8)
OTHER = ReplicaKey(1, b"he" * 8)
AT = (Endpoint(LISTENER, "node1", 9093),)
NONE = ErrorCode.NONE

VOTE = raft.VoteRequest(3, OTHER, ME, 2, 7)
BEGIN = raft.BeginQuorumEpochRequest(3, 1, ME, AT)
END = raft.EndQuorumEpochRequest(3, 1, (ME,))
FETCH = raft.FetchRequest(3, OTHER, 7, 2, 5, 500)
SNAPSHOT = raft.FetchSnapshotRequest(3, OTHER, raft.OffsetAndEpoch(9, 2), 100)
UPDATE = raft.UpdateVoterRequest(3, Voter(OTHER, AT))

ANSWERS = {
    VOTE: raft.VoteAnswer(NONE, 4, 1, AT, granted=False),
    BEGIN: raft.EpochAnswer(NONE, 4, 1, AT),
    END: raft.EpochAnswer(NONE, 4, 1, AT),
    FETCH: raft.FetchAnswer(NONE, 4, 1, AT, 5),
    SNAPSHOT: raft.FetchSnapshotAnswer(NONE, 4, 1, AT, SNAPSHOT.snapshot, 1000, 100, b"data"),
}


def named(request):
    return type(request).__name__


def answered(request):
    """The message that answers a request, to be changed by a test."""
    asked = request_to_wire(request)
    version = type(asked).versions[1]
    message = answer_to_wire(asked, version, ANSWERS[request], LISTENER)
    return decode(type(message), version, encode_bytes(message, version))


def topics_of(message):
    return message.responses if isinstance(message, FetchResponse) else message.topics


@pytest.mark.parametrize("request_", ANSWERS, ids=named)
def test_an_error_of_the_whole_is_a_refusal_in_the_epoch_of_the_request(request_):
    """It names neither leader nor epoch, which must not read as an epoch long gone."""
    message = answered(request_)
    topics_of(message).clear()
    message.error_code = ErrorCode.INCONSISTENT_CLUSTER_ID
    answer = answer_from_wire(request_, message, LISTENER)
    assert (answer.error, answer.epoch) == (ErrorCode.INCONSISTENT_CLUSTER_ID, request_.epoch)
    assert (answer.leader_id, answer.endpoints) == (raft.NO_LEADER, ())


def test_kafka_says_unknown_server_error_for_a_snapshot_that_it_does_not_have():
    """Its answer about the partition cannot be encoded. The machine fetches the log again after any error."""
    message = APIS[59].response(error_code=-1, topics=[])
    answer = answer_from_wire(SNAPSHOT, message, LISTENER)
    assert (answer.error, answer.epoch, answer.data) == (ErrorCode.UNKNOWN_SERVER_ERROR, 3, b"")
    assert (answer.snapshot, answer.size) == (SNAPSHOT.snapshot, 0)


@pytest.mark.parametrize("request_", [FETCH, SNAPSHOT], ids=named)
def test_an_answer_that_leaves_the_leader_out_is_one_in_the_epoch_of_the_request(request_):
    """A leader that is not sent has the defaults of the message, for FetchSnapshot leader 0 in epoch 0."""
    message = answered(request_)
    message.node_endpoints = []
    partition = topics_of(message)[0].partitions[0]
    partition.current_leader, partition.error_code = None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = answer_from_wire(request_, message, LISTENER)
    assert (answer.error, answer.epoch) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3)
    assert (answer.leader_id, answer.endpoints) == (raft.NO_LEADER, ())


@pytest.mark.parametrize("request_", ANSWERS, ids=named)
def test_the_address_is_the_one_of_the_leader(request_):
    """Addresses of other nodes say nothing, nor does that of a leader which is not known."""
    message = answered(request_)
    message.node_endpoints[0].node_id = 7
    assert answer_from_wire(request_, message, LISTENER).endpoints == ()
    message = answered(request_)
    partition = topics_of(message)[0].partitions[0]
    leader = partition if request_ in (VOTE, BEGIN, END) else partition.current_leader
    leader.leader_id = -1
    answer = answer_from_wire(request_, message, LISTENER)
    assert (answer.leader_id, answer.endpoints, answer.epoch) == (raft.NO_LEADER, (), 4)


@pytest.mark.parametrize("request_", ANSWERS, ids=named)
def test_an_answer_about_something_else_is_none(request_):
    """No log, two logs, another topic, another partition."""
    for change in (list.clear, lambda rows: rows.extend(rows)):
        message = answered(request_)
        change(topics_of(message))
        with pytest.raises(Invalid, match=r"names [02] logs"):
            answer_from_wire(request_, message, LISTENER)
        message = answered(request_)
        change(topics_of(message)[0].partitions)
        with pytest.raises(Invalid, match=r"names [02] logs"):
            answer_from_wire(request_, message, LISTENER)
    message = answered(request_)
    topic = topics_of(message)[0]
    name = next(name for name in ("topic_id", "topic_name", "name") if hasattr(topic, name))
    setattr(topic, name, bytes(16) if name == "topic_id" else "flights")
    with pytest.raises(Invalid, match="was asked for"):
        answer_from_wire(request_, message, LISTENER)
    message = answered(request_)
    partition = topics_of(message)[0].partitions[0]
    setattr(partition, "index" if request_ is SNAPSHOT else "partition_index", 1)
    with pytest.raises(Invalid, match="about partition 1"):
        answer_from_wire(request_, message, LISTENER)


def test_an_answer_to_another_request_is_none():
    """The two APIs are named."""
    with pytest.raises(Invalid, match="FetchResponse is no answer to a VoteRequest"):
        answer_from_wire(VOTE, answered(FETCH), LISTENER)


def test_an_error_of_a_newer_release_is_an_unknown_one():
    """It is refused as any other."""
    message = answered(VOTE)
    message.topics[0].partitions[0].error_code = 9999
    assert answer_from_wire(VOTE, message, LISTENER).error is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(("offset", "epoch"), [(5, -1), (-1, 5)])
@pytest.mark.parametrize("field", ["diverging_epoch", "snapshot_id"])
def test_half_a_place_in_the_log_is_none(field, offset, epoch):
    """A place has an offset and an epoch; neither of them says that there is no place."""
    kind = EpochEndOffset if field == "diverging_epoch" else SnapshotId
    message = answered(FETCH)
    partition = message.responses[0].partitions[0]
    setattr(partition, field, kind(end_offset=offset, epoch=epoch))
    with pytest.raises(Invalid, match=f"offset {offset} in epoch {epoch}"):
        answer_from_wire(FETCH, message, LISTENER)
    setattr(partition, field, kind())
    answer = answer_from_wire(FETCH, message, LISTENER)
    assert (answer.diverging, answer.snapshot) == (None, None)


def test_damaged_records_are_corrupt():
    """They are not appended: KAFKA-18723."""
    message = answered(FETCH)
    data = data_batch([b"value"], base_offset=7, epoch=4, timestamp_ms=0)
    data[-1] ^= 1
    message.responses[0].partitions[0].records = bytes(data)
    with pytest.raises(Corrupt, match=r"an answer to a fetch of the metadata log, at byte 0: .* has CRC"):
        answer_from_wire(FETCH, message, LISTENER)


def test_an_answer_without_records_has_no_batches():
    """Null and nothing are the same."""
    for records in (None, b""):
        message = answered(FETCH)
        message.responses[0].partitions[0].records = records
        assert answer_from_wire(FETCH, message, LISTENER).batches == ()


@pytest.mark.parametrize(
    ("position", "size", "data"), [(100, 1000, b""), (-1, 1000, b"data"), (998, 1000, b"data"), (100, 0, b"data")]
)
def test_bytes_of_a_snapshot_lie_inside_of_it(position, size, data):
    """An answer without any would be asked for for ever."""
    message = answered(SNAPSHOT)
    partition = message.topics[0].partitions[0]
    partition.position, partition.size, partition.unaligned_records = position, size, data
    with pytest.raises(Invalid, match=f"{len(data)} bytes at position {position} of {size}"):
        answer_from_wire(SNAPSHOT, message, LISTENER)


def test_a_leader_that_cannot_update_a_voter_may_name_no_leader():
    """Then the answer is one in the epoch of the request."""
    for leader in (None, APIS[82].response(error_code=0).current_leader):
        message = UpdateRaftVoterResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
        answer = answer_from_wire(UPDATE, message, LISTENER)
        assert answer == raft.VoterChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=3)


@pytest.mark.parametrize(
    ("features", "wanted"),
    [
        ([SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)], (0, 1)),
        ([SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30)], None),
        ([], None),
    ],
    ids=["known", "unknown", "none at all"],
)
def test_a_node_says_which_levels_of_the_quorum_it_can_run(features, wanted):
    """In the list of its features."""
    message = ApiVersionsResponse(api_keys=[], supported_features=features)
    assert answer_from_wire(raft.ApiVersionsRequest(), message, LISTENER) == raft.ApiVersionsAnswer(NONE, wanted)
