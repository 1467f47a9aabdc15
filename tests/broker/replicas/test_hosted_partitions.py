"""Partitions open, change and go as the image says."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest
from msgspec import structs

from stratalog.broker.network.server import Server
from stratalog.broker.replicas.in_sync import NO_FOLLOWERS
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.runtime.slices import to_the_end
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.metadata.image.directory_ids import LOST, UNASSIGNED
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.batch import build_control_batch
from stratalog.wire.errors import ErrorCode
from stratalog.wire.records.metadata import RemoveTopicRecord
from stratalog.wire.topic import TopicPartition, uuid_text
from tests.broker.replicas.following import follow_and_open


def test_the_id_of_the_topic_is_in_the_directory(broker):
    """So that files and topics are never mixed up by name."""
    topic_id = broker.create("t").topic_id
    file = Path(broker.directory, "data", "t-0", "partition.metadata")
    assert file.read_text() == f"version: 0\ntopic_id: {uuid_text(topic_id)}"


def test_the_directory_of_a_topic_that_the_cluster_does_not_have_is_kept_and_named(broker, caplog):
    """Deleted while its broker was away: no record is served under that name, and the operator learns where the bytes are."""
    for name in ("t", "u"):
        broker.create(name)
    broker.stop()
    data = Path(broker.directory, "data")
    left = data / "gone-3"
    shutil.copytree(data / "t-0", left)
    (left / "partition.metadata").write_text("version: 0\ntopic_id: AQEBAQEBAQEBAQEBAQEBAQ")
    caplog.clear()
    broker.start()
    (line,) = [record.getMessage() for record in caplog.records if "does not have" in record.getMessage()]
    assert line.startswith(f"1 directories are of partitions whose topics the cluster does not have, {left} first")
    assert left.is_dir()


def test_a_damaged_log_is_led_and_its_damage_reported(broker, caplog):
    """The bytes are kept, the log goes on above what was lost, and nothing damaged is served."""
    broker.create("t")
    for number in range(4):
        broker.produce("t", b"record %d" % number)
    broker.stop()
    data = Path(broker.directory, "data")
    log = data / "t-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[content.index(b"record 2")] ^= 1
    log.write_bytes(content)
    os.unlink(data / ".kafka_cleanshutdown")  # noqa: PTH108 - as a kill would leave it
    for name in ("recovery-point-offset-checkpoint",):
        (data / name).unlink()
    broker.start()
    assert broker.values("t")[:2] == [b"record 0", b"record 1"]
    assert b"secord 2" not in broker.values("t")
    base = broker.produce("t", b"next")[0]
    assert base >= 2
    assert broker.read("t", offset=base)[0].value == b"next"


def stop_uncleanly(broker) -> None:
    """Leave the files of all partitions as a kill before the first checkpoint would."""
    broker.stop()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        Path(broker.directory, "data", name).unlink()


def test_records_of_an_unclean_stop_are_synced_before_they_are_served(broker, monkeypatch):
    """No record that a consumer may see is only in the page cache, whether appends wait for syncs or not."""
    broker.create("t", 3)
    broker.create("relaxed", flush_messages=1 << 40)
    for number in range(3):
        broker.produce("t", b"v", partition=number)
    broker.produce("relaxed", b"v")
    stop_uncleanly(broker)
    synced, at_open, at_accept = set(), [], []
    real_sync, real_accept, real_add = os.fdatasync, Server.accept, PartitionTable.add

    def sync(descriptor):
        real_sync(descriptor)
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(f"{broker.directory}/data/"))  # noqa: PTH115

    def add(table, unified):
        at_open.append(unified.partition.high_watermark)
        real_add(table, unified)

    async def accept(server):
        at_accept.append({one.partition.high_watermark for one in broker.node.partitions})
        at_accept.append(set(synced))
        await real_accept(server)

    monkeypatch.setattr(os, "fdatasync", sync)
    monkeypatch.setattr(PartitionTable, "add", add)
    monkeypatch.setattr(Server, "accept", accept)
    broker.start()
    names = [unified.topic_partition for unified in broker.node.partitions]
    assert at_open == [0] * len(names)
    assert at_accept[0] == {1}
    assert {f"{name}/{0:020d}.log" for name in names} <= at_accept[1]
    assert broker.values("relaxed") == [b"v"]


def test_a_transaction_that_was_decided_before_a_kill_is_decided_after_it(start_node, new_batch):
    """Also where everything had been flushed, so that the high watermark need not move: readers go on at once."""
    producer = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    marker = build_control_batch(1, bytes(6), offset=0, timestamp_ms=0, leader_epoch=0, **producer)
    before = start_node(directory="before")
    before.create("t")
    ended = threading.Event()
    for batch in (new_batch(b"v", key=b"k", base_sequence=0, **producer), marker):
        before.run(before.partition("t").partition.leader.append_as_leader, batch, lambda _: ended.set())
    assert ended.wait(20)
    before.wait_until(lambda: before.partition("t").partition.high_watermark == 2)
    before.run(lambda: to_the_end(before.node.housekeeping._checkpoint()))
    shutil.copytree(f"{before.directory}/data", f"{before.directory}/../after/data")
    after = start_node(directory="after")
    assert after.partition("t").partition.last_stable_offset == 2


def test_an_unclean_start_is_logged_in_one_line(broker, caplog):
    """One line counts all partitions and segments that were recovered."""
    broker.create("t", 20)
    broker.produce("t", b"v")
    stop_uncleanly(broker)
    caplog.clear()
    broker.start()
    module = "stratalog.broker.replicas.recovery_report"
    told = [record.getMessage() for record in caplog.records if record.name == module]
    count = len(broker.node.partitions)
    (line,) = told
    assert line.startswith(f"after an unclean stop {count} partitions were recovered: {count} segments verified")


def elected(broker, leader: int, epoch: int) -> None:
    """The image says that partition 0 has this leader in this epoch."""
    hosted, image = broker.node.hosted, broker.node.image
    topic = image.topics.by_name["t"]
    state = replace(topic.partitions[0], leader=leader, leader_epoch=epoch)
    changed = replace(topic, partitions=MappingProxyType({0: state}))
    broker.run(lambda: follow_and_open(hosted, image, changed))


def test_each_leader_epoch_of_the_image_has_a_role_of_its_own(broker):
    """The log stays open; those who serve the partition hear of it once the role is in place."""
    broker.create("t")
    broker.produce("t", b"a")
    unified = broker.partition("t")
    first, epoch = unified.partition.leader, unified.partition.leader_epoch
    handed = []
    services = broker.node.hosted._services
    broker.node.hosted._services = structs.replace(
        services, on_led=lambda one, led: handed.append((led, one.partition.leader_epoch)), on_released=handed.append
    )
    elected(broker, broker.node.node_id, epoch)
    assert unified.partition.leader is first
    elected(broker, broker.node.node_id, epoch + 3)
    assert broker.partition("t") is unified
    assert unified.partition.leader is not first
    assert handed == [(Led.RENEWED, epoch + 3)]
    assert broker.produce("t", b"b") == [1]
    assert broker.values("t") == [b"a", b"b"]
    assert unified.offset_for_leader_epoch(epoch) == (epoch, 1)


def test_a_leadership_that_is_lost_ends_and_may_come_back(broker, new_batch):
    """Clients hear NOT_LEADER_OR_FOLLOWER meanwhile; the log stays open."""
    broker.create("t")
    broker.produce("t", b"a")
    unified = broker.partition("t")
    epoch, me = unified.partition.leader_epoch, broker.node.node_id
    handed = []
    services = broker.node.hosted._services
    broker.node.hosted._services = structs.replace(
        services,
        on_led=lambda _, led: handed.append(led),
        on_released=lambda one: handed.append(one.partition.leader.epoch),
    )
    elected(broker, me + 1, epoch + 1)
    assert unified.partition.leader is None
    assert broker.append("t", new_batch(b"refused")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    elected(broker, me, epoch + 2)
    assert handed == [epoch, Led.RENEWED]
    assert broker.produce("t", b"b") == [1]
    assert broker.values("t") == [b"a", b"b"]


def test_a_topic_that_is_deleted_while_it_is_due_is_not_opened(broker, monkeypatch):
    """A start with many partitions takes so long that topics go meanwhile: their logs were opened, and stayed."""
    broker.create("t", 3)
    hosted, image = broker.node.hosted, broker.node.image
    topic = image.topics.by_name["t"]
    for number in range(3):
        monkeypatch.setattr(hosted.table, "_by_name", {})
        broker.run(lambda number=number: hosted.table.due.add("t", topic.topic_id, number))
    gone = structs.replace(hosted._services, image=lambda: image.apply([RemoveTopicRecord(topic_id=topic.topic_id)]))
    monkeypatch.setattr(hosted, "_services", gone)
    broker.run(lambda: list(hosted.opening()))
    assert len(hosted.table) == 0
    assert not hosted.table.due


def test_a_partition_that_is_due_is_led_elsewhere_and_comes_back(broker):
    """Only the newest image counts."""
    broker.create("t")
    hosted, topic = broker.node.hosted, broker.node.image.topics.by_name["t"]
    other = replace(topic, name="u", topic_id=b"u" * 16)

    def follow(leader):
        hosted._follow(broker.node.image, other, 0, replace(topic.partitions[0], leader=leader))
        return hosted.table.due.holds("u", 0)

    assert broker.run(lambda: [follow(one) for one in (1, 2, 1, -1)]) == [True, False, True, False]


def test_the_log_of_a_deleted_topic_has_no_role_of_the_one_that_was_made_again(broker):
    """Roles are taken anew beside an image that is still being followed: what was acknowledged then went with the old log."""
    broker.create("t")
    hosted, topic = broker.node.hosted, broker.node.image.topics.by_name["t"]
    again = replace(topic, topic_id=b"a" * 16)

    def follow():
        hosted._follow(broker.node.image, again, 0, topic.partitions[0])
        return hosted.table.due.holds("t", 0)

    broker.run(lambda: list(hosted.resigning()))
    assert broker.run(follow) is False
    assert broker.partition("t").partition.leader is None
    broker.run(lambda: list(hosted.deleting("t", topic.topic_id)))
    assert broker.run(follow) is True


def test_a_role_of_after_a_lost_registration_stays(broker):
    """The leaderships of before end one by one, and an image may come in between."""
    broker.create("t", 2)
    hosted = broker.node.hosted
    resigning = hosted.resigning()
    broker.run(lambda: next(resigning))
    elected_both = {
        number: replace(one, leader_epoch=9) for number, one in broker.node.image.topics.by_name["t"].partitions.items()
    }
    topic = replace(broker.node.image.topics.by_name["t"], partitions=MappingProxyType(elected_both))
    broker.run(lambda: follow_and_open(hosted, broker.node.image, topic))
    broker.run(lambda: list(resigning))
    assert [broker.partition("t", number).partition.leader is not None for number in (0, 1)] == [True, True]


def test_a_resignation_that_has_to_wait_ends_no_later_role(broker):
    """Its first step has no turn before the next image: the roles of then stay."""
    broker.create("t", 2)
    hosted = broker.node.hosted
    resigning = hosted.resigning()
    topic = broker.node.image.topics.by_name["t"]
    elected = {number: replace(one, leader_epoch=9) for number, one in topic.partitions.items()}
    broker.run(lambda: follow_and_open(hosted, broker.node.image, replace(topic, partitions=MappingProxyType(elected))))
    broker.run(lambda: list(resigning))
    assert [broker.partition("t", number).partition.leader is not None for number in (0, 1)] == [True, True]


def test_places_of_replicas_are_reported_until_the_image_names_them(broker):
    """A new replica, one that the image has elsewhere; not one whose topic is gone."""
    told, hosted = {}, broker.node.hosted

    class Placements:
        def placed(self, topic_id, partition, directory):
            told[topic_id, partition] = directory

        def gone(self, topic_id, partition):
            told.pop((topic_id, partition), None)

    hosted.placing._placements = Placements()
    broker.create("t", 2)
    topic = broker.node.image.topics.by_name["t"]
    (mine,) = [one.directory_id for one in broker.node.directories.online]
    assert told == {}, "the controller has named the only directory"

    def follow(directory):
        states = {number: replace(one, directories=(directory,)) for number, one in topic.partitions.items()}
        broker.run(
            lambda: follow_and_open(hosted, broker.node.image, replace(topic, partitions=MappingProxyType(states)))
        )

    follow(UNASSIGNED)
    assert told == {(topic.topic_id, number): mine for number in (0, 1)}
    follow(mine)
    assert told == {}
    follow(b"e" * 16)
    assert len(told) == 2
    broker.run(lambda: list(hosted.deleting("t", topic.topic_id)))
    assert told == {}


def test_a_gone_log_that_no_directory_can_tell_of_ends_the_registration(broker):
    """The cluster's metadata have no directories: the broker registers as one that has lost data."""
    broker.create("t")
    hosted, told = broker.node.hosted, []
    hosted._services = structs.replace(hosted._services, on_data_lost=lambda: told.append(True))
    topic = broker.node.image.topics.by_name["t"]
    me = broker.node.node_id
    state = PartitionImage((me, me + 1), (me,), me, directories=(LOST, b"o" * 16))
    other = replace(topic, name="u", topic_id=b"u" * 16, partitions=MappingProxyType({0: state}))
    broker.run(lambda: follow_and_open(hosted, broker.node.image, other))
    assert told == [True]
    assert hosted.table.get(TopicPartition("u", 0)) is None


