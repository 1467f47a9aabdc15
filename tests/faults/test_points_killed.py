"""The broker, its worker or the collector of garbage is killed at every named point; the next start goes on.

Each point of `sim.points` is killed once, by `dying/sitecustomize.py`, in a real process on real directories. After
each kill every acknowledged record is read once and in order, ranges follow each other and each has its object, and the
archive goes on to the end of the frozen segments. Garbage collection then leaves a bucket that a deep verification finds
clean.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sim.points import POINTS
from stratalog.cli.main import cli
from stratalog.client.admin import alter_topic_configs, create_topic, delete_topics
from stratalog.client.client import Client
from stratalog.client.link import check
from stratalog.client.records import NewRecord, Producer, fetch, visible_records
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId, topic_prefix
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest import Manifest, claim
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.wire.errors import KafkaError, Retriable
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stratalog.wire.topic import TopicPartition

ROOT = Path(__file__).parents[2]
DYING = Path(__file__).parent / "dying"
WAIT_SECONDS = 90
DAY_SECONDS = 24 * 3600
EARLIEST = -2
SETTINGS = (
    "log.segment.delete.delay.ms=50",
    "log.retention.check.interval.ms=100",
    "log.flush.offset.checkpoint.interval.ms=100",
    "remote.log.manager.task.retry.backoff.ms=20",
    "log.flush.interval.messages=9223372036854775807",
    "stratalog.trash.grace.ms=100",
    "stratalog.trash.check.interval.ms=50",
    "stratalog.merge.interval.ms=1000",
    "stratalog.merge.objects.min=8",
    "stratalog.cache.bytes.max=1048576",
)
TOPIC = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "6000",
    "local.retention.bytes": "0",
    "retention.ms": "-1",
    "segment.ms": "1000",
}
OFF = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
ON = {"remote.storage.enable": "true", "remote.log.delete.on.disable": "false"}
SAMPLE = frozenset({"UP15", "DL12"})
"""Those of `make test-stories`; `make test-slow` kills at all the others."""
SECOND_LIFE = frozenset({"RD15", "RD16", "RD17", "RD18", "RD19", "DL33", "DL34"})
"""Points that are only passed by a broker that was started before."""
COLLECTOR = frozenset({"DL33", "DL34"})


class Broker:
    """A broker of its own process on the test's directories; ``dies_at`` a point, for it or its worker."""

    def __init__(self, home: Path, dies_at: str = "") -> None:
        self.marker = home / "died"
        command = ["serve", "--data", str(home / "data"), "--bucket", f"file://{home}/bucket"]
        command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        for one in SETTINGS:
            command += ["--set", one]
        with (home / "stderr").open("ab") as errors:
            self.process = program(home, command, dies_at, stdout=subprocess.PIPE, stderr=errors, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), (home / "stderr").read_text()[-3000:]
        self.client = Client(dict(word.split("=", 1) for word in line.split()[1:])["kafka"], timeout_seconds=20)

    def kill(self) -> None:
        """End it, if it is still there."""
        self.client.close()
        self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()

    def stop(self) -> None:
        """End it as one should."""
        self.process.terminate()
        self.process.wait(20)
        self.kill()


def program(home: Path, arguments: list[str], dies_at: str, **options) -> subprocess.Popen:
    """Start ``stratalog``; it dies at a point."""
    environment = {**os.environ, "SMALL": "1"}
    if dies_at:
        environment["DIES_AT"] = f"{dies_at}:{home / 'died'}"
    if dies_at in SECOND_LIFE:  # what counts passings forgets those of the first life
        environment["DIES_FIRST"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(DYING), str(ROOT), environment.get("PYTHONPATH"))))
    return subprocess.Popen([sys.executable, "-m", "stratalog", *arguments], env=environment, **options)


