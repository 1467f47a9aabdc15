"""Nodes of one cluster, each a process of its own: some of them Kafka, some of them ours."""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path

from stratalog.wire.batch import iter_headers, read_header
from tests.java.kafka_server import free_port

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
STORAGE = "kafka.tools.StorageTool"
SECONDS_MAX = 300
# Levels of Kafka 4.3 that no node of ours can run: a broker of ours would be refused.
ONLY_KAFKA_HAS = ("share.version", "streams.version")
LOWERED = tuple(part for name in ONLY_KAFKA_HAS for part in ("--feature", f"{name}=0"))
PROPERTIES = """\
process.roles={roles}
node.id={node_id}
listeners={listeners}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.bootstrap.servers={servers}
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
{more}
"""


def directory_id(node_id: int) -> str:
    """The id of a first voter's directory, the same in every run."""
    return urlsafe_b64encode(hashlib.md5(f"node {node_id}".encode()).digest()).decode().rstrip("=").replace("-", "A")


@dataclass
class MixedNode:
    """One node; ``kind`` is ``kafka`` or ``ours``."""

    kind: str
    node_id: int
    roles: str
    folder: Path
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    @property
    def data(self) -> Path:
        """Its log directory."""
        return self.folder / "data"

    @property
    def metadata(self) -> Path:
        """Where its replica of the metadata log lies."""
        return self.data / "__cluster_metadata-0"

    @property
    def directory(self) -> str:
        """The id of its directory as it was formatted: one of chance where it is no first voter."""
        (found,) = re.findall(r"^directory\.id=(.*)$", (self.data / "meta.properties").read_text(), re.MULTILINE)
        return found

    @property
    def config(self) -> Path:
        """Its settings."""
        return self.folder / "server.properties"

    @property
    def address(self) -> str:
        """Where clients reach its broker."""
        return f"127.0.0.1:{self.port}"

    @property
    def controller(self) -> str:
        """Where its controller is reached."""
        return f"127.0.0.1:{self.controller_port}"

    @property
    def voter(self) -> str:
        """Itself as ``--initial-controllers`` names it."""
        return f"{self.node_id}@{self.controller}:{directory_id(self.node_id)}"

    def metadata_files(self) -> list[Path]:
        """The segments of its metadata log and its snapshots."""
        return sorted(path for path in self.metadata.iterdir() if path.suffix in {".log", ".checkpoint"})

    def batches(self) -> list[tuple[int, bytes]]:
        """The base offset and the bytes of each whole batch of its metadata log, as they are in its files now."""
        found = []
        for path in sorted(self.metadata.glob("*.log")):
            content = path.read_bytes()
            for position, header in iter_headers(content):
                found.append((header.base_offset, content[position : position + header.size_bytes]))
        return found

    @property
    def end_offset(self) -> int:
        """The offset behind the last record of its metadata log, as far as it is in its files."""
        _, last = self.batches()[-1]
        return read_header(last).next_offset

    def said(self) -> str:
        """Everything that it logged."""
        return (self.folder / "said").read_text()


class MixedCluster:
    """Nodes that were formatted for one cluster."""

    def __init__(self, kafka, folder: Path, more: str = "") -> None:
        self._kafka = kafka
        self._folder = folder
        self._more = more
        self.nodes: dict[int, MixedNode] = {}

    def add(self, kind: str, node_id: int, roles: str) -> MixedNode:
        """A node; `format` writes its files."""
        folder = self._folder / f"{kind}{node_id}"
        folder.mkdir()
        self.nodes[node_id] = MixedNode(kind, node_id, roles, folder)
        return self.nodes[node_id]

    @property
    def controllers(self) -> list[MixedNode]:
        """Those that take part in the quorum."""
        return [node for node in self.nodes.values() if "controller" in node.roles]

    @property
    def servers(self) -> str:
        """The controllers as ``controller.quorum.bootstrap.servers`` and ``--bootstrap-controller`` name them."""
        return ",".join(node.controller for node in self.controllers)

    @property
    def brokers(self) -> str:
        """The brokers as ``--bootstrap-server`` names them."""
        return ",".join(node.address for node in self.nodes.values() if "broker" in node.roles)

    @property
    def hasty(self) -> Path:
        """Settings of a client that gives up after 5 s, not after a minute."""
        path = self._folder / "hasty.properties"
        path.write_text("default.api.timeout.ms=5000\nrequest.timeout.ms=5000\n")
        return path

    def format(self, *features: str, voters: tuple[int, ...] | None = None, by_kafka: tuple[int, ...] = ()) -> None:
        """Format each node by its own side's program, or by Kafka's; the voters are all controllers, or these."""
        first = [node for node in self.controllers if voters is None or node.node_id in voters]
        for node in self.nodes.values():
            listeners = [f"PLAINTEXT://{node.address}"] * ("broker" in node.roles)
            listeners += [f"CONTROLLER://{node.controller}"] * ("controller" in node.roles)
            node.config.write_text(
                PROPERTIES.format(
                    roles=node.roles, node_id=node.node_id, listeners=",".join(listeners), servers=self.servers,
                    data=node.data, more=self._more,
                )
            )  # fmt: skip
            options = ["-c", str(node.config), "-t", CLUSTER]
            if node in first:
                options += ["--initial-controllers", ",".join(each.voter for each in first)]
            elif node in self.controllers:
                options += ["--no-initial-controllers"]
            if node.kind == "kafka" or node.node_id in by_kafka:
                self._kafka.run(STORAGE, "format", *options, *features).ok()
            else:
                done = subprocess.run(
                    [sys.executable, "-m", "stratalog", "format", *options],
                    capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
                )  # fmt: skip
                assert done.returncode == 0, done.stderr

    def start(self, *node_ids: int) -> None:
        """Start nodes together, all of them if none is named, and wait until each says that it serves."""
        nodes = [self.nodes[node_id] for node_id in node_ids or self.nodes]
        for node in nodes:
            self._launch(node)
        for node in nodes:
            self._wait(node)

    def _launch(self, node: MixedNode) -> None:
        if node.kind == "kafka":
            command = self._kafka.command("kafka.Kafka", str(node.config))
            command.insert(1, "-Djudge.log.level=info")
        else:
            command = [sys.executable, "-m", "stratalog", "serve", "--config", str(node.config)]
            command += ["--http", "127.0.0.1:0", "--bucket", f"file://{node.folder}/bucket"]
        with (node.folder / "said").open("a") as said:
            said.write(f"--- started at {time.time()}\n")
            said.flush()
            node.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)

    def _wait(self, node: MixedNode) -> None:
        mark = "Kafka Server started" if node.kind == "kafka" else "\nready "
        end = time.monotonic() + SECONDS_MAX
        while mark not in node.said().rpartition("--- started at ")[2]:
            assert node.process.poll() is None, f"{node.folder.name}: {node.said()[-6000:]}"
            assert time.monotonic() < end, f"{node.folder.name}: {node.said()[-6000:]}"
            time.sleep(0.1)

    def stop(self, *node_ids: int) -> None:
        """Stop nodes in order, one after the other; those that have ended stay so."""
        for node_id in node_ids or self.nodes:
            process = self.nodes[node_id].process
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(SECONDS_MAX)

    def kill(self, *node_ids: int) -> None:
        """End nodes at once."""
        for node_id in node_ids or self.nodes:
            process = self.nodes[node_id].process
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait(SECONDS_MAX)