def with_replicas(broker, replicas):
    """The topic as an image would have it with these replicas."""
    topic = broker.node.image.topics.by_name["t"]
    return topic, replace(topic.partitions[0], replicas=replicas)


@pytest.mark.parametrize(("replicas", "flush", "told"), [((1,), 9, 0), ((1, 2), 1, 0), ((1, 2), 9, 1)])
def test_a_replica_that_acknowledges_before_its_sync_is_reported(broker, replicas, flush, told):
    """A kill may then take what was acknowledged; that of a single replica is no other's concern."""
    broker.create("t")
    hosted, heard = broker.node.hosted, []
    hosted._services = structs.replace(hosted._services, on_unsynced=lambda: heard.append(1))
    topic, state = with_replicas(broker, replicas)
    partition = broker.partition("t", 0).partition
    broker.run(lambda: partition.update_config(structs.replace(partition.log.config, flush_messages=flush)))
    broker.run(lambda: hosted._follow(broker.node.image, topic, 0, state))
    assert len(heard) == told


def test_a_damaged_copy_takes_nothing_until_a_committed_record_has_it_as_lost(broker):
    """A leader serves on, a follower rests; then it is cut, and copied from the new leader."""
    broker.create("t")
    for number in range(4):
        broker.produce("t", b"value %d" % number)
    hosted, unified, me = broker.node.hosted, broker.partition("t"), broker.node.node_id
    followed, placed = [], []
    copying = SimpleNamespace(
        asking=NO_FOLLOWERS,
        broker_epoch=broker.node.image.brokers.brokers[me].epoch,
        follow=lambda role: followed.append(role.position.offset),
        release=lambda _key: followed.append("released"),
    )
    hosted._services = structs.replace(hosted._services, copying=copying)
    hosted.placing._placements = SimpleNamespace(placed=lambda *told: placed.append(told[2]), gone=lambda *_: None)
    topic = broker.node.image.topics.by_name["t"]
    (mine,) = topic.partitions[0].directories

    def follow(leader, in_sync, epoch, directory=mine):
        directories = (directory, b"o" * 16)
        state = PartitionImage((me, me + 1), in_sync, leader, leader_epoch=epoch, directories=directories)
        broker.run(lambda: hosted._follow(broker.node.image, topic, 0, state))

    path = Path(unified.log.directory, "00000000000000000000.log")
    content = bytearray(path.read_bytes())
    content[content.index(b"value 2")] ^= 1
    path.write_bytes(content)
    follow(me + 1, (me + 1, me), 8)
    assert followed == [4]
    broker.run(lambda: broker.node.report_corruption(unified, UnreadableBatch(str(path), len(content) - 1, "")))
    assert unified.partition.is_damaged
    follow(me + 1, (me + 1, me), 9)
    assert unified.partition.follower is None
    follow(me + 1, (me + 1,), 10)
    assert unified.partition.follower is None
    assert placed == [LOST, LOST]
    follow(me + 1, (me + 1,), 11, LOST)
    assert unified.partition.follower is not None
    assert followed == [4, "released", 2]
    assert placed[2:] == [mine]
    assert unified.log.log_end_offset == 2


def test_copies_into_a_failed_directory_end(broker):
    """Their syncs never end, and a fetch from the same leader waits for those of all its partitions."""
    broker.create("t")
    hosted, unified, me = broker.node.hosted, broker.partition("t"), broker.node.node_id
    heard = []
    copying = SimpleNamespace(
        asking=NO_FOLLOWERS,
        broker_epoch=broker.node.image.brokers.brokers[me].epoch,
        follow=lambda role: heard.append(role.epoch),
        release=lambda _key: heard.append("released"),
    )
    hosted._services = structs.replace(hosted._services, copying=copying)
    topic = broker.node.image.topics.by_name["t"]

    def follow(epoch):
        state = PartitionImage((me, me + 1), (me + 1,), me + 1, leader_epoch=epoch)
        broker.run(lambda: hosted._follow(broker.node.image, topic, 0, state))

    follow(8)
    writer = unified.partition.directory
    writer.offline = OSError(5, "Input/output error")
    broker.run(lambda: hosted.directory_failed(writer))
    assert (heard, unified.partition.follower) == ([8, "released"], None)
    follow(9)
    assert (heard, unified.partition.follower) == ([8, "released"], None)
    writer.offline = None
