"""Topics as they were at a cut or at a time, on a mounted bucket and on the broker that writes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stratalog.broker.views import views
from stratalog.client.admin import create_topic
from stratalog.client.records import NewRecord
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.messages.projection import topic_projection, write_projection
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut, delete_cut, end_at, read_cut
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.broker.nodes_of_a_cluster import RunningNodes

ORDERS = os.urandom(16)
START_MS = 1_700_000_000_000


class Bucket:
    """A directory with archived topics: one object at a time, batches of four records, a second apart."""

    def __init__(self, root) -> None:
        self.store = LocalStore(str(root), sync=False)
        self.end = {0: 0, 1: 0}

    def archive(self, number: int, count: int, **options) -> None:
        """Archive ``count`` more records of a partition: values are offsets."""
        offset, data = self.end[number], b""
        while offset < self.end[number] + count:
            records = [Record(at, START_MS + 1000 * at, None, b"%d" % at) for at in range(offset, offset + 4)]
            data += build_batch(records, leader_epoch=0, **options)
            offset += 4
        self.end[number] = offset
        archive_log(self.store, PartitionId("orders", ORDERS, number), [data], now_ms=1, chunk_bytes=300)


@pytest.fixture
def bucket(tmp_path):
    """Three objects of 40 records in partition 0, of several chunks each, and one of 8 records in partition 1."""
    made = Bucket(tmp_path / "bucket")
    for _ in range(3):
        made.archive(0, 40)
    made.archive(1, 8)
    return made


@pytest.fixture
def mounted(start_node, bucket):
    """A broker that serves the bucket for reading."""
    return start_node(stratalog_read_only="true")


def values(count, start=0):
    """The values at the offsets from ``start`` on."""
    return [b"%d" % at for at in range(start, count)]


def at(offset):
    """A name for the time of a record."""
    return f"orders@{START_MS + 1000 * offset}"


@pytest.mark.story
def test_a_view_of_a_time_ends_exactly_before_its_first_record(mounted):
    """Inside a batch, a chunk, an object, and on their borders; from any offset; by time, too."""
    for end in (1, 4, 7, 36, 39, 40, 41, 77, 80, 118, 119):
        name = at(end)
        mounted.client().refresh([name])
        assert mounted.values(name) == values(end)
        assert mounted.values(name, offset=end // 2) == values(end, end // 2)
        assert [mounted.end(name, timestamp=kind) for kind in (-2, -1, -3)] == [0, end, end - 1]
        assert mounted.end(name, timestamp=START_MS + 1000 * (end - 1)) == end - 1
        assert mounted.end(name, timestamp=START_MS + 1000 * end) == -1
        assert mounted.values(name, partition=1) == values(min(end, 8))


@pytest.mark.story
def test_a_view_of_a_cut_does_not_change_whatever_the_archive_does(mounted, bucket):
    """Later archived records are not in it; records that retention has removed meanwhile are."""
    create_cut(bucket.store, "nightly", now_ms=7)
    create_cut(bucket.store, "early", now_ms=8, end_of=end_at(START_MS + 1000 * 43))
    bucket.archive(0, 40)
    partition = PartitionId("orders", ORDERS, 0)
    claimant = read_manifest(bucket.store, partition).manifest.claimant
    change_manifest(
        bucket.store, partition, lambda m: set_log_start(m, claimant, 90, now_ms=9, reason="deleted records")
    )
    mounted.client().refresh(["orders@nightly", "orders@early"])
    assert mounted.values("orders@nightly") == values(120)
    assert mounted.values("orders@nightly", 1) == values(8)
    assert mounted.values("orders@early") == values(43)
    assert mounted.values("orders..at..early") == values(43)


def test_views_are_in_no_list_and_cannot_be_changed(mounted):
    """A request for every topic does not list them; writes are refused."""
    name = at(7)
    client = mounted.client()
    client.refresh([name])
    assert [topic.name for topic in client.refresh()] == ["orders"]
    with pytest.raises(KafkaError) as caught:
        mounted.produce(name, b"no")
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_a_name_that_is_no_view_is_an_unknown_topic(mounted):
    """No such cut, no such topic, no time; nothing is created for having been asked for."""
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    for name, code in (
        ("orders@nightly", unknown),
        ("others@2026-11-01", unknown),
        ("orders@", invalid),
        ("@2026-11-01", invalid),
        ("orders@20261399", invalid),
    ):
        with pytest.raises(KafkaError) as caught:
            mounted.client().refresh([name])
        assert caught.value.code is code


@pytest.mark.story
def test_a_cut_that_is_deleted_is_shown_no_longer(mounted, bucket, monkeypatch):
    """It is looked for again now and then; another one of its name is another view."""
    monkeypatch.setattr(views, "_CUT_CHECKED_MS", 0)
    cut = create_cut(bucket.store, "nightly", now_ms=7)
    client = mounted.client()
    (first,) = client.refresh(["orders@nightly"])
    (again,) = client.refresh(["orders@nightly"])
    assert first.topic_id == again.topic_id
    delete_cut(bucket.store, cut, now_ms=8)
    with pytest.raises(KafkaError):
        client.refresh(["orders@nightly"])
    bucket.archive(0, 4)
    create_cut(bucket.store, "nightly", now_ms=9)
    (other,) = client.refresh(["orders@nightly"])
    assert other.topic_id != first.topic_id
    assert mounted.end("orders@nightly") == 124


@pytest.mark.story
def test_few_views_are_kept_open(mounted, monkeypatch):
    """The one asked for longest ago goes, and is opened again on demand."""
    monkeypatch.setattr(views, "_OPEN_MAX", 2)
    client = mounted.client()
    for offset in (4, 8, 12):
        client.refresh([at(offset)])
    table = mounted.node.partitions
    assert [table.has_view(at(offset), 0) for offset in (4, 8, 12)] == [False, True, True]
    client.refresh([at(4)])
    assert mounted.values(at(4)) == values(4)


@pytest.mark.story
def test_a_damaged_copy_is_not_shown(mounted, bucket, caplog):
    """The client comes again; the log says why."""
    cut = create_cut(bucket.store, "nightly", now_ms=7)
    bucket.store.put(cut.manifest_key(cut.partitions[0].partition), b"{}")
    with pytest.raises(KafkaError) as caught:
        mounted.client().refresh(["orders@nightly"])
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert "SHA-256 differs" in caplog.text


@pytest.mark.story
def test_a_time_at_the_border_of_the_archive_is_shown_and_one_behind_it_is_not(start_node, caplog):
    """Records that are only on the local disk are of that time or later; a time one record later would miss one."""
    node = start_node()
    node.create("events", remote_storage_enable="true", internal_segment_bytes=1000, retention_ms=-1)
    for number in range(40):
        node.produce("events", NewRecord(b"%03d" % number * 30, START_MS + number, partition=0))
    log = node.partition("events").log
    node.wait_until(lambda: node.partition("events").remote.end_offset == log.active_base_offset)
    end = node.run(lambda: node.partition("events").remote.end_offset)
    assert end < 39
    name = f"events@{START_MS + end}"
    node.client().refresh([name])
    assert node.values(name) == node.values("events")[:end]
    with pytest.raises(KafkaError):
        node.client().refresh([f"events@{START_MS + end + 1}"])
    assert f"offsets [{end}, {end + 1}) of events-0" in caplog.text
    assert f"read events itself up to offset {end + 1}" in caplog.text


@pytest.fixture
def nodes(tmp_path):
    """A controller and two brokers with one bucket."""
    made = RunningNodes(
        tmp_path, {100: "controller", 1: "broker", 2: "broker"}, **{"remote.log.storage.system.enable": "true"}
    )
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    for member in made.members.values():
        Path(member.directory, "bucket").symlink_to(bucket)
    yield made.start()
    made.stop()


@pytest.mark.story
def test_every_broker_knows_what_is_not_archived_yet(nodes, caplog):
    """Also one that has no replica: the leader is asked. Each shows archived records; without the leader none shows a later time."""
    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "1000", "retention.ms": "-1"}
    create_topic(nodes[1].client(), "events", partition_count=1, replication_factor=1, configs=configs)
    for node in (nodes[1], nodes[2]):
        node.wait_until(lambda node=node: "events" in node.node.image.topics.by_name)
    leader_id = nodes[1].node.image.topics.by_name["events"].partitions[0].leader
    leader, other = nodes[leader_id], nodes[3 - leader_id]
    for number in range(40):
        leader.produce("events", NewRecord(b"%03d" % number * 30, START_MS + number, partition=0))
    log = leader.partition("events").log
    leader.wait_until(lambda: leader.partition("events").remote.end_offset == log.active_base_offset)
    end = leader.run(lambda: leader.partition("events").remote.end_offset)
    assert end < 39
    for node in (leader, other):
        name = f"events@{START_MS + end}"
        node.client().refresh([name])
        assert node.values(name) == [b"%03d" % number * 30 for number in range(end)]
        for later in (START_MS + end + 1, START_MS + 3_600_000):
            with pytest.raises(KafkaError) as caught:
                node.client().refresh([f"events@{later}"])
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert caplog.text.count(f"offsets [{end}, {end + 1}) of events-0 are from before that time") == 2
    assert caplog.text.count(f"offsets [{end}, 40) of events-0 are from before that time") == 2
    leader.stop()
    other.wait_until(lambda: other.node.image.topics.by_name["events"].partitions[0].leader < 0)
    with pytest.raises(KafkaError) as caught:
        other.client().refresh([f"events@{START_MS + end + 1}"])
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.story
def test_the_writing_broker_shows_its_archive(start_node, caplog):
    """A cut, a time that is archived; a time that is not wholly archived yet is refused."""
    node = start_node()
    node.create("events", remote_storage_enable="true", internal_segment_bytes=1000)
    for number in range(40):
        node.produce("events", b"%03d" % number * 30)
    log = node.partition("events").log
    node.wait_until(lambda: node.partition("events").remote.end_offset == log.active_base_offset)
    end = node.run(lambda: node.partition("events").remote.end_offset)
    store = LocalStore(f"{node.directory}/bucket", sync=False)
    create_cut(store, "now", now_ms=1)
    node.client().refresh(["events@now"])
    assert node.values("events@now") == node.values("events")[:end]
    times = [record.timestamp_ms for record in node.read("events")]
    middle = next(at for at in range(end // 2, end) if times[at] > times[at - 1])
    name = f"events@{times[middle]}"
    node.client().refresh([name])
    assert node.values(name) == node.values("events")[:middle]
    with pytest.raises(KafkaError, match="The log of the broker says why") as caught:
        node.client().refresh([f"events@{times[-1] + 3_600_000}"])
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert f"offsets [{end}, {len(times)}) of events-0 are from before that time" in caplog.text
    assert read_cut(store, "now").partitions[0].end_offset == end


@pytest.mark.story
def test_a_cut_outlives_its_topic(start_node, bucket):
    """The topic was deleted, and is none any more; the cut still shows it."""
    create_cut(bucket.store, "nightly", now_ms=7)
    deleted = topic_projection("orders", ORDERS, partitions=2, configs={}, cluster_id="", state="deleted")
    write_projection(bucket.store, deleted)
    node = start_node(stratalog_read_only="true")
    assert node.client().refresh() == []
    node.client().refresh(["orders@nightly"])
    assert node.values("orders@nightly") == values(120)
