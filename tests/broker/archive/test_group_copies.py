from __future__ import annotations

import time

import pytest

from stratalog.client.client import Client
from stratalog.client.groups import commit_offsets, delete_group
from stratalog.tier.messages.group_copy import (
    OffsetCopy,
    group_copy_from_bytes,
    group_copy_projection,
    groups_prefix,
)
from stratalog.tier.messages.projection import write_projection
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def broker(stratalog_broker, monkeypatch):
    """A broker with an archived and a local topic that looks at its groups all the time."""
    monkeypatch.setattr("stratalog.broker.archive.group_copies.ROUND_SECONDS", 0.0)
    stratalog_broker.create_topic("orders", remote_storage_enable="true")
    stratalog_broker.create_topic("local")
    return stratalog_broker


def commit(broker, group, **offsets):
    with Client(broker.bootstrap_servers) as client:
        commit_offsets(client, group, {TopicPartition(topic, 0): offset for topic, offset in offsets.items()})


def copies(broker):
    """Group to topics and offsets, as the bucket has them."""
    found = {}
    for info in broker.store.list(groups_prefix(broker.node.cluster_id)):
        copy = group_copy_from_bytes(broker.store.get(info.key)[0], info.key)
        found[copy.group] = {one.topic: one.offset for one in copy.offsets}
    return found


def eventually(check, expected):
    deadline = time.monotonic() + 15
    while (found := check()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == expected


@pytest.mark.story
def test_offsets_in_archived_topics_are_copied_and_follow(broker):
    """Those in others are not; a group that is deleted has none."""
    commit(broker, "g", orders=5, local=6)
    commit(broker, "h", local=7)
    eventually(lambda: copies(broker), {"g": {"orders": 5}})
    commit(broker, "g", orders=9)
    eventually(lambda: copies(broker), {"g": {"orders": 9}})
    assert broker.node.housekeeping.group_copies.settled("g")
    with Client(broker.bootstrap_servers) as client:
        delete_group(client, "g")
    eventually(lambda: copies(broker), {"g": {}})


def test_a_copy_that_failed_is_made_at_the_next_look(broker):
    """The bucket was away; committing did not notice."""
    broker.fail_store(FaultRule(Fault.FAIL_BEFORE))
    commit(broker, "g", orders=5)
    time.sleep(1.2)
    assert not broker.node.housekeeping.group_copies.settled("g")
    broker.fail_store()
    eventually(lambda: copies(broker), {"g": {"orders": 5}})


def test_a_broker_from_which_the_bucket_was_taken_over_copies_nothing_more(broker, caplog):
    """Else a later restore would find the offsets that were committed where nothing is archived any more."""
    commit(broker, "g", orders=5)
    eventually(lambda: copies(broker), {"g": {"orders": 5}})
    topic_id = broker.node.image.topics.by_name["orders"].topic_id
    successors = [OffsetCopy("orders", topic_id, 0, 40)]
    write_projection(broker.store, group_copy_projection(broker.node.cluster_id, "g", successors, 1))
    commit(broker, "g", orders=6)
    eventually(lambda: "was taken over" in caplog.text, True)
    commit(broker, "h", orders=7)
    broker.node.housekeeping.group_copies.look()
    assert broker.node.housekeeping.group_copies._under_way == 0
    assert copies(broker) == {"g": {"orders": 40}}
