"""Directories of a new node: Kafka's programs and server on those that we formatted, and we on those of Kafka."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stratalog.hot.storage.checkpoint import read_meta_properties
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.feature_levels import chosen_levels
from stratalog.metadata.formatting.node_format import BOOTSTRAP_SNAPSHOT
from stratalog.metadata.image.features import SUPPORTED_FEATURES, runnable_records
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT, bootstrap_checkpoint, read_bootstrap
from stratalog.metadata.quorum.checkpoint import build_checkpoint, read_checkpoint
from stratalog.metadata.quorum.quorum_state import parse_quorum_state
from stratalog.wire.records.metadata import FeatureLevelRecord, UserScramCredentialRecord
from stratalog.wire.topic import uuid_text
from tests.java.kafka_server import KafkaServer, free_port

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
SCRAM = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
STORAGE = "kafka.tools.StorageTool"
THREE = "1@localhost:{port}:JEXY6aqzQY-32P5TStzaFg,2@b:9093:MvDxzVmcRsaTz33bUuRU6A,3@c:9093:07R5amHmR32VDA6jHkGbTA"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://localhost:{controller_port}
controller.listener.names=CONTROLLER
{quorum}
log.dirs={data}/d1,{data}/d2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=200
"""
QUORUMS = {
    "static": ("controller.quorum.voters=1@localhost:{port}", ()),
    "dynamic": ("controller.quorum.bootstrap.servers=localhost:{port}", ("--standalone",)),
}


class FormattedNode:
    """A node of one kind of quorum whose directories either side may format."""

    def __init__(self, folder: Path, quorum: str) -> None:
        setting, self.options = QUORUMS[quorum]
        self.port, self.controller_port, self.data = free_port(), free_port(), folder
        self.config = folder / "server.properties"
        self.config.write_text(
            PROPERTIES.format(
                port=self.port,
                controller_port=self.controller_port,
                quorum=setting.format(port=self.controller_port),
                data=folder,
            )
        )

    def ours(self, *options: str) -> str:
        """Our command; its output."""
        command = [sys.executable, "-m", "stratalog", "format", "--config", str(self.config), "--cluster-id", CLUSTER]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def theirs(self, kafka, *options: str) -> str:
        """Kafka's command; its output."""
        return kafka.run(STORAGE, "format", "-c", str(self.config), "-t", CLUSTER, *options).ok()

    def files(self, name: str) -> list[bytes]:
        """The content of a file in each directory that has it."""
        return [path.read_bytes() for directory in ("d1", "d2") if (path := self.data / directory / name).exists()]

    def serve(self) -> subprocess.Popen[str]:
        """Our broker; it has said that it is ready."""
        command = [sys.executable, "-m", "stratalog", "serve", "--config", str(self.config)]
        command += ["--http", "127.0.0.1:0", "--bucket", f"file://{self.data}/bucket"]
        with (self.data / "stderr").open("a") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert process.stdout.readline().startswith("ready"), (self.data / "stderr").read_text()
        return process


def stop(process: subprocess.Popen[str]) -> None:
    """Stop our broker in order."""
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.fixture(params=QUORUMS)
def node(request, tmp_path) -> FormattedNode:
    """A node of a static and of a dynamic quorum."""
    return FormattedNode(tmp_path, request.param)


@pytest.fixture
def start_kafka(kafka, tmp_path) -> Iterator[Callable[[FormattedNode], KafkaServer]]:
    """Starts Kafka on a node's directories."""
    started: list[KafkaServer] = []

    def start(node: FormattedNode) -> KafkaServer:
        command = kafka.command("kafka.Kafka", str(node.config))
        command.insert(1, "-Djudge.log.level=info")
        started.append(KafkaServer(command, tmp_path, f"127.0.0.1:{node.port}"))
        return started[-1].wait()

    yield start
    for server in started:
        server.stop()


def features(kafka, address: str) -> dict[str, int]:
    """The finalized levels as kafka-features shows them."""
    said = kafka.run("FeatureCommand", "--bootstrap-server", address, "describe").ok()
    rows = re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", said)
    return {name: level for name, level in rows if level != "0"}


def test_kafkas_tools_read_the_directories_that_we_formatted(kafka, node) -> None:
    """kafka-storage info finds no problem, and DumpLogSegments the same records as in Kafka's own files."""
    node.ours(*node.options, "--add-scram", SCRAM)
    info = kafka.run(STORAGE, "info", "-c", str(node.config)).ok()
    assert f"cluster.id={CLUSTER}" in info
    assert "problem" not in info
    files = [node.data / "d1" / BOOTSTRAP_CHECKPOINT, node.data / "d2" / BOOTSTRAP_CHECKPOINT]
    files += [path for path in [node.data / "d1" / BOOTSTRAP_SNAPSHOT] if path.exists()]
    assert len(files) == 2 + bool(node.options)
    dumped = kafka.dump(files, "--cluster-metadata-decoder", "--skip-record-metadata").clean()
    assert dumped.text.count('{"name":"metadata.version","featureLevel":30}') == 2
    assert dumped.text.count('"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"alice"') == 2
    if node.options:
        told = kafka.dump(files[2:], "--cluster-metadata-decoder", "--deep-iteration", "--print-data-log").clean().text
        assert "KRaftVersion" in told
        assert "KRaftVoters" in told


