"""Workers and brokers killed in the middle of uploads and fills: everything resumes, nothing is archived twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.client.records import NewRecord, Producer, fetch, visible_records
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)


def contiguous(store, partition):
    """The manifest, after a check that its entries follow each other and their objects are there."""
    manifest = read_manifest(store, partition).manifest
    at = manifest.remote_start
    for entry in manifest.entries:
        assert entry.base == at
        assert store.head(entry.key).size_bytes == entry.size_bytes
        at = entry.end
    assert at == manifest.remote_end
    return manifest


def test_a_worker_is_killed_again_and_again(start_tiered, tmp_path):
    """Uploads and fills that were under way fail, are tried again, and end as if nothing had been."""
    tiered = start_tiered(bucket_url=f"file://{tmp_path}/bucket")
    tiered.topic("t")
    killed = set()
    for _ in range(4):
        tiered.write("t", 12)
        pid = tiered.node.wait_until(lambda: tiered.node.node.tiering._io.pid)
        time.sleep(0.05)
        if pid not in killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        tiered.read("t", 0, tiered.offsets("t")[1])
    assert len(killed) >= 2
    tiered.archived("t")
    contiguous(open_store(f"file://{tmp_path}/bucket"), tiered.partition_id("t"))
    os.kill(tiered.node.node.tiering._io.pid, signal.SIGKILL)
    tiered.check_reads("t")


class Process:
    """A broker of its own process on the test's directories."""

    def __init__(self, home: Path) -> None:
        self.home = home
        settings = ["log.segment.delete.delay.ms=100", "log.retention.check.interval.ms=200"]
        settings += ["remote.log.manager.task.retry.backoff.ms=20"]
        command = [sys.executable, "-m", "stratalog", "serve", "--data", str(home / "data")]
        command += ["--bucket", f"file://{home}/bucket", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        for one in settings:
            command += ["--set", one]
        with (home / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), (home / "stderr").read_text()[-3000:]
        self.client = Client(dict(word.split("=", 1) for word in line.split()[1:])["kafka"])

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def processes(tmp_path):
    running = []

    def start():
        running.append(Process(tmp_path))
        return running[-1]

    yield start
    for one in running:
        one.kill()


def read_all(client):
    position, values = 0, []
    while True:
        (found,) = fetch(client, {NAME: position})
        for next_offset, records in visible_records(found, position):
            values += [record.value for record in records]
            position = next_offset
        if position >= found.high_watermark:
            return values


@pytest.mark.story
def test_a_broker_is_killed_in_the_middle_of_uploads(processes, tmp_path):
    """Acknowledged records are all there once, no range stands twice in the manifest, strange objects are orphans."""
    acknowledged: list[bytes] = []
    topic_id = None
    for round_number in range(4):
        broker = processes()
        if topic_id is None:
            configs = {"remote.storage.enable": "true", "internal.segment.bytes": "20000"}
            configs |= {"local.retention.bytes": "0", "retention.ms": "-1"}
            topic_id = create_topic(broker.client, "t", partition_count=1, configs=configs).topic_id
        producer = Producer(broker.client, "t", idempotent=True)
        for batch in range(40):
            values = [b"%d-%d-%d" % (round_number, batch, n) + b"." * 200 for n in range(20)]
            producer.send([NewRecord(value, 1_700_000_000_000, partition=0) for value in values])
            acknowledged += values
        time.sleep(0.1 * round_number)
        broker.kill()
        contiguous(open_store(f"file://{tmp_path}/bucket"), PartitionId("t", topic_id, 0))
    broker = processes()
    assert read_all(broker.client) == acknowledged
    store, partition = open_store(f"file://{tmp_path}/bucket"), PartitionId("t", topic_id, 0)
    until = time.monotonic() + 20
    while contiguous(store, partition).remote_end < len(acknowledged) - 300:
        assert time.monotonic() < until, "uploads did not resume"
        time.sleep(0.05)
    assert read_all(broker.client) == acknowledged
    manifest = contiguous(store, partition)
    assert manifest.remote_start == 0
    assert {entry.key for entry in manifest.entries} <= {one.key for one in store.list(partition.segments_prefix)}
