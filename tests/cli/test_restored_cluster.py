"""A cluster again from the bucket alone: one node is restored, another joins it, and partitions get a second replica."""

import json
import socket
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch

COUNT = 40


def free_ports(count):
    """Ports that no other process has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Nodes:
    """The nodes by id, each with its settings and its process."""

    def __init__(self, folder):
        self.folder = folder
        self.bucket = f"file://{folder}/bucket"
        self.ports = dict(zip((1, 2), zip(*[iter(free_ports(4))] * 2, strict=True), strict=True))
        self.processes = {}
        for node, (broker, controller) in self.ports.items():
            (folder / f"{node}.properties").write_text(
                f"process.roles=broker,controller\nnode.id={node}\nlog.dirs={folder}/{node}\n"
                f"controller.quorum.bootstrap.servers=127.0.0.1:{self.ports[1][1]}\n"
                f"listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n"
                "controller.listener.names=CONTROLLER\n"
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
                "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=1000\n"
            )

    def run(self, *arguments):
        """A command; its output."""
        command = [sys.executable, "-m", "stratalog.cli.main", *map(str, arguments)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def serve(self, node):
        """Start a node and wait until it is ready."""
        command = [sys.executable, "-m", "stratalog.cli.main", "serve", "-c", self.folder / f"{node}.properties"]
        with (self.folder / f"{node}.log").open("wb") as log:
            self.processes[node] = subprocess.Popen(
                [*command, "--bucket", self.bucket, "--http", "127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.processes[node].stdout.readline().startswith("ready kafka=")

    def address(self, node):
        """Where clients reach it."""
        return f"127.0.0.1:{self.ports[node][0]}"


@pytest.fixture
def nodes(tmp_path):
    """Two nodes on free ports, and a bucket with the archive of one partition."""
    batches = [bytes(build_batch([Record(at, 1000 + at, None, b"%d" % at)], leader_epoch=1)) for at in range(COUNT)]
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    archive_log(store, PartitionId("t", bytes(range(16)), 0), [b"".join(batches)], now_ms=1)
    made = Nodes(tmp_path)
    yield made
    for process in made.processes.values():
        process.kill()
        process.communicate()


def read(address):
    """All values of the topic, in order."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    values, deadline = [], time.monotonic() + 60
    while len(values) < COUNT and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


@pytest.mark.story
def test_a_restored_node_becomes_a_cluster(nodes):
    """The second node has all of it when the first one is gone for good; a controller that is added counts."""
    nodes.run("restore", "--bucket", nodes.bucket, "--config", nodes.folder / "1.properties", "--takeover")
    nodes.serve(1)
    owner = (nodes.folder / "1" / "meta.properties").read_text()
    cluster_id = next(line.partition("=")[2] for line in owner.splitlines() if line.startswith("cluster.id="))
    nodes.run("format", "-c", nodes.folder / "2.properties", "-t", cluster_id, "--no-initial-controllers")
    nodes.serve(2)
    at = ("-b", nodes.address(1))
    nodes.run("quorum", "add-controller", "--config", nodes.folder / "2.properties", *at)
    nodes.run("cluster", "rebalance", "--replication-factor", 2, "--execute", *at)
    (topic,) = map(json.loads, nodes.run("topic", "describe", "t", "--json", *at).splitlines())
    assert sorted(topic["partitions"][0]["in_sync"]) == [1, 2]
    status = json.loads(nodes.run("quorum", "describe", "--json", *at))
    assert [(one["node"], one["role"]) for one in status["voters"]] == [(1, "leader"), (2, "follower")]
    owner = (nodes.folder / "1" / "meta.properties").read_text()
    directory = next(line.partition("=")[2] for line in owner.splitlines() if line.startswith("directory.id="))
    nodes.run("quorum", "remove-controller", "-i", 1, "-d", directory, *at)
    nodes.processes[1].kill()
    assert read(nodes.address(2)) == [b"%d" % at for at in range(COUNT)]
