"""Fetch: what each version of the messages carries."""

from stratalog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from stratalog.wire.parts import FileSlice
from stratalog.wire.schema import decode, encode, encode_bytes

UUID = bytes(range(16))


def request(**fields):
    partition = FetchPartition(partition=2, current_leader_epoch=5, fetch_offset=7, partition_max_bytes=100)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=1,
        topics=[FetchTopic(topic="t", topic_id=UUID, partitions=[partition])],
        **fields,
    )


def test_request_versions():
    """Sessions since 7, leader epochs since 9, tags since 12, ids since 13; the replica id moves into a tag in 15."""
    start = "ffffffff 000001f4 00000001 000003e8 01"
    assert encode_bytes(request(), 4) == bytes.fromhex(
        start + "00000001 0001 74 00000001 00000002 0000000000000007 00000064"
    )
    session = "00000000 ffffffff"
    assert encode_bytes(request(), 9) == bytes.fromhex(
        start
        + session
        + "00000001 0001 74 00000001 00000002 00000005 0000000000000007 ffffffffffffffff 00000064"
        + "00000000"
    )
    partition = "00000002 00000005 0000000000000007 ffffffff ffffffffffffffff 00000064 00"
    assert encode_bytes(request(cluster_id="c"), 12) == bytes.fromhex(
        start + session + "02 02 74 02" + partition + "00" + "01" + "01" + "01 00 02 02 63"
    )
    follower = request(replica_state=ReplicaState(replica_id=3, replica_epoch=4))
    assert encode_bytes(follower, 15) == bytes.fromhex(
        start[9:] + session + "02" + UUID.hex() + "02" + partition + "00" + "01" + "01"
        + "01 01 0d 00000003 0000000000000004 00"
    )  # fmt: skip


def test_request_defaults():
    """Fields missing in an old request read as Kafka's default."""
    old = decode(FetchRequest, 4, encode_bytes(request(), 4))
    assert (old.session_id, old.session_epoch, old.rack_id, old.forgotten_topics_data) == (0, -1, "", [])
    partition = old.topics[0].partitions[0]
    assert (partition.current_leader_epoch, partition.last_fetched_epoch, partition.log_start_offset) == (-1, -1, -1)
    assert partition.high_watermark == 2**63 - 1
    assert old.replica_state is None


def test_request_forgotten():
    """Partitions leave a session by name up to 12 and by id from 13 on."""
    forgotten = [ForgottenTopic(topic="t", topic_id=UUID, partitions=[1, 2])]
    for version, named in ((7, ("t", bytes(16))), (12, ("t", bytes(16))), (13, ("", UUID))):
        again = decode(FetchRequest, version, encode_bytes(request(forgotten_topics_data=forgotten), version))
        (topic,) = again.forgotten_topics_data
        assert ((topic.topic, topic.topic_id), topic.partitions) == (named, [1, 2])


def test_response_parts(tmp_path):
    """Batches are parts of their own, in order, between joined stretches."""
    with (tmp_path / "log").open("wb+") as file:
        slices = [FileSlice(file, 0, 300), FileSlice(file, 300, 5)]
        partitions = [
            PartitionData(partition_index=0, high_watermark=9, records=slices),
            PartitionData(partition_index=1, high_watermark=9, records=None, aborted_transactions=None),
            PartitionData(partition_index=2, high_watermark=9, records=b"batch"),
        ]
        topic = FetchableTopicResponse(topic_id=UUID, partitions=partitions)
        parts = encode(FetchResponse(responses=[topic]), 13)
    assert [part if isinstance(part, FileSlice) else len(part) for part in parts] == [65, *slices, 74, 5, 3]
    assert parts[0][-2:] == bytes.fromhex("b202")  # one more than 305, as a varint
    assert parts[4] == b"batch"


