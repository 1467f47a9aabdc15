"""The whole broker: starts, stops, restarts, and failures of its disks."""

import asyncio
import errno
import itertools
import socket
import threading
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from stratalog.broker.replicas.hosted_partitions import HostedPartitions
from stratalog.client.admin import alter_topic_configs
from stratalog.client.client import BrokerUnavailable
from stratalog.client.records import fetch
from stratalog.hot.directory import OFFLINE
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratalog.wire.records.metadata import RemoveTopicRecord
from stratalog.wire.topic import TopicPartition


def get(node, path: str) -> tuple[int, str]:
    """Status and text of an HTTP answer."""
    host, port = node.node.http_address
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_restart_keeps_everything(broker):
    """Records, settings, ids, log starts, epochs' ends and the cluster's id."""
    topic_id = broker.create("t", 3, segment_bytes=1 << 20, retention_ms=-1).topic_id
    for partition in range(3):
        for number in range(4):
            broker.produce("t", *[b"%d-%d" % (partition, number)] * 3, b"x" * 300_000, partition=partition)
    before = [broker.values("t", partition) for partition in range(3)]
    segments = [one.base_offset for one in broker.partition("t").log.segments()]
    cluster_id = broker.node.cluster_id
    for _ in range(3):
        broker.restart()
        assert [broker.values("t", partition) for partition in range(3)] == before
        assert [one.base_offset for one in broker.partition("t").log.segments()] == segments
        assert broker.node.image.topics.by_name["t"].topic_id == topic_id
        assert broker.partition("t").log.config.retention_ms == -1
        assert broker.node.cluster_id == cluster_id
        assert broker.partition("t").log.recovery.damaged_offset is None


def threads():
    """Those of this process, but not those that wait some 20 ms for the kernel to take an idle queue back."""
    return {one for one in threading.enumerate() if one.name != "kernel-sync-end"}


def test_a_start_that_fails_can_be_repeated(start_node, watched_files):
    """A start that fails gives back all it had taken: ports, locks, threads, workers."""
    node = start_node(files=watched_files)
    node.create("t")
    node.produce("t", b"kept")
    node.stop()
    before = threads()
    watched_files.fail("write", "quorum-state", errno.EIO)
    for _ in range(2):
        with pytest.raises(OSError, match="quorum-state"):
            node.start()
        node.stop()
    assert threads() <= before
    watched_files.faults.clear()
    node.start()
    assert node.values("t") == [b"kept"]


def test_a_port_of_http_in_use_ends_a_start_before_it_changes_anything(start_node, monkeypatch):
    """A broker that had recovered, led and then ended would do so at each attempt to start it again."""
    node = start_node()
    node.stop()
    mark = Path(node.directory, "data", ".kafka_cleanshutdown")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = structs.replace(node.config(), http_port=taken.getsockname()[1])
        monkeypatch.setattr(node, "config", lambda: config)
        with pytest.raises(OSError, match=r"stratalog\.http\.listener"):
            node.start()
    node.stop()
    assert mark.exists()


def test_two_brokers_never_share_a_directory(start_node):
    """The second one does not start, the first one goes on."""
    first = start_node()
    first.create("t")
    second = start_node(start=False)
    with pytest.raises(Invalid, match="in use"):
        second.start()
    assert first.produce("t", b"v") == [0]


def test_a_directory_of_another_node_is_refused(start_node):
    """With both ids in the message, and the right node starts as before."""
    node = start_node()
    node.create("t")
    node.stop()
    stranger = start_node(start=False, node_id=77)
    with pytest.raises(Invalid, match="77"):
        stranger.start()
    node.start()
    assert "t" in node.node.image.topics.by_name


