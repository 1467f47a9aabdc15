"""Topics to write to with foreign clients, and what the broker has stored of them and counted."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import random
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stratalog.broker import housekeeping
from stratalog.cli.dump.dump import dump
from stratalog.hot.retention import local_segments_to_evict
from stratalog.wire.batch import iter_headers
from stratalog.wire.compression import Codec

KAFKAJS = Path(__file__).parent / "kafkajs"
KAFKAJS_BUILD = KAFKAJS.parent.parent.parent / "build"

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

SEGMENT_BYTES = 50_000
LOCAL_BYTES = 120_000

_REMOTE_FETCHES = "kafka_server_brokertopicmetrics_remotefetchrequests_total"
"""Reads of this topic's records in the bucket; a count of all GETs would see its projection being written, too."""


@pytest.fixture(scope="session")
def kafkajs() -> Path:
    """The directory of kafkajs; it is fetched once for each content of the lock file and kept under build/."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("kafkajs needs node and npm on the PATH")
    lock = KAFKAJS / "package-lock.json"
    directory = KAFKAJS_BUILD / f"kafkajs-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not directory.is_dir():
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(KAFKAJS / name, partial)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        fetched = subprocess.run(command, cwd=partial, capture_output=True, text=True, check=False)
        assert fetched.returncode == 0, f"npm could not fetch kafkajs:\n{fetched.stdout}\n{fetched.stderr}"
        partial.rename(directory)
    return directory


@pytest.fixture(autouse=True, scope="package")
def sockets_of_foreign_clients() -> Iterator[None]:
    """A client's own code may leave a socket to the collector: that is no failure of whichever test runs then."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(
    params=[pytest.param(one, marks=() if one in ("none", "zstd") else pytest.mark.story) for one in CODECS]
)
def codec(request) -> str:
    """Each codec by the name that Kafka's clients use."""
    return request.param


@pytest.fixture
def topic(start_node):
    """A running broker with the topic ``events`` of two partitions."""
    node = start_node()
    node.create("events", 2)

    def stored_codecs(partition: int) -> set[str]:
        """The codec bits of every batch in the log's own files."""
        log = node.partition("events", partition).log
        read = log.read(0, max_bytes=1 << 26, max_offset=log.log_end_offset)
        data = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
        return {Codec(header.attributes & 7).name.lower() for _, header in iter_headers(data)}

    node.stored_codecs = lambda partition: node.run(stored_codecs, partition)
    return node


@pytest.fixture
def expected():
    """Written records: keys, values with nulls among them, and times in 2013."""
    return [
        (None if n % 5 == 0 else b"k%d" % n, None if n % 5 == 3 else b"value %d " % n * 20, 1_372_896_000_000 + n)
        for n in range(60)
    ]