class Written:
    """One topic: what was written to it, and what must be read."""

    def __init__(self, broker: Broker, home: Path, name: str, **configs: str) -> None:
        self.name, self.home = TopicPartition(name, 0), home
        self.acknowledged: list[tuple[int, bytes]] = []
        self.unknown: set[bytes] = set()
        self.log_start = 0
        topic_id = create_topic(broker.client, name, partition_count=1, configs=TOPIC | configs).topic_id
        self.partition = PartitionId(name, topic_id, 0)

    def write(self, broker: Broker, batches: int = 1) -> None:
        """Batches of ten records; one whose answer does not come may be there or not."""
        producer = Producer(broker.client, self.name.topic, idempotent=True)
        for _ in range(batches):
            number = len(self.acknowledged) + len(self.unknown)
            values = [b"%d-" % (number + n) + b"." * 190 for n in range(10)]
            try:
                delivered = producer.send([NewRecord(value, 1_700_000_000_000, partition=0) for value in values])
            except BaseException:
                self.unknown.update(values)
                raise
            self.acknowledged += [(one.offset, value) for one, value in zip(delivered, values, strict=True)]

    def delete_first(self, broker: Broker, share: int = 4) -> None:
        """Delete the first part of what was acknowledged (DeleteRecords)."""
        offset = self.acknowledged[len(self.acknowledged) // share][0]
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        self.log_start = offset  # from the request on they may be gone
        (node_id,) = broker.client.by_leader({self.name: None})
        topic = DeleteRecordsTopic(name=self.name.topic, partitions=[partition])
        answer = broker.client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), node_id)
        check(answer.topics[0].partitions[0].error_code)

    def manifest(self):
        """The manifest, after a check that its ranges follow each other and each has its object."""
        store = open_store(f"file://{self.home}/bucket")
        manifest = read_manifest(store, self.partition).manifest
        at = manifest.remote_start
        for entry in manifest.entries:
            assert entry.base == at or manifest.pages
            assert store.head(entry.key).crc32c == entry.crc32c
            at = entry.end
        assert at == manifest.remote_end
        return manifest

    def settled(self):
        """The manifest at rest, after a look at its pages, too."""
        manifest = self.manifest()
        at = manifest.remote_start
        for entry in iter_entries(open_store(f"file://{self.home}/bucket"), manifest):
            assert entry.base == at
            at = entry.end
        return manifest

    def check(self, broker: Broker, start: int = -1) -> None:
        """Everything acknowledged is read once, in order, at its offset; what was not answered at most once."""
        start = self.log_start if start < 0 else start
        found = list(self.read(broker.client, start))
        values = [value for _, value in found]
        assert len(values) == len(set(values))
        assert [one for one in found if one[1] not in self.unknown] == [
            one for one in self.acknowledged if one[0] >= start
        ]

    def read(self, client: Client, position: int) -> Iterator[tuple[int, bytes]]:
        """Offset and value of every record from ``position`` on."""
        while True:
            (found,) = fetch(client, {self.name: position})
            for next_offset, records in visible_records(found, position):
                yield from ((record.offset, record.value) for record in records)
                position = next_offset
            if position >= found.high_watermark:
                return


class Story:
    """Four topics: one is read and cut, one expires, one loses its archive and gets another, one is deleted."""

    def __init__(self, broker: Broker, home: Path) -> None:
        self.home = home
        self.kept = Written(broker, home, "kept")
        self.aging = Written(broker, home, "aging", **{"retention.bytes": "20000"})
        self.switched = Written(broker, home, "switched")
        self.gone = Written(broker, home, "gone")
        self._steps = iter(())

    def begin(self) -> None:
        """From the beginning."""
        self._steps = iter((self._cut, self._off, self._on, self._delete, self._cut_again))

    def until(self, broker: Broker, reached) -> None:
        """Write, read and change things until it is so; whatever is lost with the broker is lost."""
        until = time.monotonic() + WAIT_SECONDS
        waiting = next(self._steps, None)
        with suppress(Retriable, OSError):
            while not reached():
                assert time.monotonic() < until, f"never reached\n{(self.home / 'stderr').read_text()[-2000:]}"
                for topic in (self.kept, self.aging, self.switched):
                    topic.write(broker)
                if len(self.gone.acknowledged) < 60:
                    self.gone.write(broker)
                list(self.kept.read(broker.client, self.kept.log_start))
                if waiting is not None and waiting(broker):
                    waiting = next(self._steps, None)

    def _cut(self, broker: Broker) -> bool:
        return self.kept.manifest().remote_end > 100 and not self.kept.delete_first(broker)

    def _cut_again(self, broker: Broker) -> bool:
        return not self.kept.delete_first(broker, 2)

    def _off(self, broker: Broker) -> bool:
        if self.switched.manifest().remote_end < 60:
            return False
        alter_topic_configs(broker.client, "switched", set_to=OFF)
        return True

    def _on(self, broker: Broker) -> bool:
        manifest = self.switched.manifest()
        if manifest.deleted_ms < 0 or manifest.trash:
            return False
        alter_topic_configs(broker.client, "switched", set_to=ON)
        return True

    def _delete(self, broker: Broker) -> bool:
        written = self.gone.acknowledged
        if len(written) < 60 or self.gone.manifest().remote_end <= written[-1][0]:
            return False  # an upload under way would be left until it is old enough
        delete_topics(broker.client, ["gone"])
        return True

    def age_bucket(self) -> None:
        """A day goes by for whatever is in the bucket."""
        for path in (self.home / "bucket").rglob("*"):
            with suppress(FileNotFoundError):
                os.utime(path, (time.time() - DAY_SECONDS,) * 2)

    def collect_garbage(self, dies_at: str = "") -> int:
        """``tier gc --apply`` a day later; its exit code."""
        self.age_bucket()
        arguments = ["tier", "gc", "--bucket", f"file://{self.home}/bucket", "--apply", "--grace", "1h"]
        return program(self.home, arguments, dies_at, stdout=subprocess.DEVNULL).wait(60)

    def claim_for_the_next(self) -> None:
        """As the next leaders would: what the last ones uploaded and never committed is garbage from here on."""
        for topic in (self.kept, self.aging, self.switched):
            change_manifest(open_store(f"file://{self.home}/bucket"), topic.partition, claimed_anew)

    def leave_orphan(self) -> None:
        """Remains of an attempt of an earlier leadership."""
        store = open_store(f"file://{self.home}/bucket")
        store.put(self.kept.partition.segment_key(0, 5, 0, bytes(15) + b"o"), b"an attempt")

    def check(self, broker: Broker) -> None:
        """Everything is there; writing and archiving go on."""
        self.kept.check(broker)
        living = [self.kept, self.aging, self.switched]
        for topic in living:
            alter_topic_configs(broker.client, topic.name.topic, set_to=ON if topic is self.switched else {})
            start = broker.client.list_offsets({topic.name: EARLIEST})[topic.name].offset
            if topic is not self.aging:  # whose log start moves on
                topic.check(broker, max(start, topic.log_start))
            topic.write(broker, 8)
        self._wait(lambda: all(one.manifest().remote_end >= one.acknowledged[-60][0] for one in living), "no progress")
        for topic in living:
            topic.settled()
        self.kept.check(broker)

    def kept_is_cached(self) -> bool:
        """Whether a chunk of a living object lies in the cache."""
        cached = "".join(path.name for path in (self.home / "data-cache").iterdir())
        entries = iter_entries(open_store(f"file://{self.home}/bucket"), self.kept.manifest())
        return any(entry.uuid.hex() in cached for entry in entries)

    def is_gone(self, broker: Broker) -> bool:
        """Whether the deletion was carried out."""
        return all(topic.name != "gone" for topic in broker.client.refresh())

    def check_removed(self) -> None:
        """No file or object of a deleted topic is left."""
        store = open_store(f"file://{self.home}/bucket")
        prefix = topic_prefix("gone", self.gone.partition.topic_id)
        self._wait(lambda: not list(store.list(prefix)), "the deleted topic leaves something")

    def _wait(self, done, words: str) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not done():
            assert time.monotonic() < until, words
            time.sleep(0.05)


