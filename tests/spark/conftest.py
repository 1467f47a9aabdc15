"""Archives built with the tier's own functions, and one Spark session for all tests of this room."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from stratalog.client.client import Client
from stratalog.client.records import Fetched, fetch
from stratalog.spark.sessions.sessions import session as start_session
from stratalog.spark.source.hot_tail import aborted_in
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import ObjectStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Header, Record, build_batch, iter_headers
from stratalog.wire.compression import Codec
from stratalog.wire.topic import TopicPartition

CLAIMANT = Claimant(0, 1, b"c" * 16, 1)


@dataclass
class ArchiveBuilder:
    """Writes partitions as the broker would: ``.seg`` objects and one manifest each."""

    store: ObjectStore
    chunk_bytes: int = 4 << 20
    manifests: dict[tuple[str, int], Manifest] = field(default_factory=dict)
    _serial: int = 0

    def add(
        self,
        topic: str,
        partition: int,
        *segments: bytes,
        topic_id: bytes = b"t" * 16,
        aborted: Sequence[AbortedTransaction] = (),
        claimed_ms: int = 1,
        compacted: bool = False,
    ) -> list[Entry]:
        """Append one object per element of ``segments`` (whole batches each) and commit them; compacted ones have holes."""
        identity = PartitionId(topic, topic_id, partition)
        manifest = self.manifests.get((topic, partition)) or Manifest(identity)
        manifest = claim(manifest, CLAIMANT, now_ms=claimed_ms)
        entries = [self._upload(identity, data, aborted, compacted=compacted) for data in segments]
        manifest = commit(manifest, CLAIMANT, [Uploaded(entry, CLAIMANT) for entry in entries], now_ms=2)
        return self.write(topic, partition, manifest, entries)

    def write(self, topic: str, partition: int, manifest: Manifest, entries: list[Entry]) -> list[Entry]:
        self.manifests[topic, partition] = manifest
        self.store.put(manifest.partition.manifest_key, to_bytes(manifest))
        return entries

    def _upload(
        self, identity: PartitionId, data: bytes, aborted: Sequence[AbortedTransaction], *, compacted: bool
    ) -> Entry:
        self._serial += 1
        headers = [header for _, header in iter_headers(data)]
        built = build_segment(
            SegmentRequest(
                partition=identity,
                uuid=self._serial.to_bytes(16, "big"),
                base=headers[0].base_offset,
                end=headers[-1].next_offset,
                epoch=CLAIMANT.leader_epoch,
                source=[data],
                aborted=tuple(aborted),
                compacted=compacted,
                chunk_bytes=self.chunk_bytes,
            )
        )
        self.store.put(built.entry.key, list(built.source))  # type: ignore[arg-type]
        return built.entry

    def set_log_start(self, topic: str, partition: int, offset: int) -> None:
        manifest = self.manifests[topic, partition]
        kept = tuple(entry for entry in manifest.entries if entry.end > offset)
        self.write(topic, partition, replace(manifest, log_start_offset=offset, entries=kept), [])


def make_batches(
    first: int,
    count: int,
    *,
    per_batch: int = 10,
    codec: Codec = Codec.NONE,
    timestamp_ms: int = 1_000_000,
    step_ms: int = 1000,
    value_bytes: int = 20,
) -> bytes:
    """``count`` records from offset ``first`` on; record at offset o has time ``timestamp_ms + (o - first) * step_ms``."""
    data = b""
    for start in range(first, first + count, per_batch):
        data += build_batch(
            [
                Record(
                    offset,
                    timestamp_ms + (offset - first) * step_ms,
                    None if offset % 7 == 0 else b"key-%d" % (offset % 5),
                    None if offset % 11 == 0 else (b"value-%d " % offset).ljust(value_bytes, b"x"),
                    (Header("n", b"%d" % offset), Header("z", None)) if offset % 3 == 0 else (),
                )
                for offset in range(start, min(start + per_batch, first + count))
            ],
            codec=codec,
            leader_epoch=0,
        )
    return data


@pytest.fixture
def in_arrow() -> Callable[[StructType], pa.Schema]:
    """PySpark's own conversion of a schema, with times in UTC: 4.1 takes no time zone and means that one."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return partial(to_arrow_schema, timezone="UTC")
    return to_arrow_schema


@pytest.fixture
def batches() -> Callable[..., bytes]:
    return make_batches


@pytest.fixture
def memory_archive() -> ArchiveBuilder:
    return ArchiveBuilder(MemoryStore("memory:spark-tests"))


