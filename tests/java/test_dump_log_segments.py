"""Kafka's DumpLogSegments reads what we write: segments, indexes, snapshots, the metadata log, archived ranges."""

from __future__ import annotations

import itertools
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.objects.footer import Footer, read_footer
from stratalog.wire.batch import Record, build_batch, build_control_batch
from stratalog.wire.topic import TopicPartition

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
TOPICS = {
    "codecs": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "recoded": {"compression.type": "zstd"},
    "unordered": {},
    "tiered": {"remote.storage.enable": "true", "local.retention.bytes": "1"},
}
SMALL_BATCHES = {"batch_num_messages": 40, "linger_ms": 5}
DATA_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def records(topic: str, count: int, seed: object) -> Iterator[tuple[str, int, bytes, int]]:
    """Half-random values for two partitions; those of "unordered" jump back and forth by days."""
    dice = random.Random(repr(seed))
    for i in range(count):
        time_ms = START_MS + (dice.randrange(10**9) if topic == "unordered" else i * 7)
        yield topic, i % 2, b"%d " % i + dice.randbytes(60).hex().encode(), time_ms


@dataclass(frozen=True)
class Loaded:
    """A stopped broker and how many records each topic must hold at least."""

    broker: object
    acknowledged: dict[str, int]


def cut_short(broker, clients, topic: str) -> int:
    """Kill the broker while a producer sends; how many records it had acknowledged."""
    producer = clients.producer(broker.address, **SMALL_BATCHES)
    done: list[bool] = []
    for name, partition, value, time_ms in records(topic, 20_000, "cut short"):
        producer.produce(
            name, value, b"k", partition, timestamp=time_ms, on_delivery=lambda error, _: done.append(not error)
        )
    while not done:
        producer.poll(0.01)
    broker.kill()
    producer.purge()
    producer.poll(0)
    return sum(done)


@pytest.fixture(scope="module")
def loaded(kafka, serve, clients) -> Loaded:
    """All codecs into all topics, over a clean restart and a kill under load; small segments and dense indexes."""
    broker = serve("log.index.interval.bytes=500", "metadata.log.max.record.bytes.between.snapshots=900")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    common = {"internal.segment.bytes": "100000", "retention.ms": "-1"}
    made = [NewTopic(name, 2, 1, config=common | config) for name, config in TOPICS.items()]
    for outcome in admin.create_topics(made).values():
        outcome.result(30)
    acknowledged = dict.fromkeys(TOPICS, 0)

    def load(count: int) -> None:
        for codec in CODECS:
            rows = itertools.chain.from_iterable(records(topic, count, (topic, codec)) for topic in TOPICS)
            for (topic, _), sent in clients.load(broker.address, codec, rows, **SMALL_BATCHES).items():
                acknowledged[topic] += len(sent)

    load(1500)
    broker.stop()
    broker.start()
    load(400)
    acknowledged["codecs"] += cut_short(broker, clients, "codecs")
    broker.start()
    load(100)
    broker.stop()
    return Loaded(broker, acknowledged)


@pytest.mark.parametrize("topic", TOPICS)
def test_segments_and_indexes_hold_what_was_acknowledged(kafka, loaded, topic) -> None:
    """Every record of every batch of every file is read; offsets have no gap up to the last acknowledged one."""
    held = 0
    for partition in (0, 1):
        files = loaded.broker.files(*DATA_SUFFIXES, partition=f"{topic}-{partition}")
        dump = kafka.dump(files, "--deep-iteration").clean()
        batches = sorted(dump.batches)
        assert len([path for path in files if path.suffix == ".log"]) >= (1 if topic == "tiered" else 4)
        assert {codec for *_, codec in batches} == ({"zstd"} if topic == "recoded" else set(CODECS))
        for (_, last, _, _), (first, *_) in itertools.pairwise(batches):
            assert first == last + 1
        held += batches[-1][1] + 1
    assert held >= loaded.acknowledged[topic]


