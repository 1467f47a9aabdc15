"""Offsets of deleted topics: found in parts, whatever comes and goes meanwhile."""

import pytest

from stratalog.metadata.groups.offsets.deleted_topics import OFFSETS_AT_ONCE, DeletedTopics
from stratalog.metadata.groups.offsets.records import NEVER, CommittedOffset, pack_offset
from stratalog.metadata.groups.offsets.requests import FetchOffsets, WantedTopic
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

OLD, NEW, OTHER = b"o" * 16, b"n" * 16, b"x" * 16


def stored(topic_id):
    return pack_offset(CommittedOffset(7, -1, "", 5, NEVER, topic_id))


def test_many_offsets_are_found_in_parts():
    """A part ends where it has looked at enough, also within a group; each offset is found once."""
    groups = {f"g{at}": {"t": dict.fromkeys(range(100), stored(OLD)), "u": {0: stored(OLD)}} for at in range(7)}
    topics = DeletedTopics()
    topics.add({"t": OLD}, groups)
    parts = []
    while topics.under_way:
        parts.append(topics.look(groups))
    assert [len(part) for part in parts] == [OFFSETS_AT_ONCE, OFFSETS_AT_ONCE, 700 - 2 * OFFSETS_AT_ONCE]
    assert {place for part in parts for place in part} == {(name, "t", at) for name in groups for at in range(100)}


def test_groups_without_offsets_of_the_topic_count_as_well():
    """A look at a hundred thousand of them is long, too."""
    groups = {f"g{at}": {"u": {0: stored(OLD)}} for at in range(OFFSETS_AT_ONCE + 1)}
    topics = DeletedTopics()
    topics.add({"t": OLD}, groups)
    assert (topics.look(groups), topics.under_way) == ([], True)
    assert (topics.look(groups), topics.under_way) == ([], False)


def test_a_topic_that_goes_meanwhile_has_all_groups_looked_at_again():
    """For both; offsets of the present topic of that name stay, and a group that has gone is no matter."""
    groups = {
        "a": {"t": {0: stored(OLD), 1: stored(NEW), 2: stored(OTHER)}},
        "b": {"t": dict.fromkeys(range(OFFSETS_AT_ONCE), stored(OLD))},
    }
    topics = DeletedTopics()
    topics.add({"t": OLD}, groups)
    assert len(topics.look(groups)) == OFFSETS_AT_ONCE
    del groups["b"]
    topics.add({"t": NEW}, ["a", "b"])
    assert sorted(topics.look(groups)) == [("a", "t", 0), ("a", "t", 1)]
    assert not topics.under_way


def test_an_offset_that_goes_between_two_parts_is_no_matter():
    """A group of very many partitions is looked at in parts, and commits, or is deleted, in between."""
    groups = {"a": {"t": dict.fromkeys(range(2 * OFFSETS_AT_ONCE), stored(OLD))}}
    topics = DeletedTopics()
    topics.add({"t": OLD}, groups)
    for _, _, at in topics.look(groups):
        del groups["a"]["t"][at]
    del groups["a"]["t"][1]
    groups["a"]["t"][2] = stored(NEW)
    assert {at for *_, at in topics.look(groups)} == {0, *range(3, OFFSETS_AT_ONCE)}
    assert not topics.under_way


@pytest.mark.parametrize("retention_ms", [-1, 60_000], ids=["with an id", "without one"])
def test_offsets_of_the_next_topic_stay_though_others_are_still_being_deleted(group_world, retention_ms):
    """Old clients choose a retention: such a record has no room for the topic's id, and it was taken for an earlier topic's."""
    world = group_world({"t": 1})
    groups = [f"g{number}" for number in range(2 * OFFSETS_AT_ONCE + 1)]

    def commit(group_id, offset, retention_ms):
        one = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topic = OffsetCommitRequestTopic(name="t", topic_id=world.id("t"), partitions=[one])
        request = OffsetCommitRequest(group_id=group_id, member_id="", retention_time_ms=retention_ms, topics=[topic])
        world.call(request, group_id, version=4)

    def committed():
        wanted = [WantedTopic("t", (0,))]
        answers = [world.call(FetchOffsets(group_id=one, topics=wanted), one) for one in groups]
        return {one.groups[0].group_id: one.groups[0].topics[0].partitions[0].committed_offset for one in answers}

    for group_id in groups:
        commit(group_id, 100, retention_ms)
    world.delete("t")
    world.create("t", 1)
    commit(groups[0], 3, retention_ms)
    commit(groups[-1], 4, retention_ms)
    expected = {**dict.fromkeys(groups, -1), groups[0]: 3, groups[-1]: 4}
    assert world.shard.offsets.deletion_under_way
    assert committed() == expected
    world.advance(1)
    assert not world.shard.offsets.deletion_under_way
    assert committed() == expected
    world.delete("t")
    world.create("t", 1)
    world.advance(1)
    assert committed() == dict.fromkeys(groups, -1)