def test_kafka_leaves_our_directories_alone_and_we_kafkas(kafka, node) -> None:
    """Each side sees that the other has formatted, refuses with the same words, and passes over what it may."""
    node.ours(*node.options)
    why = "is already formatted. Use --ignore-formatted to ignore this directory and format the others."
    before = node.files("meta.properties"), node.files(BOOTSTRAP_CHECKPOINT)
    assert why in kafka.run(STORAGE, "format", "-c", str(node.config), "-t", CLUSTER, *node.options).refused()
    assert "All of the log directories are already formatted" in node.theirs(kafka, *node.options, "--ignore-formatted")
    (node.data / "d2" / "meta.properties").unlink()
    (node.data / "d2" / BOOTSTRAP_CHECKPOINT).unlink()
    node.theirs(kafka, *node.options, "--ignore-formatted")
    node.ours(*node.options, "--ignore-formatted")
    assert node.files("meta.properties")[0] == before[0][0]
    assert len(node.files("meta.properties")) == 2


def test_our_code_reads_the_directories_that_kafka_formatted(kafka, node) -> None:
    """Owners, records and voters; written again by us, the records have Kafka's bytes but for times and checksums."""
    node.theirs(kafka, *node.options, "--add-scram", SCRAM)
    owners = [read_meta_properties(RealFilesystem(), str(node.data / name)) for name in ("d1", "d2")]
    assert {(owner.cluster_id, owner.node_id) for owner in owners} == {(CLUSTER, 1)}
    for content in node.files(BOOTSTRAP_CHECKPOINT):
        records = read_bootstrap(content, "x")
        assert next(one.name for one in records if isinstance(one, FeatureLevelRecord)) == "metadata.version"
        assert [one.name for one in records if isinstance(one, UserScramCredentialRecord)] == ["alice"]
        assert len(bootstrap_checkpoint(records, timestamp_ms=1)) == len(content)
        kept, lowered = runnable_records(records)
        assert len(kept) == len(records) - len(lowered)
    snapshots = node.files(BOOTSTRAP_SNAPSHOT)
    assert len(snapshots) == bool(node.options)
    for content in snapshots:
        found = read_checkpoint(content, "x")
        (voter,) = found.quorum.voters
        assert (voter.voter_id, voter.voter_directory_id) == (1, owners[0].directory_id)
        assert [(end.name, end.host, end.port) for end in voter.endpoints] == [
            ("CONTROLLER", "localhost", node.controller_port)
        ]
        again = build_checkpoint(
            (), found.quorum, last_contained_timestamp_ms=found.last_contained_timestamp_ms, timestamp_ms=1
        )
        assert len(again) == len(content)


@pytest.mark.parametrize("release", ["3.3-IV3", "3.9", "4.0-IV1", "4.3.1"])
def test_a_release_has_the_levels_that_kafka_gives_it(kafka, release) -> None:
    """Levels that this release cannot run are left out, as when a broker of ours formats itself."""
    said = kafka.run(STORAGE, "version-mapping", "--release-version", release).ok()
    theirs = {name: int(level) for name, level in re.findall(r"^(\S+)=([0-9]+)", said, re.MULTILINE)}
    ours = chosen_levels((), release, has_dynamic_quorum=theirs["kraft.version"] > 0)
    assert ours.keys() == theirs.keys()
    runs = {name: levels.maximum for name, levels in SUPPORTED_FEATURES.items()} | {"kraft.version": 1}
    assert ours == {name: min(level, runs.get(name, 0)) for name, level in theirs.items()}


def test_both_sides_write_the_same_voters_of_a_quorum_of_three(kafka, tmp_path) -> None:
    """All nodes of a cluster may be formatted by different programs."""
    written = []
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        node = FormattedNode(tmp_path / name, "dynamic")
        voters = ("--initial-controllers", THREE.format(port=9093))
        if name == "ours":
            node.ours(*voters)
        else:
            node.theirs(kafka, *voters)
        (content,) = node.files(BOOTSTRAP_SNAPSHOT)
        written.append(read_checkpoint(content, "x").quorum)
        owner = read_meta_properties(RealFilesystem(), str(node.data / "d1"))
        assert uuid_text(owner.directory_id) == "JEXY6aqzQY-32P5TStzaFg"
    assert written[0] == written[1]
    assert [voter.voter_id for voter in written[0].voters] == [1, 2, 3]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_kafka_and_our_broker_serve_one_after_the_other(kafka, node, start_kafka, first) -> None:
    """Levels, voters and directories are the same to the next, whichever side formatted and began."""
    if first == "ours":
        node.ours(*node.options)
        theirs = start_kafka(node)
        levels = features(kafka, theirs.address)
        theirs.stop()
        stop(node.serve())
    else:
        node.theirs(kafka, *node.options, "--add-scram", SCRAM)
        ours = node.serve()
        levels = features(kafka, f"127.0.0.1:{node.port}")
        stop(ours)
    assert levels["metadata.version"] == "4.3-IV0"
    assert (levels["group.version"], levels["transaction.version"]) == ("1", "2")
    assert "share.version" not in levels
    theirs = start_kafka(node)
    after = features(kafka, theirs.address)
    assert {name: level for name, level in after.items() if name != "kraft.version"} == {
        name: level for name, level in levels.items() if name != "kraft.version"
    }
    assert after.get("kraft.version", "0") == ("1" if node.options else "0")
    complaints = re.findall(r"^(?:WARN|ERROR|FATAL) .*", theirs.said(), re.MULTILINE)
    assert [line for line in complaints if "Performing controller activation" not in line] == []
    theirs.stop()
    state = parse_quorum_state((node.data / "d1" / "__cluster_metadata-0" / "quorum-state").read_bytes())
    assert state.data_version == (1 if node.options else 0)
    assert json.loads((node.data / "d1" / "__cluster_metadata-0" / "quorum-state").read_text())["leaderId"] == 1
