"""The questions to a shard about committed offsets where they are not the request itself."""

from stratalog.metadata.coordination import Producer
from stratalog.metadata.groups.group import GroupRequest
from stratalog.metadata.groups.offsets.requests import Expired, FetchOffsets, TransactionEnded, WantedTopic
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.wire.topic import ZERO_UUID


def fetched(world, request):
    """Offsets by topic and partition."""
    (reply,) = world.shard.step(GroupRequest(1, request.group_id, 10, request), world.now)
    (group,) = reply.response.groups
    return {
        (topic.name, one.partition_index): one.committed_offset for topic in group.topics for one in topic.partitions
    }


def test_a_fetch_asks_by_default_as_a_stranger_does():
    """No member, no epoch, and unstable offsets are no matter."""
    request = FetchOffsets(group_id="g", topics=None)
    assert (request.member_id, request.member_epoch, request.require_stable) == (None, -1, False)


def test_no_topics_are_all_and_an_empty_list_is_none(classic_world):
    """As in OffsetFetch, where null and empty differ."""
    world = classic_world()
    world.commit_offset()
    everything = fetched(world, FetchOffsets(group_id="g", topics=None))
    assert len(everything) == 1
    assert fetched(world, FetchOffsets(group_id="g", topics=[])) == {}


def test_a_topic_asked_for_by_name_has_no_id(classic_world):
    """Zero stands for it, which fits whatever id the offset was committed with."""
    world = classic_world()
    world.commit_offset()
    ((topic, partition),) = fetched(world, FetchOffsets(group_id="g", topics=None))
    wanted = WantedTopic(topic, [partition, partition + 1])
    assert wanted.topic_id == ZERO_UUID
    found = fetched(world, FetchOffsets(group_id="g", topics=[wanted]))
    assert found[topic, partition] >= 0
    assert found[topic, partition + 1] == -1


def test_the_end_of_a_transaction_without_offsets_changes_nothing(classic_world):
    """Markers reach every partition that the producer wrote to."""
    shard = classic_world().shard
    assert isinstance(shard, GroupShard)
    for commit in (True, False):
        assert shard.step(TransactionEnded(Producer(1, 0), commit), classic_world().now) == []


def test_the_result_of_a_look_for_expired_offsets_can_be_taken_apart():
    """Its three parts, in this order."""
    records, empty, more = Expired([], ["g"], more=True)
    assert (records, empty, more) == ([], ["g"], True)
