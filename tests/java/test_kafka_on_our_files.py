"""The strongest judge: Kafka itself started on a directory of ours, and we again on what it made of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.java.kafka_server import KafkaServer, free_port

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
WAIT_SECONDS = 60
PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={data}
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=200
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
log.cleaner.backoff.ms=200
"""
"""A new Kafka waits for the session of the broker before it, so that one is short. A heartbeat has half of it, and at 1 s
a busy machine made Kafka complain of late heartbeats."""


@pytest.fixture
def start_kafka(kafka, tmp_path) -> Iterator[Callable[[Path], KafkaServer]]:
    """Starts Kafka on a log directory."""
    started: list[KafkaServer] = []

    def start(data: Path) -> KafkaServer:
        port = free_port()
        properties = tmp_path / "server.properties"
        properties.write_text(PROPERTIES.format(port=port, controller_port=free_port(), data=data))
        command = kafka.command("kafka.Kafka", str(properties))
        command.insert(1, "-Djudge.log.level=info")
        started.append(KafkaServer(command, tmp_path, f"127.0.0.1:{port}"))
        return started[-1].wait()

    yield start
    for broker in started:
        broker.stop()


def records(seed: int) -> Iterator[tuple[str, int, bytes, int]]:
    """Values for two partitions."""
    for i in range(2000):
        yield "codecs", i % 2, b"%d-%d " % (seed, i) * 8, START_MS + i


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_kafka_goes_on_where_we_ended_and_we_where_kafka_ended(kafka, serve, clients, start_kafka, end) -> None:
    """Same cluster, topic ids, records and offsets to both sides, from a clean stop and from a kill; with a snapshot."""
    ours = serve("metadata.log.max.record.bytes.between.snapshots=500", "log.index.interval.bytes=500")
    admin = AdminClient({"bootstrap.servers": ours.address, "log_level": 0})
    config = {"internal.segment.bytes": "100000", "retention.ms": "-1"}
    admin.create_topics([NewTopic("codecs", 2, 1, config=config)])["codecs"].result(30)
    written: dict[int, list] = {0: [], 1: []}

    def load(address: str, seed: int) -> None:
        for codec in CODECS:
            sent = clients.load(address, codec, records(seed), batch_num_messages=100)
            for (_, partition), rows in sent.items():
                written[partition] += rows

    def same(address: str) -> None:
        for partition, rows in written.items():
            assert clients.read(address, "codecs", partition) == rows

    load(ours.address, 1)
    topic_id = admin.describe_topics(TopicCollection(["codecs"]))["codecs"].result(30).topic_id
    getattr(ours, end)()
    assert len(ours.files(".checkpoint")) == 1

    theirs = start_kafka(ours.data)
    same(theirs.address)
    told = kafka.run(
        "consumer.ConsoleConsumer", "--bootstrap-server", theirs.address, "--topic", "codecs", "--partition", "0",
        "--offset", "earliest", "--max-messages", str(len(written[0])), "--timeout-ms", "20000",
    ).ok()  # fmt: skip
    assert told.splitlines() == [value.decode() for _, _, value, _ in written[0]]
    their_admin = AdminClient({"bootstrap.servers": theirs.address, "log_level": 0})
    assert str(their_admin.describe_topics(TopicCollection(["codecs"]))["codecs"].result(30).topic_id) == str(topic_id)
    load(theirs.address, 2)
    complaints = re.findall(r"^(?:WARN|ERROR|FATAL) .*", theirs.said(), re.MULTILINE)
    expected = ("Performing controller activation", *["with no corresponding log file"] * (end == "kill"))
    assert [line for line in complaints if not any(one in line for one in expected)] == [], "a kill may leave an index"
    assert ("since clean shutdown file was found" in theirs.said()) == (end == "stop")
    theirs.stop()

    ours.start()
    same(ours.address)
    load(ours.address, 3)
    same(ours.address)
    ours.stop()
    logs = [path for path in ours.files(".log", ".index", ".timeindex", ".snapshot") if "codecs" in str(path.parent)]
    kafka.dump(logs, "--deep-iteration").clean()


class Changelog:
    """A compacted topic, loaded through librdkafka, and the newest value of each key."""

    def __init__(self, clients) -> None:
        self.clients = clients
        self.latest: dict[bytes, bytes | None] = {}
        self.offsets: list[int] = []

    def load(self, address: str, seed: int) -> None:
        """Few keys, every codec, now and then a key is deleted."""
        dice = random.Random(seed)
        for codec in CODECS:
            producer = self.clients.producer(address, codec, batch_num_messages=40, linger_ms=5)
            for i in range(600):
                key = b"key-%d" % dice.randrange(120)
                value = None if dice.random() < 0.1 else b"%d-%d " % (seed, i) * 8
                producer.produce("changelog", value, key, 0)
                self.latest[key] = value
            assert producer.flush(WAIT_SECONDS) == 0

    def same(self, address: str) -> None:
        """A reader from the start ends with the newest values; how many records it sees is noted."""
        rows = self.clients.read(address, "changelog")
        seen = {key: value for _, key, value, _ in rows}
        assert {k: v for k, v in seen.items() if v} == {k: v for k, v in self.latest.items() if v}
        self.offsets.append(len(rows))


def cleaned_offset(data: Path) -> int:
    """How far the checkpoint says that the log is clean."""
    checkpoint = data / "cleaner-offset-checkpoint"
    found = re.search(r"^changelog 0 (\d+)$", checkpoint.read_text(), re.MULTILINE) if checkpoint.exists() else None
    return int(found[1]) if found else 0


def active_base(data: Path) -> int:
    """Start of the segment that is never cleaned."""
    return max(int(path.stem) for path in (data / "changelog-0").glob("*.log"))


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_each_cleans_what_the_other_has_cleaned(kafka, serve, clients, start_kafka, until, end) -> None:
    """Delete horizons, emptied batches and the checkpoint mean the same to both; no reader sees a difference."""
    ours = serve("log.cleaner.backoff.ms=100", "log.segment.delete.delay.ms=500")
    config = {
        "internal.segment.bytes": "30000", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "500",
    }  # fmt: skip
    admin = AdminClient({"bootstrap.servers": ours.address, "log_level": 0})
    admin.create_topics([NewTopic("changelog", 1, 1, config=config)])["changelog"].result(30)
    changelog = Changelog(clients)

    def cleaned() -> None:
        until(lambda: cleaned_offset(ours.data) == active_base(ours.data) > 0)

    for seed in (1, 2):
        changelog.load(ours.address, seed)
        cleaned()
        changelog.same(ours.address)
    getattr(ours, end)()
    assert max(changelog.offsets) < 2000
    logs = [path for path in ours.files(".log", ".index", ".timeindex") if "changelog" in str(path.parent)]
    said = kafka.dump(logs, "--deep-iteration")
    assert [one for one in said.faults if "Non-consecutive" not in one and "is followed by" not in one] == []
    assert "deleteHorizonMs: OptionalLong[" in said.text

    theirs = start_kafka(ours.data)
    changelog.same(theirs.address)
    for seed in (3, 4):
        changelog.load(theirs.address, seed)
        cleaned()
        changelog.same(theirs.address)
    complaints = re.findall(r"^(?:WARN|ERROR|FATAL) .*", theirs.said(), re.MULTILINE)
    assert [line for line in complaints if re.search("changelog|[Cc]lean", line)] == []
    theirs.stop()

    ours.start()
    changelog.same(ours.address)
    for seed in (5, 6):
        changelog.load(ours.address, seed)
        cleaned()
        changelog.same(ours.address)
    assert max(changelog.offsets) < 3000