class Event(NamedTuple):
    """A record as a client gives and gets it; ``headers`` may repeat a name."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...]


class Border:
    """A tiered topic of one partition whose older offsets will be only in the bucket, and what is to be written."""

    def __init__(self, node: Any, topic: str) -> None:
        self.node = node
        self.topic = topic
        self.address: str = node.address
        dice = random.Random(2013)
        self.events = [
            Event(
                n,
                None if n % 5 == 0 else b"k%d" % n,
                None if n % 50 == 3 else dice.randbytes(250).hex().encode() * 2,  # every codec makes it smaller
                1_372_896_000_000 + 1000 * n,
                () if n % 3 == 0 else (("number", b"%d" % n), ("source", b"\0\xff"), ("number", b"")),
            )
            for n in range(1200)
        ]

    # -- what is where ----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until all that is frozen is archived and read back, and off the local disk where retention says so."""

        def settled() -> bool:
            unified = self.node.partition(self.topic)
            log, archive = unified.log, self.node.node.tiering._archives[unified]
            deletion = local_segments_to_evict(
                log.segments(),
                log.config,
                now_ms=0,
                log_start_offset=log.log_start_offset,
                evictable_offset=archive.evictable_offset,
            )
            return archive.evictable_offset == unified.remote.end_offset == log.active_base_offset and deletion is None

        self.node.wait_until(settled)
        assert 0 < self.local_start < self.remote_end < len(self.events) == self.node.end(self.topic)

    @property
    def local_start(self) -> int:
        """The first offset on the local disk."""
        return self.node.run(lambda: self.node.partition(self.topic).log.local_log_start_offset)

    @property
    def remote_end(self) -> int:
        """Behind the last archived offset."""
        return self.node.run(lambda: self.node.partition(self.topic).remote.end_offset)

    @property
    def inside_a_batch(self) -> int:
        """An offset that only the archive has, with records of its batch on both sides."""
        start = self.local_start
        batches = [one for one in self._batches(self._objects()) if one["records"] > 2 and one["last_offset"] < start]
        return batches[len(batches) // 2]["base_offset"] + 1

    def check_stored(self, codec: str) -> None:
        """Log files and archived objects hold whole sound batches of this codec, and begin and end where they should."""
        local = self._batches(sorted(Path(self.node.directory, "data", f"{self.topic}-0").glob("*.log")))
        archived = self._batches(self._objects())
        assert {one["codec"] for one in local} == {codec}
        assert {one["codec"] for one in archived} == {codec}
        assert (archived[0]["base_offset"], archived[-1]["last_offset"]) == (0, self.remote_end - 1)
        assert (local[0]["base_offset"], local[-1]["last_offset"]) == (self.local_start, len(self.events) - 1)

    def _objects(self) -> list[Path]:
        return sorted(Path(self.node.directory, "bucket", "topics").glob(f"{self.topic}-*/*/seg/*.seg"))

    @staticmethod
    def _batches(paths: list[Path]) -> list[dict[str, Any]]:
        rows = [row for path in paths for row in dump(str(path))]
        assert not [row for row in rows if row["what"] == "problem"]
        return [row for row in rows if row["what"] == "batch"]

    # -- what the broker counted ------------------------------------------------------------------------------------

    def figures(self) -> dict[str, float]:
        """The broker's counters by their names without labels; those with a topic are this topic's."""
        text = self.node.run(self.node.node.metrics.render).decode()
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.labels.get("topic", self.topic) == self.topic
        }

    @contextlib.contextmanager
    def counted(self) -> Iterator[dict[str, float]]:
        """Gains of the counters inside the block; to be read behind it."""
        before, gained = self.figures(), {}
        yield gained
        gained.update({name: value - before.get(name, 0) for name, value in self.figures().items()})

    def check_client(self, client: str, codec: str, read: Callable[[int, int], list[Event]]) -> None:
        """``read(offset, count)`` gives what was written, locally without a GET, and over the border by sendfile."""
        self.settle()
        self.check_stored(codec)
        start = self.local_start
        with self.counted() as local:
            assert read(start, len(self.events) - start) == self.events[start:]
        assert local[_REMOTE_FETCHES] == 0, "offsets held in both places are served locally"
        with self.counted() as whole:
            assert read(0, len(self.events)) == self.events
        assert whole[_REMOTE_FETCHES] > 0
        assert whole["stratalog_tier_border_reads_total"] == 1
        ratio = (
            whole["stratalog_network_sendfile_bytes_total"] / whole["kafka_server_brokertopicmetrics_bytesout_total"]
        )
        print(f"{client}, {codec}: {ratio:.4f} of the bytes fetched over the border were sent by sendfile")
        assert 0.95 <= ratio <= 1
        middle = self.inside_a_batch
        assert read(middle, 30) == self.events[middle : middle + 30]


@pytest.fixture(scope="module")
def tiered_node(start_shared_node):
    """A broker for all tests of a file that archives and evicts at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(housekeeping, "TICK_SECONDS", 0.02)
        yield start_shared_node(
            log_retention_check_interval_ms=100, log_segment_delete_delay_ms=100, group_initial_rebalance_delay_ms=0
        )


@pytest.fixture
def tiered_topic(tiered_node) -> Callable[[str], Border]:
    """Make a tiered topic with small segments and little local retention."""

    def create(name: str) -> Border:
        tiered_node.create(
            name,
            remote_storage_enable="true",
            internal_segment_bytes=SEGMENT_BYTES,
            local_retention_bytes=LOCAL_BYTES,
            retention_ms=-1,
        )
        return Border(tiered_node, name)

    return create


@pytest.fixture
def event() -> type[Event]:
    """The form that clients' messages are made into."""
    return Event
