"""Partitions open, change and go as the image says."""

import errno
import os
import shutil
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from stratalog.broker.network.server import Server
from stratalog.broker.replicas.led_partitions import Led
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.runtime.slices import to_the_end
from stratalog.client.admin import delete_topics
from stratalog.hot.directory import LogDirectory
from stratalog.wire.batch import build_control_batch
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError


def test_partitions_are_spread_over_the_directories(start_node, tmp_path):
    """And open where they lie after a restart, whatever the counts are then."""
    names = ("a", "b", "c")
    node = start_node(log_dirs=",".join(str(tmp_path / name) for name in names))
    node.create("t", 6)

    def places():
        return {number: node.partition("t", number).partition.directory.path for number in range(6)}

    before = places()
    assert sorted(before.values()) == sorted(str(tmp_path / name) for name in names for _ in range(2))
    node.produce("t", b"v", partition=5)
    node.restart()
    assert places() == before
    assert node.values("t", 5) == [b"v"]


def test_the_id_of_the_topic_is_in_the_directory(broker):
    """So that files and topics are never mixed up by name."""
    from stratalog.wire.topic import uuid_text

    topic_id = broker.create("t").topic_id
    text = Path(broker.directory, "data", "t-0", "partition.metadata").read_text()
    assert text == f"version: 0\ntopic_id: {uuid_text(topic_id)}"


def test_files_of_another_topic_of_the_name_are_set_aside(broker):
    """A deletion that a crash cut off between the record and the files loses nothing and shows nothing."""
    broker.create("t")
    broker.produce("t", b"old")
    data = Path(broker.directory, "data")
    saved = {path.name: path.read_bytes() for path in (data / "t-0").iterdir()}
    delete_topics(broker.client(), ["t"])
    broker.stop()
    (data / "t-0").mkdir()
    for name, content in saved.items():
        (data / "t-0" / name).write_bytes(content)
    broker.start()
    broker.create("t")
    assert broker.values("t") == []
    (stray,) = data.glob("t-0.*-stray")
    assert b"old" in (stray / "00000000000000000000.log").read_bytes()
    assert broker.produce("t", b"new") == [0]


@pytest.mark.parametrize("harm", ["directory", "error", "mistake"])
def test_one_partition_that_cannot_be_opened_stops_no_other(broker, caplog, monkeypatch, harm):
    """It is offline with an error that names it; the rest of its directory is served."""
    for topic in ("bad", "good"):
        broker.create(topic)
        broker.produce(topic, b"v")
    broker.stop()
    data = Path(broker.directory, "data")
    if harm == "directory":
        shutil.rmtree(data / "bad-0")
        (data / "bad-0").write_bytes(b"")
        (data / ".kafka_cleanshutdown").unlink()
    else:
        real = LogDirectory.open_log

        def open_log(directory, name, *arguments, **options):
            if name.topic == "bad":
                raise Corrupt("bad-0 is bad") if harm == "error" else ValueError("a mistake")
            return real(directory, name, *arguments, **options)

        monkeypatch.setattr(LogDirectory, "open_log", open_log)
    broker.start()
    assert broker.values("good") == [b"v"]
    assert broker.produce("good", b"w") == [1]
    monkeypatch.setattr(broker, "client", partial(broker.client, timeout_seconds=1.0))  # it waits for a leader
    with pytest.raises(KafkaError) as caught:
        broker.produce("bad", b"w")
    assert caught.value.code in {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LEADER_NOT_AVAILABLE}
    (told,) = [one for one in caplog.records if "bad-0 cannot be opened" in one.getMessage()]
    assert "the other partitions are served" in told.getMessage()
    assert bool(told.exc_info) is (harm == "mistake")


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


def test_an_unclean_start_is_logged_in_one_line(broker, caplog):
    """However many partitions were recovered."""
    broker.create("t", 20)
    broker.produce("t", b"v")
    stop_uncleanly(broker)
    caplog.clear()
    broker.start()
    told = [
        record.getMessage() for record in caplog.records if record.name == "stratalog.broker.replicas.led_partitions"
    ]
    count = len(broker.node.partitions)
    (line,) = told
    assert line.startswith(f"after an unclean stop {count} partitions were recovered: {count} segments verified")


def test_every_partition_is_counted_once(broker):
    """Deleting gives its place back."""
    broker.create("a", 2)
    broker.create("b", 3)
    assert len(broker.node.partitions) == 5
    delete_topics(broker.client(), ["a"])
    assert len(broker.node.partitions) == 3
    assert sum(broker.node.led._counts.values()) == 3


def test_a_partition_that_finds_no_room_is_opened_later(start_node, watched_files):
    """Until then its clients hear of the disk; what was lost with a wiped disk is never taken for new."""
    seen = []
    node = start_node(files=watched_files)
    node.create("t")
    node.produce("t", b"v")
    node.stop()
    shutil.rmtree(Path(node.directory, "data", "t-0"))
    watched_files.fail("open", "/t-0/", errno.ENOSPC)
    node.start()
    node.node.led._services = replace(node.node.led._services, on_led=lambda _, led: seen.append(led))
    with pytest.raises(KafkaError) as refused:
        node.partition("t")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    watched_files.faults.clear()
    node.wait_until(lambda: len(node.node.partitions) == 1)
    assert seen == [Led.LOST]


def test_a_transaction_that_was_decided_before_a_kill_is_decided_after_it(start_node, new_batch):
    """Also where everything had been flushed, so that the high watermark need not move: readers go on at once."""
    producer = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    marker = build_control_batch(1, bytes(6), offset=0, timestamp_ms=0, leader_epoch=0, **producer)
    before = start_node(directory="before")
    before.create("t")
    ended = threading.Event()
    for batch in (new_batch(b"v", key=b"k", base_sequence=0, **producer), marker):
        before.run(before.partition("t").partition.append_as_leader, batch, lambda _: ended.set())
    assert ended.wait(20)
    before.wait_until(lambda: before.partition("t").partition.high_watermark == 2)
    before.run(lambda: to_the_end(before.node.housekeeping._checkpoint()))
    shutil.copytree(f"{before.directory}/data", f"{before.directory}/../after/data")
    after = start_node(directory="after")
    assert after.partition("t").partition.last_stable_offset == 2
