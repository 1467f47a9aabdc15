"""The broker or its worker is killed at every step on the way into the archive; the next start goes on.

Each point is killed once, by `dying/sitecustomize.py`, in a real process on real directories. Whatever died: every
acknowledged record is read once and in order, the manifest's ranges follow each other and each has its object, what
is local may go, and the archive goes on to the end of what is frozen.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stratalog.broker.broker_link import check
from stratalog.broker.client import Client
from stratalog.broker.client_admin import create_topic
from stratalog.broker.client_records import NewRecord, Producer, fetch, visible_records
from stratalog.tier import open_store
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest_store import read_manifest
from stratalog.wire.errors import Retriable
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)
DYING = Path(__file__).parent / "dying"
WAIT_SECONDS = 30
SETTINGS = (
    "log.segment.delete.delay.ms=50",
    "log.retention.check.interval.ms=100",
    "log.flush.offset.checkpoint.interval.ms=100",
    "remote.log.manager.task.retry.backoff.ms=20",
    "log.flush.interval.messages=9223372036854775807",
)
TOPIC = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "6000",
    "local.retention.bytes": "0",
    "retention.ms": "-1",
}

ARCHIVE = "stratalog.broker.archive:Archive"
COMMANDS = "stratalog.tier.archive_commands:"
STORE = "stratalog.tier.local_store:LocalStore"
POINTS = {
    "the claim is sent": f"{ARCHIVE}:_claim:after:1",
    "the claim stands, unknown": f"{ARCHIVE}:_claimed:before:1",
    "an upload is chosen": f"{ARCHIVE}:_upload:before:2",
    "an upload is sent": f"{ARCHIVE}:_upload:after:2",
    "the worker has read the segment": "stratalog.tier.segment_upload::put_segment:before:2",
    "the object is there, unchecked": "stratalog.tier.segment_upload::verify_object:before:2",
    "the object is written, unnamed": "stratalog.tier.local_files:LocalFiles:link:before:2",
    "the object is checked, not reported": f"{COMMANDS}:upload:after:2",
    "the upload is reported, unknown": f"{ARCHIVE}:_uploaded:before:2",
    "the commit is sent": f"{ARCHIVE}:_commit:after:2",
    "the manifest is about to be replaced": f"{STORE}:compare_and_swap:before:2",
    "the manifest is replaced, unanswered": f"{STORE}:compare_and_swap:after:2",
    "the commit is done, unknown": f"{ARCHIVE}:_committed:before:2",
    "the commit is known": f"{ARCHIVE}:_committed:after:2",
    "objects are read back, not reported": f"{COMMANDS}:read_back:after:2",
    "a read-back is reported, unknown": f"{ARCHIVE}:_verified:before:2",
    "local files may go": "stratalog.hot.log_trim:LogTrim:delete_local_before:before:2",
    "the local start has moved, files are left": "stratalog.hot.log_trim:LogTrim:_doom_leaving:before:1",
    "local files have their last names": "stratalog.hot.log_trim:LogTrim:delete_local_before:after:2",
    "local files go": "stratalog.hot.removal:FileRemoval:run:before:2",
    "local files are gone": "stratalog.hot.removal:FileRemoval:run:after:1",
    "the archive is not checkpointed": "stratalog.broker.tiering:Tiering:checkpoint:before:4",
    "the manifest hears of a log start": f"{ARCHIVE}:_set_log_start:before:1",
    "the manifest has heard of a log start": f"{ARCHIVE}:_log_start_moved:before:1",
}

ALWAYS = frozenset(
    {
        "the claim stands, unknown",
        "the object is there, unchecked",
        "the upload is reported, unknown",
        "the manifest is replaced, unanswered",
        "local files have their last names",
        "the manifest has heard of a log start",
    }
)
"""Those of the default run; `make test-slow` kills at all of them."""


class Broker:
    """A broker of its own process on the test's directories; ``dies_at`` a point of `POINTS`, it or its worker."""

    def __init__(self, home: Path, dies_at: str = "") -> None:
        self.marker = home / "died"
        command = [sys.executable, "-m", "stratalog", "serve", "--data", str(home / "data")]
        command += ["--bucket", f"file://{home}/bucket", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        for one in SETTINGS:
            command += ["--set", one]
        environment = dict(os.environ)
        if dies_at:
            environment["DIES_AT"] = f"{dies_at}:{self.marker}"
            paths = (str(DYING), environment.get("PYTHONPATH", ""))
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        with (home / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), (home / "stderr").read_text()[-3000:]
        self.client = Client(dict(word.split("=", 1) for word in line.split()[1:])["kafka"], timeout_seconds=20)

    def kill(self) -> None:
        """End it, if it is still there."""
        self.client.close()
        self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()


class Story:
    """What was written, and what must be read."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.acknowledged: list[tuple[int, bytes]] = []
        self.unknown: set[bytes] = set()
        self.log_start = 0
        self.topic_id = b""

    def write(self, broker: Broker, batches: int = 1) -> None:
        """Batches of ten records; one whose answer does not come may be there or not."""
        producer = Producer(broker.client, "t")
        for _ in range(batches):
            number = len(self.acknowledged) + len(self.unknown)
            values = [b"%d-" % (number + n) + b"." * 190 for n in range(10)]
            try:
                delivered = producer.send([NewRecord(value, 1_700_000_000_000, partition=0) for value in values])
            except BaseException:
                self.unknown.update(values)
                raise
            self.acknowledged += [(one.offset, value) for one, value in zip(delivered, values, strict=True)]

    def delete_first(self, broker: Broker) -> None:
        """Delete the first quarter of what was acknowledged (DeleteRecords)."""
        offset = self.acknowledged[len(self.acknowledged) // 4][0]
        topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        self.log_start = offset  # from the request on they may be gone
        (node_id,) = broker.client.by_leader({NAME: None})
        answer = broker.client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), node_id)
        check(answer.topics[0].partitions[0].error_code)

    def until_it_dies(self, broker: Broker) -> None:
        """Write, and delete once something is archived, until the point was reached."""
        deleted = False
        until = time.monotonic() + WAIT_SECONDS
        with suppress(Retriable, OSError):
            while not broker.marker.exists():
                assert time.monotonic() < until, "the point was never reached"
                self.write(broker)
                if not deleted and self.manifest().remote_end > 100:
                    self.delete_first(broker)
                    deleted = True
                time.sleep(0.02)

    def manifest(self):
        """The manifest, after a check that its ranges follow each other and each has its object."""
        store = open_store(f"file://{self.home}/bucket")
        manifest = read_manifest(store, PartitionId("t", self.topic_id, 0)).manifest
        at = manifest.remote_start
        for entry in manifest.entries:
            assert entry.base == at
            assert store.head(entry.key).crc32c == entry.crc32c
            at = entry.end
        assert at == manifest.remote_end
        return manifest

    def check(self, broker: Broker) -> None:
        """Everything acknowledged is read once, in order, at its offset; what was not answered at most once."""
        found = list(read_from(broker.client, self.log_start))
        values = [value for _, value in found]
        assert len(values) == len(set(values))
        assert [one for one in found if one[1] not in self.unknown] == [
            one for one in self.acknowledged if one[0] >= self.log_start
        ]


def read_from(client: Client, position: int) -> Iterator[tuple[int, bytes]]:
    """Offset and value of every record from ``position`` on."""
    while True:
        (found,) = fetch(client, {NAME: position})
        for next_offset, records in visible_records(found, position):
            yield from ((record.offset, record.value) for record in records)
            position = next_offset
        if position >= found.high_watermark:
            return


@pytest.fixture
def brokers(tmp_path):
    running = []

    def start(dies_at=""):
        running.append(Broker(tmp_path, dies_at))
        return running[-1]

    yield start
    for one in running:
        one.kill()


@pytest.mark.parametrize(
    "point", [pytest.param(one, marks=() if one in ALWAYS else pytest.mark.slow) for one in POINTS]
)
def test_whatever_is_killed_the_archive_goes_on(brokers, tmp_path, point):
    """Killed once at the point, by SIGKILL; then a start without it."""
    story = Story(tmp_path)
    broker = brokers(POINTS[point])
    story.topic_id = create_topic(broker.client, "t", partition_count=1, configs=TOPIC).topic_id
    story.until_it_dies(broker)
    broker.kill()
    story.manifest()
    broker = brokers()
    story.check(broker)
    story.write(broker, 8)
    until = time.monotonic() + WAIT_SECONDS
    while story.manifest().remote_end < story.acknowledged[-80][0]:
        assert time.monotonic() < until, "the archive did not go on"
        time.sleep(0.05)
    story.check(broker)