def test_a_failed_fsync_takes_the_directory_offline(start_node, watched_files, tmp_path):
    """Its partitions answer KAFKA_STORAGE_ERROR and have no leader; the other directory goes on."""
    node = start_node(files=watched_files, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    node.create("t", 4)
    for partition in range(4):
        node.produce("t", b"first", partition=partition)
    bad = next(number for number in range(4) if node.partition("t", number).partition.directory.path.endswith("/b"))
    good = next(number for number in range(4) if node.partition("t", number).partition.directory.path.endswith("/a"))
    watched_files.fail("sync", f"{tmp_path}/b/t-{bad}/")
    answer = node.append("t", node_batch(), partition=bad)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    watched_files.faults.clear()
    assert (tmp_path / "b" / OFFLINE).exists()
    assert get(node, "/readyz")[0] == 503
    topic = node.link().call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12).topics[0]
    me = node.node.node_id
    states = {one.partition_index: (one.leader_id, one.offline_replicas) for one in topic.partitions}
    assert states[bad] == (-1, [me])
    assert states[good] == (me, [])
    synced = [path for call, path in watched_files.calls if call == "sync" and f"/b/t-{bad}/" in path]
    with pytest.raises(KafkaError):
        fetch(node.client(timeout_seconds=0.2), {TopicPartition("t", bad): 0})
    assert node.produce("t", b"second", partition=good) == [1]
    assert [path for call, path in watched_files.calls if call == "sync" and f"/b/t-{bad}/" in path] == synced
    assert not node.node.failed.is_set()
    node.restart()
    assert not (tmp_path / "b" / OFFLINE).exists()
    assert node.values("t", bad)[0] == b"first"
    assert node.produce("t", b"again", partition=bad)
    assert get(node, "/readyz")[0] == 200


def node_batch():
    from stratalog.wire.batch import Record, build_batch

    return build_batch([Record(0, 1_700_000_000_000, None, b"v")])


def test_the_last_directory_lost_ends_the_broker(start_node, watched_files):
    """There is nothing left to serve."""
    node = start_node(files=watched_files)
    node.create("t")
    node.produce("t", b"first")
    watched_files.fail("sync", "/t-0/")
    assert node.append("t", node_batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.wait_until(node.node.failed.is_set)
    watched_files.faults.clear()


def test_a_sync_that_fails_while_the_broker_stops_spoils_the_clean_mark(start_node, watched_files):
    """The kernel tells of lost pages once; who hears of it decides whether the next start trusts the files."""
    node = start_node(files=watched_files)
    node.create("t")
    node.produce("t", b"first")
    held = threading.Event()
    original = watched_files.note

    def note(call, path):
        if call == "sync" and "/t-0/" in path and path.endswith(".log"):
            watched_files.note = original
            held.wait(10)
            raise OSError(errno.EIO, "lost pages")
        original(call, path)

    watched_files.note = note
    assert node.append("t", node_batch(), acks=1).error_code == 0
    threading.Timer(0.1, held.set).start()
    node.stop()
    assert not Path(node.directory, "data", ".kafka_cleanshutdown").exists()
    assert Path(node.directory, "data", OFFLINE).exists()


def test_a_full_disk_refuses_appends_and_serves_reads_until_there_is_room(start_node, watched_files):
    """No hole is left, what was acknowledged stays, and nothing that was refused shows up later."""
    node = start_node(files=watched_files, replica_high_watermark_checkpoint_interval_ms=50)
    node.create("t", segment_bytes=1 << 20)
    acknowledged = [b"%d" % node.produce("t", b"0")[0]]
    watched_files.free_bytes = 3000
    refused = 0
    for number in range(1, 40):
        answer = node.append("t", batch_of(b"%d" % number + b" " * 150))
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            refused += 1
        else:
            acknowledged.append(b"%d" % number)
    assert refused > 10
    assert [value.strip() for value in node.values("t")] == acknowledged
    watched_files.calls.clear()
    node.wait_until(lambda: ("open", f"{node.directory}/data/replication-offset-checkpoint.tmp") in watched_files.calls)
    assert node.node.not_ready() == []
    watched_files.free_bytes = None
    node.wait_until(lambda: not node.partition("t").partition.directory._refused)
    assert node.produce("t", b"more") == [len(acknowledged)]
    node.restart()
    assert [value.strip() for value in node.values("t")] == [*acknowledged, b"more"]


def batch_of(value: bytes):
    from stratalog.wire.batch import Record, build_batch

    return build_batch([Record(0, 1_700_000_000_000, None, value)])


def test_a_partition_that_found_no_room_opens_later(start_node, watched_files):
    """A topic created on a full disk can be written to once there is room."""
    node = start_node(files=watched_files)
    watched_files.fail("open", "/late-0/", errno.ENOSPC)
    node.create("late")
    assert len(node.node.partitions) == 0
    watched_files.faults.clear()
    node.wait_until(lambda: len(node.node.partitions) == 1)
    assert node.produce("late", b"v") == [0]


def test_a_stop_answers_or_drops_what_waits(start_node):
    """A long poll does not hold the broker up, and its client sees the connection end or an answer."""
    node = start_node()
    topic_id = node.create("t").topic_id
    link = node.link()
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[wanted])]
    )
    link.send(request, 18)
    node.wait_until(lambda: len(node.node.purgatory) == 1)
    node._opened.remove(link)
    node.stop()
    try:
        assert link.receive().error_code == 0
    except BrokerUnavailable:
        pass
    finally:
        link.close()


