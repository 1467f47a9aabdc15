from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import pytest

from stratalog.broker.archive.group_copies import ROUND_SECONDS, GroupCopies, GroupCopyServices
from stratalog.broker.runtime.slices import to_the_end
from stratalog.client.client import Client
from stratalog.client.groups import commit_offsets, delete_group
from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.groups.offsets.records import NEVER, offset_key, pack_offset
from stratalog.metadata.groups.offsets.records import CommittedOffset as StoredOffset
from stratalog.metadata.image.image import INCARNATION, ClusterImage
from stratalog.tier.messages.group_copy import (
    OffsetCopy,
    group_copy_from_bytes,
    group_copy_projection,
    groups_prefix,
    offset_from_fields,
)
from stratalog.tier.messages.projection import CoordinatorTerm, write_projection
from stratalog.tier.messages.reports import FailedReport, FencedReport, Written
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.wire.records.metadata import ConfigRecord, TopicRecord
from stratalog.wire.topic import ZERO_UUID, TopicPartition


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


@pytest.mark.story
def test_a_copy_that_failed_is_made_at_the_next_look(broker):
    """The bucket was away; committing did not notice."""
    broker.fail_store(FaultRule(Fault.FAIL_BEFORE))
    commit(broker, "g", orders=5)
    time.sleep(1.2)
    assert not broker.node.housekeeping.group_copies.settled("g")
    broker.fail_store()
    eventually(lambda: copies(broker), {"g": {"orders": 5}})


@pytest.mark.story
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
    to_the_end(broker.node.housekeeping.group_copies.look())
    assert broker.node.housekeeping.group_copies._under_way == set()
    assert copies(broker) == {"g": {"orders": 40}}


class Shard:
    """The parts of a group shard that copies of groups look at."""

    def __init__(self, number, **groups):
        self.number = number
        self.groups = groups
        self.offsets = self

    def of(self, group_id):
        return [(topic, partition, CommittedOffset(*rest)) for topic, partition, *rest in self.groups.get(group_id, ())]