def test_indexes_pass_the_check_of_a_starting_broker(kafka, loaded) -> None:
    """--index-sanity-check, which decides whether Kafka would build them again, and --verify-index-only."""
    indexes = loaded.broker.files(".index", ".timeindex", partition="[!_]*")
    passed = kafka.dump(indexes, "--index-sanity-check").clean().text
    assert len(indexes) > 20
    assert passed.count("passed sanity check.") == len(indexes)
    kafka.dump(indexes, "--verify-index-only").clean()


def test_every_batch_behind_an_interval_is_indexed(kafka, loaded) -> None:
    """With batches larger than index.interval.bytes, a segment has one entry less than batches, in offset order."""
    index = loaded.broker.files(".index", partition="codecs-0")[0]
    entries = re.findall(r"^offset: (\d+) position: (\d+)$", kafka.dump([index]).text, re.MULTILINE)
    batches = kafka.dump([index.with_suffix(".log")]).batches
    assert [int(offset) for offset, _ in entries] == [last for _, last, _, _ in batches[1:]]


def test_damage_is_found_by_the_judge(kafka, loaded, tmp_path) -> None:
    """A byte of a batch, an index entry and a time index entry changed in a copy: each is a fault."""
    source = loaded.broker.files(".log", partition="codecs-0")[0]
    changes = {".log": 100, ".index": 7, ".timeindex": 7}
    for suffix, position in changes.items():
        copies = [Path(shutil.copy(source.with_suffix(each), tmp_path)) for each in changes]
        with (tmp_path / source.with_suffix(suffix).name).open("r+b") as file:
            file.seek(position)
            byte = file.read(1)
            file.seek(position)
            file.write(bytes([byte[0] ^ 1]))
        assert kafka.dump(copies, "--deep-iteration").faults, suffix


def test_the_metadata_log_and_its_snapshot_are_kafkas_records(kafka, loaded) -> None:
    """Every record is decoded; the snapshot has its two ends and names all topics."""
    files = loaded.broker.files(".log", ".checkpoint", ".snapshot", partition="__cluster_metadata-0")
    dump = kafka.dump(files, "--cluster-metadata-decoder", "--deep-iteration").clean()
    snapshots = [path for path in files if path.suffix == ".checkpoint"]
    assert len(snapshots) == 1
    text = dump.text[dump.text.index(f"Dumping {snapshots[0]}") :].split("Dumping ")[1]
    assert "SnapshotHeader" in text
    assert "SnapshotFooter" in text
    assert set(re.findall(r'"TOPIC_RECORD","version":0,"data":\{"name":"(\w+)"', text)) == set(TOPICS)
    assert {"FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "PARTITION_RECORD", "CONFIG_RECORD"} <= set(
        re.findall(r'"type":"(\w+)"', text)
    )


def test_a_new_metadata_log_begins_with_its_leader(kafka, serve) -> None:
    """One start: the leader's message, the features and the cluster's default, the broker, its era of producer ids; then one batch for a topic."""
    broker = serve()
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.create_topics([NewTopic("one", 3, 1)])["one"].result(30)
    broker.stop()
    files = broker.files(".log", ".index", ".timeindex", ".snapshot", partition="__cluster_metadata-0")
    dump = kafka.dump(files, "--cluster-metadata-decoder", "--deep-iteration").clean()
    assert (
        'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}'
        in dump.text
    )
    types = re.findall(r'"type":"(\w+)"', dump.text)
    assert types == [
        "BEGIN_TRANSACTION_RECORD",
        *["FEATURE_LEVEL_RECORD"] * 4,
        "CONFIG_RECORD",
        "END_TRANSACTION_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "PRODUCER_IDS_RECORD",
        "TOPIC_RECORD",
        *["PARTITION_RECORD"] * 3,
    ]