def test_http_tells_of_life_readiness_and_figures(broker):
    """Kafka's metric names among them."""
    broker.create("t")
    broker.produce("t", b"v")
    assert get(broker, "/livez")[0] == 200
    assert get(broker, "/readyz")[0] == 200
    status, text = get(broker, "/metrics")
    assert status == 200
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 1.0' in text


def test_each_listener_tells_its_own_address(start_node):
    """Metadata answers with the port that the client came through."""
    node = start_node(
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
    )
    from stratalog.client.link import BrokerLink

    for _, port in node.node.server.addresses.values():
        with BrokerLink("127.0.0.1", port) as link:
            (told,) = link.call(MetadataRequest(topics=[]), 12).brokers
        assert told.port == port


def test_topic_settings_reach_partitions_that_are_led(broker):
    """And only those of the topic that was changed."""
    broker.create("t", 2)
    broker.create("u")
    alter_topic_configs(broker.client(), "t", set_to={"segment.ms": "12345"})
    assert [broker.partition("t", number).log.config.segment_ms for number in (0, 1)] == [12345, 12345]
    assert broker.partition("u").log.config.segment_ms == 604_800_000


def test_many_partitions_are_opened_in_many_turns(broker, monkeypatch):
    """Other clients are served in between; the answer comes when the last one is open."""
    opened, turn = Counter(), itertools.count()
    current = 0
    open_one = HostedPartitions._open

    def tick():
        nonlocal current
        current = next(turn)
        asyncio.get_running_loop().call_soon(tick)

    def noted(hosted, *arguments):
        opened[current] += 1
        open_one(hosted, *arguments)

    slices = broker.node.dispatcher.slices
    monkeypatch.setattr(slices, "_monotonic", lambda: sum(opened.values()) * 0.003)  # each takes 3 of 10 ms
    monkeypatch.setattr(HostedPartitions, "_open", noted)
    broker.run(tick)
    broker.create("t", 50)
    assert sum(opened.values()) == len(broker.node.partitions) == 50
    assert max(opened.values()) <= 4


def test_a_topic_is_deleted_by_a_controller_whose_broker_has_opened_no_partitions_yet(broker):
    """A node of several is elected before its broker has joined; it refused deletions with UNKNOWN_SERVER_ERROR."""
    topic_id = broker.create("t", 1).topic_id
    hosted = vars(broker.node).pop("hosted")
    try:
        broker.node._before_records(broker.node.image, [RemoveTopicRecord(topic_id=topic_id)])
    finally:
        broker.node.hosted = hosted
    assert broker.node.deleted_archives.pending == []


def test_ids_that_would_look_like_flags_are_not_given(broker):
    """No topic id prints with a leading dash."""
    from stratalog.wire.topic import uuid_text

    assert not any(uuid_text(broker.node.new_topic_id()).startswith("-") for _ in range(500))