def claimed_anew(manifest: Manifest) -> Manifest:
    """The same under a higher claim."""
    epoch = manifest.claimant.leader_epoch + 1
    return claim(manifest, manifest.claimant._replace(leader_epoch=epoch, uuid=bytes(16)), now_ms=manifest.claimed_ms)


@pytest.fixture
def brokers(tmp_path):
    running = []

    def start(dies_at=""):
        running.append(Broker(tmp_path, dies_at))
        return running[-1]

    yield start
    for one in running:
        one.kill()


def live(brokers, home: Path, point: str) -> tuple[Story, Broker]:
    """Until something has died at the point; the broker may live on, if it was another process."""
    marker = home / "died"
    first = "" if point in SECOND_LIFE else point
    broker = brokers(first)
    story = Story(broker, home)
    story.begin()
    if first:
        story.until(broker, marker.exists)
        return story, broker
    story.until(broker, lambda: story.kept.manifest().remote_end > 200 and story.kept_is_cached())
    broker.stop()
    broker = brokers("" if point in COLLECTOR else point)
    if point in COLLECTOR:
        story.leave_orphan()
        story.until(broker, lambda: story.kept.manifest().claimant.leader_epoch > 0)
        story.collect_garbage(point)
        assert marker.exists()
    else:
        story.until(broker, marker.exists)
    return story, broker


@pytest.mark.parametrize(
    "point", [pytest.param(one, marks=pytest.mark.story if one in SAMPLE else pytest.mark.slow) for one in POINTS]
)
def test_the_archive_goes_on_after_a_kill_at_each_point(brokers, tmp_path, point):
    """The process is killed once at the point, by SIGKILL; the later starts are without the point."""
    story, broker = live(brokers, tmp_path, point)
    broker.kill()
    for topic in (story.kept, story.aging, story.switched):
        topic.manifest()
    broker = brokers()
    with suppress(KafkaError):  # it may be gone already
        delete_topics(broker.client, ["gone"])
    assert story.is_gone(broker)
    story.check(broker)
    story.age_bucket()
    story.check_removed()
    broker.stop()
    story.claim_for_the_next()
    assert story.collect_garbage() == 0
    bucket = f"file://{tmp_path}/bucket"
    cli(["tier", "verify", "--bucket", bucket, "--deep", "--grace", "1h"], standalone_mode=False)
