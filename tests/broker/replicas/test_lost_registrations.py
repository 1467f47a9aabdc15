"""A replica that has lost what it had ends the registration of its broker, and no partition has a role until the next one."""

from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import pytest
from msgspec import structs

from stratalog.broker.replicas.in_sync import NO_FOLLOWERS
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.log_opening import OpenedLog
from stratalog.hot.replica_state import NO_BROKER_EPOCH
from stratalog.metadata.image.directory_ids import UNASSIGNED
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.following import follow_and_open

ME, OTHER = 1, 2


@pytest.mark.parametrize(
    ("replicas", "mark", "lost_flushed", "ends_it", "cut"),
    [
        *(((1,), 5, True, False, None), ((1, 2), 2, False, False, None), ((1, 2), 3, False, True, None)),
        *(((1, 2), 2, True, True, None), ((1, 2), 0, True, True, None), ((1, 2), 3, False, False, 2)),
    ],
)
def test_a_replica_that_lacks_what_it_had_synced_is_reported(
    broker, replicas, mark, lost_flushed, ends_it, cut, caplog
):
    """By what it had it was counted: a follower has told its leader all that is synced, above the mark that it knows."""
    broker.create("t")
    broker.produce("t", b"a")
    broker.produce("t", b"b")
    hosted, unified = broker.node.hosted, broker.partition("t", 0)
    state = replace(broker.node.image.topics.by_name["t"].partitions[0], replicas=replicas)
    name, directory = unified.topic_partition, hosted._services.directories.of(unified.partition.directory)
    directory.files.high_watermarks[name] = mark
    unified.log.recovery.has_lost_flushed, unified.log.cycles.truncated_to = lost_flushed, cut
    opened = OpenedLog(unified.log, directory, Led.OPENED)
    assert broker.run(lambda: hosted.placing.has_lost_records(opened, state)) is ends_it
    assert ("has lost records that may have been acknowledged" in caplog.text) is ends_it


class Member:
    """A broker as one of several, whose registration the test ends. It has one of the two replicas of a topic."""

    def __init__(self, broker) -> None:
        self.broker, self.hosted = broker, broker.node.hosted
        self.copied, self.heard = [], []
        self.copying = SimpleNamespace(
            asking=NO_FOLLOWERS,
            broker_epoch=broker.node.image.brokers.brokers[ME].epoch,
            follow=lambda role: self.copied.append(role.epoch),
            release=lambda _key: None,
        )
        self.hosted._services = structs.replace(
            self.hosted._services,
            copying=self.copying,
            on_data_lost=lambda: self.heard.append("lost"),
            on_led=lambda _one, _why: self.heard.append("led"),
            on_released=lambda _one: self.heard.append("released"),
        )

    def follow(self, leader, epoch, *, name="t"):
        """The image of the moment has this leader."""
        topic = self.broker.node.image.topics.by_name["t"]
        if name != "t":
            topic = replace(topic, name=name, topic_id=name.encode() * 16)
        state = PartitionImage((ME, OTHER), (OTHER, ME), leader, leader_epoch=epoch, directories=(UNASSIGNED,) * 2)
        changed = replace(topic, partitions=MappingProxyType({0: state}))
        self.broker.run(lambda: follow_and_open(self.hosted, self.broker.node.image, changed))

    def role(self, name="t"):
        partition = self.hosted.table.get(TopicPartition(name, 0)).partition
        return "leader" if partition.leader is not None else "follower" if partition.follower is not None else None


@pytest.fixture
def member(broker):
    """A broker of several, which has topic ``t``."""
    broker.create("t")
    return Member(broker)


@pytest.mark.parametrize("leader", [ME, OTHER])
def test_an_image_of_a_lost_registration_gives_no_role(member, leader):
    """In the epoch of before, with the shorter log, the followers cut what had been acknowledged. The next registration gives it."""
    registered = member.copying.broker_epoch
    member.follow(ME, 8)
    assert (member.role(), member.heard) == ("leader", ["led"])
    member.heard.clear()
    for epoch in (NO_BROKER_EPOCH, registered + 5):  # it is given up; it is accepted, and not in the image so far
        member.copying.broker_epoch = epoch
        member.follow(leader, 9)
        assert (member.role(), member.copied, member.heard) == (None, [], ["released"])
    member.copying.broker_epoch = registered
    member.follow(leader, 9)
    assert member.role() == ("leader" if leader == ME else "follower")


@pytest.mark.parametrize("leader", [ME, OTHER])
def test_a_log_that_has_lost_records_is_opened_without_a_role(member, leader, monkeypatch):
    """It may be opened late, when its broker leads it in the image: what ends the roles of the table comes before it is there."""
    monkeypatch.setattr(member.hosted.placing, "has_lost_records", lambda _opened, _state: True)
    member.follow(leader, 8, name="u")
    assert (member.role("u"), member.copied, member.heard) == (None, [], ["lost"])
    member.follow(leader, 9, name="u")
    assert member.role("u") == ("leader" if leader == ME else "follower")


def test_without_a_registration_no_log_is_opened(member):
    """It would be one that had its role before, and is put down again with the roles of the next registration."""
    member.copying.broker_epoch = NO_BROKER_EPOCH
    hosted, topic = member.hosted, member.broker.node.image.topics.by_name["t"]

    def open_again():
        hosted.table.remove(hosted.table.get(TopicPartition("t", 0)))
        hosted.table.due.add("t", topic.topic_id, 0)
        list(hosted.opening())
        return hosted.table.get(TopicPartition("t", 0)), len(hosted.table.due)

    unified = hosted.table.get(TopicPartition("t", 0))
    assert member.broker.run(open_again) == (None, 0)
    member.broker.run(hosted.table.add, unified)


def test_a_broker_by_itself_leads_what_it_has(broker, monkeypatch):
    """It has no registration to give up, and no other broker has the records."""
    broker.create("t")
    monkeypatch.setattr(broker.node.hosted.placing, "has_lost_records", lambda _opened, _state: True)
    topic = replace(broker.node.image.topics.by_name["t"], name="u", topic_id=b"u" * 16)
    broker.run(lambda: follow_and_open(broker.node.hosted, broker.node.image, topic))
    assert broker.partition("u").partition.leader is not None
