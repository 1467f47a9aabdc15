"""Committed offsets that go: deleted by request, with their group or topic, or because they are old."""

from types import SimpleNamespace

import pytest

from stratalog.metadata.coordination import Now, Producer, Reply
from stratalog.metadata.groups.group import GroupRequest, GroupSettings, GroupType
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.groups.offsets.records import NEVER, CommittedOffset, offset_key, pack_offset, tombstone
from stratalog.wire.errors import Corrupt, ErrorCode
from stratalog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from stratalog.wire.topic import ZERO_UUID

ID = b"t" * 16
PRODUCER = Producer(9, 2)
COMMITTED_MS = 1_000_000


@pytest.fixture
def offsets():
    return CommittedOffsets(GroupSettings())


def group_like(**changes):
    topics = changes.pop("topics", ())
    values = {
        "group_id": "g",
        "type": GroupType.CLASSIC,
        "state": "Empty",
        "protocol_type": "consumer",
        "empty_since_ms": 0,
        "subscribes": lambda topic: topic in topics,
    }
    return SimpleNamespace(**{**values, **changes})


def put(offsets, partition=0, producer=None, group="g", topic="t", topic_id=ZERO_UUID):
    value = pack_offset(CommittedOffset(7, -1, "", COMMITTED_MS, NEVER, topic_id))
    return offsets.replay(offset_key(group, topic, partition), value, producer)


def deleted(offsets, group, *partitions):
    """The records of a request to delete offsets, and the codes of its answer or the error."""
    listed = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=listed)])
    (action,) = offsets.delete(group, GroupRequest(token="token", group_id="g", api_version=0, request=request))
    if type(action) is Reply:
        return [], action.response.code.name
    (reply,) = action.replies
    (topic,) = reply.response.topics
    assert [one.partition_index for one in topic.partitions] == list(partitions)
    return list(action.records), [ErrorCode(one.error_code).name for one in topic.partitions]


def test_deleted_offsets_leave_tombstones(offsets):
    """Tombstones for what is there, committed or pending; what is not there is no error."""
    put(offsets)
    put(offsets, 1, PRODUCER)
    records, codes = deleted(offsets, group_like(), 0, 1, 2)
    assert records == [tombstone("g", "t", 0), tombstone("g", "t", 1)]
    assert codes == ["NONE"] * 3
    assert not offsets.has_offsets("g")
    assert not offsets.has_pending("g")
    offsets.replay_marker(PRODUCER, commit=True)
    assert not offsets.has_offsets("g")


def test_offsets_of_subscribed_topics_are_not_deleted(offsets):
    """Offsets that a member still needs stay."""
    put(offsets)
    assert deleted(offsets, group_like(state="Stable", topics=("t",)), 0) == ([], ["GROUP_SUBSCRIBED_TO_TOPIC"])
    assert offsets.has_offsets("g")
    assert deleted(offsets, group_like(state="Stable", topics=("u",)), 0)[1] == ["NONE"]
    assert not offsets.has_offsets("g")


@pytest.mark.parametrize(
    ("group", "code"),
    [
        (None, "GROUP_ID_NOT_FOUND"),
        (group_like(state="Dead"), "GROUP_ID_NOT_FOUND"),
        (group_like(state="Stable", protocol_type="connect"), "NON_EMPTY_GROUP"),
        (group_like(state="PreparingRebalance", protocol_type="connect"), "NON_EMPTY_GROUP"),
    ],
    ids=["none", "dead", "stable", "rebalancing"],
)
def test_a_deletion_in_a_missing_or_foreign_group_is_refused(offsets, group, code):
    """The group is missing, or has members that are no consumers that say what they read."""
    put(offsets)
    assert deleted(offsets, group, 0) == ([], code)
    assert offsets.has_offsets("g")


def test_a_deleted_group_leaves_one_tombstone_for_each_offset(offsets):
    """All offsets of the group go, pending ones too, each with one tombstone."""
    put(offsets)
    put(offsets, 1)
    put(offsets, 1, PRODUCER)
    put(offsets, 2, PRODUCER)
    assert offsets.delete_group("g") == [tombstone("g", "t", index) for index in (0, 1, 2)]
    assert offsets.delete_group("g") == []
    assert not offsets.has_offsets("g")
    assert not offsets.has_pending("g")


def test_offsets_go_with_their_topic(offsets):
    """The offsets of a deleted topic go with it, but not those of a newer topic of its name."""
    put(offsets, 0, topic_id=ID)
    put(offsets, 1, PRODUCER)
    put(offsets, 2, group="h", topic_id=b"o" * 16)
    put(offsets, 0, group="h", topic="u")
    assert offsets.topics_deleted({"t": b"o" * 16, "v": ID}) == [tombstone("g", "t", 1)]
    assert offsets.delete_of_topics() == [tombstone("h", "t", 2)]
    assert not offsets.deletion_under_way
    assert offsets.topics_deleted({"t": ID}) == []
    assert offsets.delete_of_topics() == [tombstone("g", "t", 0)]
    assert offsets.has_offsets("h")
    assert not offsets.has_offsets("g")
    assert not offsets.has_pending("g")


def test_expired_offsets_leave_tombstones(offsets):
    """Expired offsets leave tombstones; groups that hold nothing any more are named."""
    put(offsets)
    put(offsets, 1, PRODUCER)
    groups = {"g": group_like(protocol_type="", empty_since_ms=-1), "none": group_like(group_id="none")}
    assert offsets.expire(groups, Now(0, COMMITTED_MS + 1)) == ([], ["none"], False)
    late = Now(0, COMMITTED_MS + GroupSettings().offsets_retention_ms)
    assert offsets.expire(groups, late) == ([tombstone("g", "t", 0)], ["none"], False)
    offsets.replay_marker(PRODUCER, commit=False)
    found = offsets.expire(groups, late)
    assert (found.records, sorted(found.empty)) == ([], ["g", "none"])


def test_records_and_tombstones_are_replayed(offsets):
    """Records and tombstones of the log, also under the key of Kafka of old."""
    assert put(offsets) == "g"
    value = pack_offset(CommittedOffset(1, -1, "", 0, NEVER, ZERO_UUID))
    assert offsets.replay(b"\0\0" + offset_key("h", "t", 0)[2:], value, None) == "h"
    assert offsets.has_offsets("h")
    assert offsets.replay(offset_key("x", "t", 0), None, None) == "x"
    assert offsets.replay(offset_key("g", "t", 1), None, None) == "g"
    assert offsets.has_offsets("g")
    assert offsets.replay(offset_key("g", "t", 0), None, None) == "g"
    assert not offsets.has_offsets("g")


def test_an_unreadable_record_is_refused_at_loading(offsets):
    """An unreadable record is refused when it is loaded, not at the first request for it."""
    with pytest.raises(Corrupt):
        offsets.replay(offset_key("g", "t", 0)[:-1], b"", None)
    with pytest.raises(Corrupt):
        offsets.replay(offset_key("g", "t", 0), b"\0\x05" + bytes(40), None)
    assert not offsets.has_offsets("g")
