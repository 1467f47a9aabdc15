"""Looking archived records up by time, one object after the other."""

from __future__ import annotations

import os

import pytest

from stratalog.broker.cold.times import RemoteTimes
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.manifests.view import NO_ENTRIES, ManifestView
from stratalog.tier.messages import commands
from stratalog.tier.reading.remote_log import RemoteLog
from stratalog.wire.errors import KafkaError

US = Claimant(0, 1, bytes(16))
PARTITION = PartitionId("t", bytes(16), 0)


def entry(base, latest):
    """A range of ten offsets with this largest timestamp."""
    uuid = os.urandom(16)
    key = PARTITION.segment_key(base, base + 10, 1, uuid)
    return Entry(uuid, base, base + 10, 1, key, 10, 10, 0, 0, 0, 0, 0, latest, base, 1, 10)


class Archive:
    """Ranges with these largest timestamps; what objects hold is given as timestamp by offset."""

    def __init__(self, latest):
        manifest = claim(Manifest(PARTITION), US, now_ms=1)
        uploads = [Uploaded(entry(10 * n, each), US) for n, each in enumerate(latest)]
        self.manifest = commit(manifest, US, uploads, now_ms=2)
        self.records = {}
        self.gone = set()
        self.asked = []
        self.reads = 0
        self.start_offset, self.end_offset = 0, 10 * len(latest)
        self.is_stale, self.seen_seq = False, -1
        self.remote = RemoteLog(PARTITION)
        self.times = RemoteTimes(PARTITION, self.remote, self, self.submit)

    def submit(self, command, answered):
        if isinstance(command, commands.ReadManifest):
            self.reads += 1
            answered(commands.ManifestRead(ManifestView.of(self.manifest, "v")))
            return
        base = next(e.base for e in self.manifest.entries if e.key == command.key)
        self.asked.append(base)
        if base in self.gone:
            answered(commands.MissingReport(command.key, "it is gone"))
            return
        if isinstance(command, commands.FindLargestTimestamp):
            left = [
                n for n in self.records if max(base, command.start_offset) <= n < min(base + 10, command.end_offset)
            ]
            largest = max(left, key=lambda n: (self.records[n], -n), default=None)
            found = (
                commands.TimestampFound()
                if largest is None
                else commands.TimestampFound(self.records[largest], largest, 1)
            )
            answered(found)
            return
        found = [
            offset
            for offset, timestamp in sorted(self.records.items())
            if base <= offset < base + 10 and timestamp >= command.timestamp_ms and offset >= command.start_offset
        ]
        answered(commands.TimestampFound(self.records[found[0]], found[0], 1) if found else commands.TimestampFound())

    def apply(self, view, *, asked_seq):
        assert view.seq >= asked_seq
        self.remote.merge(view)

    def raise_remembered(self):
        """Never raises: this manifest is always whole."""

    def unload(self):
        self.remote.unload()


async def test_objects_are_asked_in_order_until_one_knows():
    """Only those that may hold the time; the manifest is read once, when it is first needed."""
    archive = Archive([5, 50, 20, 60])
    archive.records = {12: 30, 33: 60}
    assert archive.times.may_hold(1000, 40)
    assert (await archive.times.find_timestamp(45, 0, 40)).offset == 33
    assert (archive.asked, archive.reads) == ([10, 30], 1)
    assert not archive.times.may_hold(1000, 40)
    assert archive.times.may_hold(50, 11)
    assert not archive.times.may_hold(50, 10)


async def test_a_look_up_ends_at_the_border():
    """Local offsets are not looked for in the archive."""
    archive = Archive([5, 50])
    archive.records = {15: 50}
    assert await archive.times.find_timestamp(45, 0, 10) is None
    assert await archive.times.find_timestamp(45, 16, 20) is None
    assert archive.asked == [10]


async def test_an_object_that_is_gone_twice_is_an_error():
    """Once it may have been replaced: the manifest is read again."""
    archive = Archive([5, 50])
    archive.gone = {10}
    for look_up in (lambda: archive.times.find_timestamp(45, 0, 20), lambda: archive.times.find_max_timestamp(20)):
        archive.asked, archive.reads = [], 0
        archive.remote.unload()
        with pytest.raises(KafkaError, match="gone"):
            await look_up()
        assert (archive.asked, archive.reads) == ([10, 10], 2)


async def test_the_largest_time_is_in_the_first_object_that_has_it():
    """An empty archive has none."""
    archive = Archive([5, 50, 50])
    archive.records = {11: 50, 21: 50}
    assert (await archive.times.find_max_timestamp(30)).offset == 11
    assert await archive.times.find_max_timestamp(10) is None
    assert await Archive([]).times.find_max_timestamp(10) is None


@pytest.mark.parametrize(
    ("records", "offset"),
    [
        ({2: 60, 5: 55, 13: 50}, 5),
        ({2: 60, 5: 50, 13: 50}, 5),
        ({2: 60, 5: 45, 13: 50}, 13),
        ({2: 60, 13: 50}, 13),
        ({2: 60, 8: 60, 13: 50}, 8),
    ],
)
async def test_the_largest_time_is_that_of_a_record_that_is_left(records, offset):
    """The log start lies within an object, whose largest time was that of a deleted record: nothing was found."""
    archive = Archive([60, 50])
    archive.records, archive.start_offset = records, 5
    assert (await archive.times.find_max_timestamp(20)).offset == offset
    archive.start_offset = 10
    assert (await archive.times.find_max_timestamp(20)).offset == 13


async def test_the_largest_time_that_is_left_may_be_in_the_local_log():
    """Its own look-up finds it there; an object that is gone is an error, if it is gone twice."""
    archive = Archive([60])
    archive.records, archive.start_offset = {2: 60, 8: 55}, 5
    assert await archive.times.find_max_timestamp(8) is None
    assert (await archive.times.find_max_timestamp(9)).offset == 8
    archive.records = {2: 60}
    assert await archive.times.find_max_timestamp(9) is None
    archive.gone, archive.asked = {0}, []
    with pytest.raises(KafkaError, match="gone"):
        await archive.times.find_max_timestamp(9)
    assert archive.asked == [0, 0]


async def test_a_manifest_that_a_commit_overtook_is_read_again():
    """An answer older than what is known brings no ranges: they are asked for again, not taken to be none."""
    archive = Archive([5, 50, 20, 60])
    archive.records = {12: 50}
    archive.remote.merge(ManifestView.of(archive.manifest, "v", NO_ENTRIES))
    newer = commit(archive.manifest, US, [Uploaded(entry(40, 70), US)], now_ms=3)
    submit = archive.submit

    def overtaken(command, answered):
        if isinstance(command, commands.ReadManifest) and archive.manifest is not newer:
            archive.remote.merge(ManifestView.of(newer, "w", NO_ENTRIES))
            submit(command, answered)
            archive.manifest = newer
        else:
            submit(command, answered)

    archive.times = RemoteTimes(PARTITION, archive.remote, archive, overtaken)
    assert (await archive.times.find_timestamp(45, 0, 40)).offset == 12
    assert archive.reads == 2
