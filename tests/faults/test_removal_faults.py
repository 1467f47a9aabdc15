"""Writing, retention, the emptying of the trash and garbage collection against a store that fails in every way.

Requests are refused, applied with the answer lost, applied much later, damaged on their way, listings are old; leaders
replace each other and the old ones do not know. After every step all that is live is there; in the end the archive
holds what was acknowledged, and the bucket holds nothing but what manifests name.
"""

from __future__ import annotations

import os
import random

import pytest

from stratalog.tier.bucket.trash import DELETED_RECORDS
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.leases import SKEW_MS, end_lease, write_lease
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.named_keys import named_keys
from stratalog.tier.manifests.pages import INLINE_MAX
from stratalog.tier.messages import commands
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import StoreError, StoreUnavailable
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.garbage_collection import GarbageOptions, collect
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import StratalogError

PARTITION = PartitionId("orders", bytes(range(16)), 0)
GRACE = 10_000
WRITES = {"put", "put_if_absent", "compare_and_swap", "delete_many"}
FAULTS = [Fault.FAIL_BEFORE, Fault.CONFLICT, Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT]


class LateStore(StoreWrapper):
    """Some writes are applied long after their sender has given them up; some listings are those of a while ago."""

    def __init__(self, inner, dice):
        super().__init__(inner)
        self.dice = dice
        self.late = []
        self.lateness = 0.0
        self.old = []

    def _around(self, call, run):
        if call.operation in WRITES and self.dice.random() < self.lateness:
            self.late.append(run)
            raise StoreUnavailable(call.operation, call.key, self.url, "no answer in time")
        return run()

    def land(self):
        """One of them is applied now, or refused by its condition; the answer is lost."""
        if self.late:
            try:
                self.late.pop(self.dice.randrange(len(self.late)))()
            except StoreError:
                return

    def list(self, prefix, start_after=""):
        """Old listings are only seen where correctness may not depend on them: not of leases, not of cuts."""
        if self.old and prefix.startswith("topics/") and self.dice.random() < self.lateness:
            return iter([info for info in self.old if info.key.startswith(prefix) and info.key > start_after])
        self.old = list(self.inner.list("topics/"))
        return self.inner.list(prefix, start_after)


class Leader:
    """One leadership: what it has uploaded, and where it believes the archive ends."""

    def __init__(self, epoch):
        self.claimant = Claimant(0, epoch, os.urandom(16), epoch % 3)
        self.uploads, self.end = [], None


