"""A topic is deleted and made again under its name: each of the two has its own logs, by the id of its topic."""

import asyncio
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import pytest
from msgspec import structs

from stratalog.broker.image_following import FollowingServices, ImageFollowing
from stratalog.metadata.image.configs_image import ResourceType
from stratalog.metadata.image.difference import difference
from stratalog.wire.records.metadata import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.following import follow_and_open

AGAIN = b"n" * 16
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def former(broker):
    """Topic ``t``, which had one partition; another one of its name has two, and the second is open here."""
    broker.create("t")
    former = broker.node.image.topics.by_name["t"]
    again = replace(former, topic_id=AGAIN, partitions=MappingProxyType(dict.fromkeys((0, 1), former.partitions[0])))
    broker.run(lambda: follow_and_open(broker.node.hosted, broker.node.image, again))
    return former


def test_a_log_that_was_opened_before_its_namesake_is_deleted_stays(broker, former):
    """Clients had written to it by the name of the topic, and it went with those of the topic before. Its figures stay as well."""
    table, opened = broker.node.hosted.table, broker.partition("t", 1)
    assert (opened.topic_id, opened.partition.leader is None) == (AGAIN, False)
    figures = broker.node.metrics.topic("t")
    broker.run(lambda: list(broker.node.hosted.deleting("t", former.topic_id)))
    assert (table.get(FIRST), table.get(SECOND)) == (None, opened)
    assert broker.node.metrics.topic("t") is figures
    broker.run(lambda: list(broker.node.hosted.deleting("t", AGAIN)))
    assert table.get(SECOND) is None
    assert broker.node.metrics.topic("t") is not figures


def test_partitions_of_a_topic_made_again_stay_due_or_closed(broker, former):
    """It was put down before the one of its name was deleted, or could not be opened."""
    table, logs = broker.node.hosted.table, broker.node.hosted.logs
    closed = TopicPartition("t", 3)

    def delete():
        table.due.add("t", AGAIN, 2)
        table.add_unopened("t", AGAIN, closed.partition, "why")
        logs.given_up[closed] = AGAIN
        list(broker.node.hosted.deleting("t", former.topic_id))
        return table.due.holds("t", 2), table.closed, closed in logs.given_up

    assert broker.run(delete) == (True, ["why"], True)
    assert broker.run(lambda: list(broker.node.hosted.deleting("t", AGAIN))) == [None]
    assert (len(table.due), table.closed, logs.given_up) == (0, [], {})


def test_roles_that_are_taken_between_an_image_and_its_following_stay(broker):
    """The publisher has set the image and awaits an earlier follower, as in a combined node: the registration is made anew meanwhile."""
    broker.create("t")
    hosted, before, me = broker.node.hosted, broker.node.image, broker.node.node_id
    mine = {"replicas": [me], "isr": [me], "leader": me, "leader_epoch": 0}
    made = [PartitionRecord(partition_id=number, topic_id=AGAIN, **mine) for number in (0, 1)]
    gone = RemoveTopicRecord(topic_id=before.topics.by_name["t"].topic_id)
    after = before.apply([gone, TopicRecord(name="t", topic_id=AGAIN), *made])
    hosted._services = structs.replace(hosted._services, image=lambda: after)

    async def follow():
        following = ImageFollowing(
            FollowingServices(
                node_id=me,
                has_peers=True,
                hosted=hosted,
                slices=broker.node.dispatcher.slices,
                image=lambda: after,
                follow_quotas=lambda _image: None,
                follow_settings=lambda _image: None,
                is_mounted=lambda _topic: False,
                note_deletions=lambda _image, _change: None,
                topics_deleted=lambda _removed: None,
                topics_changed=lambda _image, _removed: None,
            )
        )
        following.caught_up_again()
        async with asyncio.timeout(9):
            while (opened := hosted.table.get(SECOND)) is None:  # noqa: ASYNC110 - it is done in steps beside
                await asyncio.sleep(0.001)
        await following.applied(after, difference(before, after))
        return opened

    assert broker.run(follow) is hosted.table.get(SECOND)
    assert hosted.table.get(FIRST).topic_id == AGAIN


def test_settings_of_a_topic_are_none_of_its_namesake(broker, former):
    """Its archive would begin with them, though its log goes."""
    setting = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="retention.ms", value="7")
    again = [RemoveTopicRecord(topic_id=former.topic_id), TopicRecord(name="t", topic_id=AGAIN), setting]
    newer = broker.node.image.apply(again)
    broker.run(lambda: broker.node.hosted.reconfigure(newer, "t"))
    kept_ms = [broker.partition("t", number).log.config.retention_ms for number in (0, 1)]
    assert (kept_ms[0] != 7, kept_ms[1]) == (True, 7)


def test_the_archive_of_a_topic_is_none_of_its_namesake(broker, former):
    """A deletion would claim one that there is not."""
    broker.partition("t", 1).remote = SimpleNamespace()
    try:
        assert [broker.node._is_archived("t", one) for one in (former.topic_id, AGAIN)] == [False, True]
    finally:
        broker.partition("t", 1).remote = None