class FakeRegistry(ThreadingHTTPServer):
    """A schema registry with what tests put into it; ``asked`` are the paths of all requests, as they came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _RegistryHandler)
        self.answers: dict[str, dict[str, Any] | int | bytes | str] = {}
        """By path: a document, a status, bytes as they are, or where to redirect to."""
        self.asked: list[str] = []
        self.authorization: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, schema_id: int, schema: str, kind: str = "AVRO", *, subject: str = "", **more: Any) -> None:
        """Register ``schema``; as the newest of ``subject`` too. For Protobuf it is a descriptor in base64."""
        answer = {"id": schema_id, "schema": schema, "schemaType": kind, **more}
        paths = [f"/schemas/ids/{schema_id}"]
        if subject:
            paths += [f"/subjects/{subject}/versions/latest", f"/subjects/{subject}/versions/1"]
        for path in paths:
            self.answers[path] = answer
            self.answers[path + "?format=serialized"] = answer


class _RegistryHandler(BaseHTTPRequestHandler):
    server: FakeRegistry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.authorization.append(self.headers["Authorization"])
        answer = self.server.answers.get(self.path, 404)
        self.send_response(answer if isinstance(answer, int) else 302 if isinstance(answer, str) else 200)
        if isinstance(answer, str):
            self.send_header("Location", answer)
        self.end_headers()
        self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Quietly."""


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A schema registry on a free port."""
    yield from _serving()


@pytest.fixture
def another_registry() -> Iterator[FakeRegistry]:
    """One more."""
    yield from _serving()


def _serving() -> Iterator[FakeRegistry]:
    server = FakeRegistry()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def growing_archive(tmp_path: Path) -> ArchiveBuilder:
    """An archive in a directory, empty at first."""
    return ArchiveBuilder(open_store(f"file://{tmp_path}/archive"), chunk_bytes=700)


@pytest.fixture
def s3_endpoint() -> Iterator[str]:
    """An S3 server in this process, with the bucket ``archive``."""
    import boto3

    from tests.moto_server import start_moto_server

    server = start_moto_server()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="id", aws_secret_access_key="secret"
    )
    client.create_bucket(Bucket="archive")
    client.close()
    yield endpoint
    server.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small, quickly started Spark for all tests of this room."""
    place = tmp_path_factory.mktemp("spark")
    names = ("PYTHONPATH", "JAVA_HOME", "PYSPARK_PYTHON")
    before = {name: os.environ[name] for name in names if name in os.environ}
    installed = str(Path(__file__).with_name("worker_path"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (installed, before.get("PYTHONPATH"))))
    started = start_session(
        "local[2]",
        app_name="stratalog-tests",
        **{
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.local.dir": str(place / "local"),
        },
    )
    started.sparkContext.setLogLevel("OFF")
    for name in names:  # the JVM has inherited them; tests of other rooms must not
        os.environ.pop(name, None)
    os.environ.update(before)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def file_archive(tmp_path_factory: pytest.TempPathFactory) -> ArchiveBuilder:
    """Topic ``orders`` in a directory: three partitions of four objects, one per codec, 100 offsets each.

    In partition p the record at offset o has the time 1,000,000 + p * 10,000 + o * 1,000 ms.
    """
    builder = ArchiveBuilder(open_store(f"file://{tmp_path_factory.mktemp('archive')}"), chunk_bytes=700)
    for partition in range(3):
        codecs = [Codec.NONE, Codec.ZSTD, Codec.LZ4, Codec.SNAPPY if partition else Codec.GZIP]
        start_ms = 1_000_000 + partition * 10_000
        segments = [
            make_batches(i * 100, 100, codec=codec, timestamp_ms=start_ms + i * 100_000)
            for i, codec in enumerate(codecs)
        ]
        builder.add("orders", partition, *segments)
    return builder


class InterleavedLog:
    """Topic ``t`` of a broker: interleaved transactions of two producers, some aborted, and plain records."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.bootstrap_servers: str = broker.bootstrap_servers
        self.topic_id = broker.create_topic("t").topic_id
        address = {"bootstrap.servers": self.bootstrap_servers, "linger.ms": 0}
        producers = [Producer({**address, "transactional.id": f"x{number}"}) for number in (0, 1)]
        plain = Producer(address)
        for producer in producers:
            producer.init_transactions(20)
        for number in range(6):
            for producer in producers:
                producer.begin_transaction()
            for n in range(2):
                for which, producer in enumerate(producers):
                    producer.produce("t", b"%d of %d: %d" % (which, number, n), key=b"k", headers={"n": b"%d" % n})
                    producer.flush(20)
            plain.produce("t", b"plain %d" % number)
            plain.flush(20)
            for which, producer in enumerate(producers):
                (producer.commit_transaction if (number + which) % 3 == 0 else producer.abort_transaction)(20)

    def fetched(self, *, read_committed: bool = False) -> Fetched:
        """All of its batches, as the broker serves them."""
        with Client(self.bootstrap_servers) as client:
            (fetched,) = fetch(client, {TopicPartition("t", 0): 0}, read_committed=read_committed)
            return fetched

    def batches(self) -> list[bytes]:
        """The same, one by one."""
        data = self.fetched().data
        return [bytes(data[at : at + header.size_bytes]) for at, header in iter_headers(data)]

    def archived(self, path: Path, batches: list[bytes]) -> ObjectStore:
        """A bucket with these batches of ``t`` added to it, and with what is known of its aborted transactions."""
        store = open_store(f"file://{path}")
        known = aborted_in(bytes(self.fetched().data), self.fetched(read_committed=True).aborted)
        rows = [AbortedTransaction(pid, *span, span[1] + 1) for pid, spans in known.items() for span in spans]
        if batches:
            archive_log(store, PartitionId("t", self.topic_id, 0), [b"".join(batches)], now_ms=1, aborted=rows)
        return store


@pytest.fixture
def log(stratalog_broker: Any) -> InterleavedLog:
    """A broker with an interleaved log."""
    return InterleavedLog(stratalog_broker)


@pytest.fixture(scope="session")
def rig() -> ModuleType:
    """The module ``backfill_rig`` beside this file."""
    spec = importlib.util.spec_from_file_location("backfill_rig", Path(__file__).with_name("backfill_rig.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def archive_in() -> Callable[[str], ArchiveBuilder]:
    """A new archive in the store at a URL."""
    return lambda url: ArchiveBuilder(open_store(url))


@pytest.fixture(scope="session")
def rewrite_rig() -> ModuleType:
    """The module ``rewrite_rig`` beside this file."""
    spec = importlib.util.spec_from_file_location("rewrite_rig", Path(__file__).with_name("rewrite_rig.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