def test_response_tags():
    """Divergence and the new leader are tags; what is not set is not sent."""
    partition = PartitionData(
        partition_index=0,
        error_code=74,
        high_watermark=-1,
        diverging_epoch=EpochEndOffset(epoch=3, end_offset=40),
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=4),
        aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)],
        records=b"",
    )
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    expected = (
        "00000000 0000 00000000 02 02 74 02 00000000 004a"
        + "ff" * 24
        + "02 0000000000000001 0000000000000002 00 ffffffff 01"
        + "02 00 0d 00000003 0000000000000028 00 01 09 00000002 00000004 00"
        + "00 00"
    )
    assert encode_bytes(response, 12) == bytes.fromhex(expected)
    again = decode(FetchResponse, 12, bytes.fromhex(expected)).responses[0].partitions[0]
    assert (again.diverging_epoch, again.current_leader) == (partition.diverging_epoch, partition.current_leader)
    assert again.snapshot_id is None


def test_follower_versions():
    """A follower names its directory since 17 and its high watermark since 18; -1, not known, is sent."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=5,
        fetch_offset=7,
        partition_max_bytes=0,
        replica_directory_id=UUID,
        high_watermark=-1,
    )
    topic = FetchTopic(topic_id=UUID, partitions=[partition])
    follower = FetchRequest(
        replica_state=ReplicaState(replica_id=3, replica_epoch=-1), max_wait_ms=500, min_bytes=0, topics=[topic]
    )
    start = "000001f4 00000000 7fffffff 00 00000000 ffffffff 02" + UUID.hex() + "02"
    fields = "00000000 00000005 0000000000000007 ffffffff ffffffffffffffff 00000000"
    end = "00 01 01 01 01 0d 00000003 ffffffffffffffff 00"
    assert encode_bytes(follower, 16) == bytes.fromhex(start + fields + "00" + end)
    directory = "00 10" + UUID.hex()
    assert encode_bytes(follower, 17) == bytes.fromhex(start + fields + "01" + directory + end)
    assert encode_bytes(follower, 18) == bytes.fromhex(
        start + fields + "02" + directory + "01 08 ffffffffffffffff" + end
    )


def test_response_leads_elsewhere():
    """A snapshot is a tag of the partition; addresses of leaders are one of the answer since 16 (KIP-951)."""
    partition = PartitionData(
        partition_index=0, high_watermark=-1, snapshot_id=SnapshotId(end_offset=9, epoch=4), records=b""
    )
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic_id=UUID, partitions=[partition])],
        node_endpoints=[NodeEndpoint(node_id=2, host="h", port=9092)],
    )
    start = "00000000 0000 00000000 02" + UUID.hex() + "02 00000000 0000" + "ff" * 24 + "01 ffffffff 01"
    snapshot = "01 02 0d 0000000000000009 00000004 00 00"
    assert encode_bytes(response, 15) == bytes.fromhex(start + snapshot + "00")
    for version in (16, 18):
        assert encode_bytes(response, version) == bytes.fromhex(
            start + snapshot + "01 00 0d 02 00000002 0268 00002384 00 00"
        )


def test_a_follower_hears_how_far_its_leader_has_forgotten():
    """By a tag of this project's own, from the first flexible version on; nothing is sent where nothing is forgotten."""

    def answered(**fields):
        data = PartitionData(partition_index=2, high_watermark=7, records=b"", **fields)
        topic = FetchableTopicResponse(topic="t", topic_id=UUID, partitions=[data])
        return FetchResponse(responses=[topic])

    plain, told = answered(), answered(forgotten_below=300)
    assert encode_bytes(told, 11) == encode_bytes(plain, 11)
    for version in range(12, 19):
        before, tagged = encode_bytes(plain, version), encode_bytes(told, version)
        own = bytes.fromhex("01" + "88a401" + "08" + "000000000000012c")
        assert tagged == before[:-3] + own + before[-2:]
        assert decode(FetchResponse, version, tagged).responses[0].partitions[0].forgotten_below == 300


def test_a_reader_without_the_tag_passes_over_it():
    """A follower of an earlier version, or of Apache Kafka."""
    data = PartitionData(partition_index=2, high_watermark=7, records=b"abc", forgotten_below=300)
    sent = encode_bytes(
        FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=UUID, partitions=[data])]), 18
    )
    other = sent.replace(bytes.fromhex("88a401"), bytes.fromhex("89a401"))
    assert other != sent
    found = decode(FetchResponse, 18, other).responses[0].partitions[0]
    assert (found.forgotten_below, bytes(found.records)) == (0, b"abc")