def archived(objects: Path, directory: Path) -> list[tuple[Footer, list[Path]]]:
    """Each ``.seg`` below ``objects`` cut into the files that it holds, under Kafka's names."""
    names = {"offset_index": "index", "time_index": "timeindex", "aborted": "txnindex", "producer_snapshot": "snapshot"}
    found = []
    for path in sorted(objects.rglob("*.seg")):
        data = path.read_bytes()
        footer = read_footer(data, len(data))
        folder = directory / str(len(found))
        folder.mkdir()
        parts = {f"{footer.entry.base:020}.log": data[: footer.entry.data_bytes]}
        for name, suffix in names.items():
            blob = footer.blobs.get(name)
            at = footer.entry.end if suffix == "snapshot" else footer.entry.base
            if blob is not None and blob.length:
                parts[f"{at:020}.{suffix}"] = data[blob.position : blob.position + blob.length]
        for name, content in parts.items():
            (folder / name).write_bytes(content)
        found.append((footer, sorted(folder.iterdir())))
    return found


def test_a_range_in_the_bucket_is_a_segment_of_kafka(kafka, loaded, tmp_path) -> None:
    """The data, both indexes and the producer snapshot of every object, cut out; ranges follow each other."""
    objects = archived(loaded.broker.bucket, tmp_path)
    assert len(objects) > 4
    dump = kafka.dump([path for _, files in objects for path in files], "--deep-iteration").clean()
    suffixes = {path.suffix for _, files in objects for path in files}
    assert suffixes >= {".log", ".index", ".timeindex", ".snapshot"}
    assert sum(count for _, _, count, _ in dump.batches) == sum(footer.entry.record_count for footer, _ in objects)
    assert len(dump.batches) == sum(footer.entry.batch_count for footer, _ in objects)


def transactions(directory: Path) -> Path:
    """A partition with three transactions, two of them aborted and one of these open for long; its directory."""
    partition = TopicPartition("transfers", 0)
    log = Log.open(
        str(directory), partition, bytes(range(16)), LogConfig(), files=RealFilesystem(), now_ms=START_MS, clean=True,
        cache=SegmentCache(),
    )  # fmt: skip

    def send(producer_id: int, sequence: int) -> None:
        batch = build_batch(
            [Record(i, START_MS, b"k", b"v") for i in range(3)],
            producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        log.append_as_leader(batch, leader_epoch=1, now_ms=START_MS)

    def end(producer_id: int, kind: int) -> None:
        marker = build_control_batch(
            kind, b"\0\0" + bytes(4), offset=0, timestamp_ms=START_MS, leader_epoch=0,
            producer_id=producer_id, producer_epoch=0, transactional=True,
        )  # fmt: skip
        log.append_as_leader(marker, leader_epoch=1, now_ms=START_MS, origin=AppendOrigin.COORDINATOR)

    send(1, 0)
    send(2, 0)
    end(2, 0)
    send(3, 0)
    end(3, 1)
    log.write_queued()
    log.roll()
    send(1, 3)
    end(1, 0)
    send(4, 0)
    log.write_queued()
    log.close()
    return directory


def test_aborted_transactions_and_producers_are_read_back(kafka, tmp_path) -> None:
    """The transaction index of each segment, markers in the log, and an open transaction in the last snapshot."""
    directory = transactions(tmp_path / "transfers-0")
    files = sorted(path for path in directory.iterdir() if path.suffix in DATA_SUFFIXES)
    text = kafka.dump(files, "--deep-iteration").clean().text
    rows = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+)", text)
    assert {tuple(map(int, row)) for row in rows} == {(2, 3, 6), (1, 0, 14)}
    assert text.count("endTxnMarker: ABORT coordinatorEpoch: 0") == 2
    assert text.count("endTxnMarker: COMMIT coordinatorEpoch: 0") == 1
    assert re.search(r"producerId: 4 .*currentTxnFirstOffset: Optional(Long)?\[15\]", text)