class World:
    """Segments of ten offsets, leaders that come and do not go, a clock."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.now_ms = 10**9
        self.memory = MemoryStore("memory:faults", clock_ms=lambda: self.now_ms)
        self.late = LateStore(self.memory, self.dice)
        self.faulty = FaultyStore(self.late, seed=seed)
        self.worker = Worker(self.faulty)
        self.leaders = [Leader(1)]
        self.acknowledged = self.log_start = 0
        self.protected = {}

    def ask(self, command):
        """Carry a command out."""
        return self.worker.execute(command)

    def segment(self, base):
        """The ten records from ``base`` on: the same with any leader."""
        return bytes(
            build_batch([Record(base + n, base + n, b"k", b"v%d" % (base + n)) for n in range(10)], leader_epoch=1)
        )

    # -- steps ------------------------------------------------------------------------------------------------------

    def write(self, leader):
        """Claim, upload one or two ranges, commit what is uploaded."""
        if leader.end is None:
            report = self.ask(commands.Claim(PARTITION, leader.claimant, self.now_ms, 0))
            if not isinstance(report, commands.ManifestRead):
                return
            leader.end = report.view.remote_end
        base = leader.uploads[-1].entry.end if leader.uploads else leader.end
        request = SegmentRequest(
            partition=PARTITION, uuid=os.urandom(16), base=base, end=base + 10, epoch=leader.claimant.leader_epoch,
            source=(self.segment(base),), writer="test", broker_id=1, uploaded_ms=self.now_ms,
        )  # fmt: skip
        report = self.ask(commands.Upload(request, leader.claimant))
        if isinstance(report, commands.UploadDone):
            leader.uploads.append(report.uploaded)
        if leader.uploads and self.dice.random() < 0.7:
            self.commit(leader)

    def commit(self, leader):
        """The uploaded ranges."""
        report = self.ask(commands.Commit(PARTITION, leader.claimant, tuple(leader.uploads), self.now_ms))
        if isinstance(report, commands.ManifestRead):
            leader.end, leader.uploads = report.view.remote_end, []
            self.acknowledged = max(self.acknowledged, leader.end)
        elif isinstance(report, commands.MovedReport):
            leader.end, leader.uploads = report.remote_end, []

    def expire(self, leader):
        """Move the log start."""
        if leader.end:
            offset = self.dice.randrange(leader.end + 1)
            command = commands.SetLogStart(PARTITION, leader.claimant, offset, self.now_ms, DELETED_RECORDS)
            if isinstance(self.ask(command), commands.ManifestRead):
                self.log_start = max(self.log_start, offset)

    def empty(self, leader):
        """Empty the trash."""
        self.ask(commands.EmptyTrash(PARTITION, leader.claimant, self.now_ms, GRACE, None, items_max=5))

    def gc(self, _):
        """An operator collects garbage."""
        try:
            list(collect(self.faulty, GarbageOptions(self.now_ms, GRACE, apply=True)))
        except StratalogError:
            return

    def lease(self, _):
        """A long reader comes, or goes."""
        if self.protected:
            uuid = next(iter(self.protected))
            del self.protected[uuid]
            end_lease(self.memory, uuid)
            return
        uuid = os.urandom(16)
        write_lease(self.memory, uuid, 10**8, self.now_ms)
        self.protected[uuid] = [entry.key for entry in iter_entries(self.memory, self.manifest)]

    def step(self):
        """Anything may happen next, by any leader, also one that was replaced long ago."""
        act = self.dice.choice([self.write] * 5 + [self.expire, self.empty, self.empty, self.gc, self.lease])
        act(self.dice.choice(self.leaders[-3:]))
        if self.dice.random() < 0.1:
            self.leaders.append(Leader(self.leaders[-1].claimant.leader_epoch + 1))
        if self.dice.random() < 0.3:
            self.late.land()
        self.now_ms += self.dice.choice([1, 1000, GRACE, GRACE + SKEW_MS])

    # -- what has to hold ---------------------------------------------------------------------------------------------

    @property
    def manifest(self):
        """As it stands in the store."""
        return read_manifest(self.memory, PARTITION).manifest

    def check(self):
        """All that is live, or leased, is there."""
        manifest = self.manifest
        at = manifest.remote_start
        for entry in iter_entries(self.memory, manifest):
            assert entry.base == at
            assert self.memory.head(entry.key).size_bytes == entry.size_bytes
            at = entry.end
        assert at == manifest.remote_end >= self.acknowledged
        for keys in self.protected.values():
            for key in keys:
                assert self.memory.head(key)

    def settle(self):
        """The faults end: the last leader finishes its work, the next one claims, and the bucket is cleaned."""
        self.faulty.set_rules([])
        self.late.lateness = 0.0
        while self.late.late:
            self.late.land()
        for uuid in list(self.protected):
            end_lease(self.memory, uuid)
        last = Leader(self.leaders[-1].claimant.leader_epoch + 1)
        while not isinstance(self.ask(commands.Claim(PARTITION, last.claimant, self.now_ms, 0)), commands.ManifestRead):
            continue
        for _ in range(60):
            self.now_ms += GRACE + SKEW_MS + 1
            self.empty(last)
            self.gc(last)


@pytest.mark.story
@pytest.mark.parametrize("seed", range(12))
def test_no_record_is_lost_and_no_object_is_left(seed):
    """Faults of every kind at every request."""
    world = World(seed)
    rules = [FaultRule(fault, count=None, probability=world.dice.choice([0.02, 0.08])) for fault in FAULTS]
    damage = [
        FaultRule(fault, "get_*", r"\.seg", count=None, probability=0.05) for fault in (Fault.CORRUPT, Fault.TRUNCATE)
    ]
    world.faulty.set_rules([*rules, *damage])
    world.late.lateness = world.dice.choice([0.0, 0.1, 0.2])
    for _ in range(150):
        world.step()
        world.check()
    assert world.faulty.injected
    world.settle()
    world.check()
    manifest = world.manifest
    assert manifest.trash == ()
    assert manifest.log_start_offset >= world.log_start
    for entry in iter_entries(world.memory, manifest):
        data = world.memory.get(entry.key)[0][: entry.data_bytes]
        assert data == b"".join(world.segment(base) for base in range(entry.base, entry.end, 10))
    stored = {info.key for info in world.memory.list(PARTITION.prefix)}
    assert stored == named_keys(world.memory, manifest) | {PARTITION.manifest_key}, "the bucket leaks objects"


@pytest.mark.story
def test_a_long_archive_with_pages_is_emptied_and_collected():
    """Pages go with their objects; whatever a lost spill has left is collected."""
    world = World(99)
    leader = world.leaders[0]
    while (leader.end or 0) < 10 * (INLINE_MAX + 30):
        world.write(leader)
    assert world.manifest.pages
    world.faulty.set_rules([FaultRule(Fault.DROP_AFTER_COMMIT, count=None, probability=0.2)])
    command = commands.SetLogStart(PARTITION, leader.claimant, 10 * INLINE_MAX - 5, world.now_ms, DELETED_RECORDS)
    while not isinstance(world.ask(command), commands.ManifestRead):
        world.now_ms += 1
    for _ in range(40):
        world.empty(leader)
        world.now_ms += GRACE + 1
    world.settle()
    world.check()
    manifest = world.manifest
    assert manifest.remote_start == 10 * INLINE_MAX - 10
    stored = {info.key for info in world.memory.list(PARTITION.prefix)}
    assert stored == named_keys(world.memory, manifest) | {PARTITION.manifest_key}
