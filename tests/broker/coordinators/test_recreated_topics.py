"""A topic that is deleted while its group's coordinator is being loaded leaves offsets: nothing tells the shard."""

import pytest

from stratalog.client.admin import delete_topics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)


@pytest.mark.story
def test_offsets_that_a_deletion_left_do_not_count_for_the_next_topic(start_node):
    """A client that names the topic, as most do, would begin behind its first records."""
    node = start_node(offsets_topic_num_partitions=1)
    link = node.link()
    node.create("t")
    link.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    node.wait_until(lambda: not node.node.groups.loading)
    one = OffsetCommitRequestPartition(partition_index=0, committed_offset=1000, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id="g", member_id="", topics=[OffsetCommitRequestTopic(name="t", partitions=[one])]
    )
    assert link.call(commit, 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    (driver,) = node.run(lambda: list(node.node.groups.host))
    node.run(driver._drop, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "a full disk"))
    delete_topics(node.client(), ["t"])
    node.wait_until(lambda: driver.active)
    assert driver.shard.offsets.has_offsets("g")
    node.create("t")
    wanted = OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])
    answer = link.call(OffsetFetchRequest(groups=[wanted]), 8).groups[0].topics[0].partitions[0]
    assert (answer.committed_offset, answer.error_code) == (-1, ErrorCode.NONE)