@dataclass(frozen=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = 0
    metadata: str = ""
    topic_id: bytes = ZERO_UUID


class Copying:
    """Copies of groups over shards that come and go, and a bucket that takes everything at once."""

    def __init__(self, *shards):
        self.shards = list(shards)
        self.bucket = {}
        self.held, self.is_slow = [], False
        self.now_s = 0.0
        self.epoch = 0
        self.roles = SimpleNamespace(has_peers=True)
        self.image = ClusterImage().apply(
            [
                TopicRecord(name="orders", topic_id=bytes([1]) * 16),
                TopicRecord(name="local", topic_id=bytes([2]) * 16),
                ConfigRecord(resource_type=2, resource_name="orders", name="remote.storage.enable", value="true"),
                ConfigRecord(resource_type=4, resource_name="", name=INCARNATION, value="1"),
            ]
        )
        services = GroupCopyServices(
            cluster_id="c",
            config=lambda: SimpleNamespace(tiering_enabled=True, boolean=lambda _name: False, roles=self.roles),
            clock=SimpleNamespace(monotonic=lambda: self.now_s),
            image=lambda: self.image,
            shards=lambda: [
                (shard, CoordinatorTerm(bytes([3]) * 16, shard.number, self.epoch)) for shard in self.shards
            ],
            submit=self.submit,
        )
        self.copies = GroupCopies(services)

    def submit(self, command, answered):
        if self.is_slow:
            self.held.append((command, answered))
        else:
            self.carry_out(command, answered)

    def carry_out(self, command, answered):
        offsets = map(offset_from_fields, command.fields["offsets"])
        self.bucket[command.fields["group"]] = {(one.topic, one.partition): one.offset for one in offsets}
        answered(Written(command.key))

    def round(self):
        self.now_s += ROUND_SECONDS
        to_the_end(self.copies.look())
        return self.bucket


def test_offsets_are_copied_whichever_broker_leads_their_partitions():
    """The coordinator leads none of them; a topic without an archive is left out."""
    copying = Copying(Shard(3, g=[("orders", 0, 5), ("orders", 7, 9), ("local", 0, 1), ("gone", 0, 1)]))
    assert copying.round() == {"g": {("orders", 0): 5, ("orders", 7): 9}}
    assert copying.copies.settled("g")
    assert not copying.copies.settled("unknown")


def test_offsets_of_an_earlier_topic_are_not_copied_as_those_of_the_next_of_its_name():
    """They may be left of a topic that was deleted during a load. A restored group would miss the first records of the new one."""
    earlier, present = (0, "", bytes([9]) * 16), (0, "", bytes([1]) * 16)
    copying = Copying(Shard(3, g=[("orders", 0, 5, *earlier), ("orders", 1, 6, *present), ("orders", 2, 7)]))
    assert copying.round() == {"g": {("orders", 1): 6, ("orders", 2): 7}}


def test_a_copy_outlives_the_coordinator_that_wrote_it():
    """The shard is led elsewhere now, or not at all: its groups are not gone. Back here they are copied again."""
    shard = Shard(3, g=[("orders", 0, 5)], h=[("orders", 0, 6)])
    copying = Copying(shard, Shard(4))
    both = {"g": {("orders", 0): 5}, "h": {("orders", 0): 6}}
    assert copying.round() == both
    copying.shards = [Shard(4)]
    assert copying.round() == both
    assert not copying.copies.settled("g")
    copying.shards = [Shard(3, h=[("orders", 0, 8)])]
    assert copying.round() == {**both, "h": {("orders", 0): 8}}
    copying.shards = [Shard(3)]
    assert copying.round()["h"] == {}


def test_a_shard_that_comes_back_between_two_rounds_is_copied_anew():
    """Another broker coordinated its groups meanwhile, and copied them: what this one knew of the bucket is out of date."""
    copying = Copying(Shard(3, g=[("orders", 0, 5)]))
    copying.round()
    copying.bucket = {"g": {("orders", 0): 4}}
    copying.shards = [Shard(3, g=[("orders", 0, 5)])]
    assert not copying.copies.settled("g")
    assert copying.round() == {"g": {("orders", 0): 5}}
    assert copying.copies.settled("g")


def test_a_copy_that_was_under_way_when_its_shard_went_counts_for_no_later_one():
    """It is answered when the shard is back: the bucket may have another one since."""
    copying = Copying(Shard(3, g=[("orders", 0, 5)]))
    copying.is_slow = True
    copying.round()
    copying.shards = [Shard(3, g=[("orders", 0, 5)])]
    copying.is_slow = False
    copying.round()
    copying.carry_out(*copying.held.pop())
    copying.bucket = {"g": {("orders", 0): 4}}
    assert not copying.copies.settled("g")
    assert copying.round() == {"g": {("orders", 0): 5}}


@pytest.mark.parametrize("has_peers", [True, False])
def test_a_late_copy_of_a_former_coordinator_replaces_none_of_its_successor(has_peers):
    """It waited for the bucket, or was tried again. An only node has none: where its disk went back, its epochs did so too."""
    store = MemoryStore()
    former, successor = Copying(Shard(3, g=[("orders", 0, 5)])), Copying(Shard(3, g=[("orders", 0, 9)]))
    former.is_slow = successor.is_slow = True
    former.epoch, successor.epoch = 4, 5
    former.roles.has_peers = successor.roles.has_peers = has_peers
    former.round()
    successor.round()
    for copying in (successor, former):
        write_projection(store, copying.held.pop()[0])
    (info,) = store.list(groups_prefix("c"))
    assert [one.offset for one in group_copy_from_bytes(store.get(info.key)[0], info.key).offsets] == [
        9 if has_peers else 5
    ]


@pytest.mark.parametrize("later", [{"g": [("orders", 0, 9)]}, {}], ids=["commits again", "is deleted"])
def test_a_group_has_one_copy_on_its_way_at_a_time(later):
    """A bucket may take longer than a round, and carry two writes out in any order: the older one would stay."""
    shard = Shard(3, g=[("orders", 0, 5)])
    copying = Copying(shard)
    copying.round()
    shard.groups = {"g": [("orders", 0, 7)]}
    copying.is_slow = True
    copying.round()
    shard.groups = later
    copying.round()
    assert len(copying.held) == 1
    copying.is_slow = False
    copying.carry_out(*copying.held.pop())
    assert copying.round() == {"g": {("orders", 0): 9} if later else {}}


def test_a_group_that_is_deleted_before_its_first_turn_has_no_copy_left():
    """An earlier run, or another coordinator, has written one: a restore would bring the group back."""
    shard = Shard(3, g=[("orders", 0, 5)], h=[("local", 0, 1)])
    copying = Copying(shard)
    copying.bucket = {"g": {("orders", 0): 5}}
    copying.copies._begin_round(0.0)
    del shard.groups["g"]
    to_the_end(copying.copies.look())
    assert copying.bucket == {"g": {}}
    shard.groups["short"] = []
    copying.now_s += ROUND_SECONDS
    copying.copies._begin_round(copying.now_s)
    del shard.groups["short"]
    to_the_end(copying.copies.look())
    assert copying.bucket == {"g": {}}, "a group of this run that had nothing copied"


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("later", ["before its first turn", "later"])
def test_a_copy_whose_writing_failed_is_emptied_when_its_group_goes(landed, later):
    """The bucket may have taken it. A restore would bring the group back."""
    shard = Shard(3, g=[("orders", 0, 5)])
    copying = Copying(shard)
    copying.bucket = {"g": {("orders", 0): 4}}
    copying.is_slow = True
    if later == "later":
        copying.round()
    else:
        copying.copies._begin_round(0.0)
    del shard.groups["g"]
    to_the_end(copying.copies.look())
    ((command, answered),) = copying.held
    if landed:
        copying.carry_out(command, lambda _report: None)
    answered(FailedReport("the bucket is away", retriable=True))
    copying.is_slow = False
    copying.round()
    assert copying.round() == {"g": {}}
    copying.is_slow = True
    copying.held.clear()
    copying.round()
    assert copying.held == []


def test_offsets_that_go_back_to_those_of_a_copy_are_written_over_one_that_failed():
    """The failed one may be in the bucket."""
    shard = Shard(3, g=[("orders", 0, 5)])
    copying = Copying(shard)
    copying.round()
    shard.groups["g"] = [("orders", 0, 9)]
    copying.is_slow = True
    copying.round()
    copying.carry_out(copying.held[0][0], lambda _report: None)
    copying.held[0][1](FailedReport("the answer was lost", retriable=True))
    shard.groups["g"] = [("orders", 0, 5)]
    copying.is_slow = False
    assert copying.round() == {"g": {("orders", 0): 5}}


def test_a_shard_that_goes_between_two_looks_is_copied_no_more():
    """Its offsets are older than what the next coordinator may have written."""
    copying = Copying(Shard(3, g=[("orders", 0, 5)]))
    copying.copies._begin_round(0.0)
    copying.shards = []
    to_the_end(copying.copies.look())
    assert copying.bucket == {}


def test_a_look_pauses_within_a_group_and_between_two():
    """All offsets of the cluster are read in each round: together they kept the loop from others for a second."""
    many = [("orders", number, 5) for number in range(3_000)]
    copying = Copying(Shard(3, **{f"g{number}": many for number in range(4)}))
    copying.round()
    copying.now_s += ROUND_SECONDS
    steps = copying.copies.look()
    read = 0

    def counted(group_id, of=Shard.of):
        nonlocal read
        for one in of(copying.shards[0], group_id):
            read += 1
            yield one

    copying.shards[0].of = counted
    seen = [read for _ in steps]
    assert read == 12_000
    assert max(after - before for before, after in pairwise(seen)) <= 500


def test_a_copy_is_of_one_moment_though_it_is_read_with_pauses():
    """Commits and deletions that come meanwhile are those of the next copy."""
    offsets = CommittedOffsets(GroupSettings())

    def put(partition, offset):
        value = pack_offset(StoredOffset(offset, 0, "", 0, NEVER, ZERO_UUID))
        offsets.replay(offset_key("g", "orders", partition), value, None)

    for partition in range(2_000):
        put(partition, 5)
    shard = SimpleNamespace(number=3, groups={"g": None}, offsets=offsets)
    copying = Copying(shard)
    copying.now_s += ROUND_SECONDS
    steps = copying.copies.look()
    next(steps)
    put(1_999, 6)
    put(2_000, 6)
    offsets.replay(offset_key("g", "orders", 0), None, None)
    to_the_end(steps)
    assert copying.bucket == {"g": {("orders", partition): 5 for partition in range(2_000)}}
    changed = {("orders", partition): 6 if partition > 1_998 else 5 for partition in range(1, 2_001)}
    assert copying.round() == {"g": changed}


def test_a_shard_that_goes_while_its_group_is_read_is_copied_no_more():
    """Its offsets are older than what the next coordinator may have written."""
    shard = Shard(3, g=[("orders", 0, 5)], h=[("orders", 0, 6)])
    copying = Copying(shard)
    copying.now_s += ROUND_SECONDS
    steps = copying.copies.look()
    next(steps)
    copying.shards = [Shard(3)]
    to_the_end(steps)
    assert copying.bucket == {}


def test_a_takeover_ends_the_look_that_hears_of_it(caplog):
    """A group whose copy the successor has not written yet may not be copied by its predecessor."""
    copying = Copying(Shard(3, g=[("orders", 0, 5)], h=[("orders", 0, 6)]))
    copying.carry_out = lambda command, answered: answered(FencedReport(command.fields["group"]))
    copying.round()
    copying.carry_out = lambda command, _answered: copying.bucket.update({command.key: command})
    assert copying.round() == {}
    assert caplog.text.count("was taken over") == 1


def test_a_round_tells_of_its_first_failure_and_counts_the_others(caplog):
    """While the bucket is away each group has one, in every round: the log grew by lines without end."""
    groups = {f"g{number}": [("orders", 0, 5)] for number in range(50)}
    copying = Copying(Shard(3, **groups))
    copying.carry_out = lambda _command, answered: answered(FailedReport("away", retriable=True))
    copying.round()
    assert [one.message for one in caplog.records] == ["the offsets of group g0 were not copied to the bucket: away"]
    copying.round()
    assert len(caplog.records) == 3
    assert "the offsets of 50 groups were not copied" in caplog.records[1].message
    del copying.carry_out
    assert copying.round() == {group_id: {("orders", 0): 5} for group_id in groups}
