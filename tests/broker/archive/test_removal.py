"""One leadership's removals, driven by hand: when it looks, what it asks for, what answers mean."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stratalog.broker.archive.removal import ArchiveRemoval, RemovalPorts, RemovalSettings
from stratalog.hot.config import LogConfig
from stratalog.tier.bucket.trash import TIERING_OFF, Retention
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from tests.broker.archive.archive_rig import PARTITION as ARCHIVED
from tests.broker.archive.archive_rig import Rig as ArchiveRig

PARTITION = PartitionId("t", bytes(16), 0)
US = Claimant(0, 1, bytes(16))
ON = LogConfig(remote_storage_enable=True, retention_ms=5000)
OFF = replace(ON, remote_storage_enable=False, remote_delete_on_disable=True)


class Log:
    """Where a log begins, locally and for readers."""

    def __init__(self):
        self.config = ON
        self.log_start_offset, self.local_log_start_offset, self.first_base_offset = 0, 40, 40

    def advance_log_start(self, offset):
        """As a log does."""
        moved = offset > self.log_start_offset
        self.log_start_offset = max(self.log_start_offset, offset)
        return moved


class Rig:
    """A leadership with nothing in it but its removal."""

    def __init__(self):
        self.sent, self.now_ms, self.calls = [], 0, []
        self.kept = True
        self.log = Log()
        self.unified = SimpleNamespace(log=self.log, partition=SimpleNamespace(high_watermark=100))
        self.remote = SimpleNamespace(
            facts=SimpleNamespace(seq=5, deleted=False, trash_count=0),
            entries=None,
            known=True,
            start_offset=0,
            size_bytes=0,
            apply=lambda view: setattr(self.remote, "facts", view),
            refresh=lambda **_: self.calls.append("refresh"),
            note_trash=lambda report: setattr(self.remote.facts, "trash_count", report.left_count),
        )
        ports = RemovalPorts(
            send=lambda command, answered: self.sent.append((command, answered)),
            want_claim=lambda: self.calls.append("claim"),
            ended=lambda report: isinstance(report, commands.FencedReport),
            emptied=lambda: self.calls.append("emptied"),
            keep_log_start=lambda _: self.calls.append("kept") or self.kept,
            now_ms=lambda: 1_000_000 + self.now_ms,
            elapsed_ms=lambda: self.now_ms,
            chance=lambda: 0.5,
        )
        settings = RemovalSettings(lambda: 700, lambda: 100)
        self.removal = ArchiveRemoval(self.unified, self.remote, PARTITION, US, settings, ports)

    def look(self, *, held=True, after_ms=0):
        """Look, some time later; what was sent since."""
        self.now_ms += after_ms
        before = len(self.sent)
        self.removal.look(held=held)
        return [command for command, _ in self.sent[before:]]

    def answer(self, report):
        """The worker's answer to what was sent last."""
        self.sent[-1][1](report)


@pytest.fixture
def rig():
    """Half of ten intervals away from its first look."""
    return Rig()


def test_the_first_look_comes_by_chance_and_only_once(rig):
    """With the grace and the retention of now; while it is under way nothing else is asked."""
    assert rig.look() == []
    (command,) = rig.look(after_ms=500)
    assert command == commands.EmptyTrash(PARTITION, US, 1_000_500, 700, Retention(5000, -1, 0))
    assert rig.look(after_ms=10_000) == []
    rig.answer(commands.TrashEmptied(seq=5))
    assert rig.look(after_ms=10**9) == [], "nothing is left: nothing to look for"


def test_changes_by_others_are_noticed_in_time(rig):
    """Within an hour, also where nothing is archived; nothing is asked where nothing is known."""
    rig.look(after_ms=1_799_999)
    assert rig.calls == []
    rig.look(after_ms=1)
    assert rig.calls == ["refresh"]
    rig.look(after_ms=3_599_999)
    assert rig.calls == ["refresh"]
    rig.remote.facts = None
    rig.look(after_ms=1)
    assert rig.calls == ["refresh"]


def test_an_archive_that_begins_before_the_log_is_looked_at(rig):
    """Its leader may have died before the manifest heard of the log start; without writes no other event asks."""
    rig.remote.facts = None
    rig.look(after_ms=10_000)
    assert rig.calls == []
    rig.log.log_start_offset = 41
    rig.look()
    assert rig.calls == ["refresh"]
    rig.look(after_ms=99)
    assert rig.calls == ["refresh"]
    rig.look(after_ms=1)
    assert rig.calls == ["refresh", "refresh"], "the bucket did not answer"
    rig.remote.facts = SimpleNamespace(seq=5, deleted=False, trash_count=0)
    rig.look(after_ms=100)
    assert rig.calls == ["refresh", "refresh"]


def test_new_trash_is_looked_after(rig):
    """As soon as a manifest says that there is some; one that is older than the last look says nothing new."""
    rig.look(after_ms=500)
    rig.answer(commands.TrashEmptied(seq=8))
    rig.remote.facts = SimpleNamespace(seq=8, deleted=False, trash_count=3)
    assert rig.look(after_ms=1000) == []
    rig.remote.facts = SimpleNamespace(seq=9, deleted=False, trash_count=3)
    assert rig.look() == []
    assert len(rig.look(after_ms=100)) == 1


def test_remaining_trash_is_looked_after_when_its_grace_ends(rig):
    """But not more often than the interval says."""
    rig.look(after_ms=500)
    rig.answer(commands.TrashEmptied(left_count=2, next_ms=1_000_500 + 900, seq=6))
    assert rig.look(after_ms=900) == []
    assert len(rig.look(after_ms=1)) == 1
    rig.answer(commands.TrashEmptied(left_count=2, next_ms=5, seq=6))
    assert rig.look(after_ms=99) == []
    assert len(rig.look(after_ms=1)) == 1


def test_trash_held_for_long_is_looked_at_less_often(rig):
    """Up to once in twenty intervals; whatever goes makes it quick again."""
    rig.look(after_ms=500)
    for _ in range(60):
        rig.answer(commands.TrashEmptied(left_count=2, next_ms=5, seq=6))
        assert len(rig.look(after_ms=2000)) == 1
    rig.answer(commands.TrashEmptied(left_count=2, next_ms=5, seq=6))
    assert rig.look(after_ms=1999) == []
    assert len(rig.look(after_ms=1)) == 1
    rig.answer(commands.TrashEmptied(removed_count=1, left_count=1, next_ms=5, seq=6))
    assert len(rig.look(after_ms=100)) == 1


def test_a_claim_is_wanted_where_one_is_needed(rig):
    """And the trash is looked after again."""
    rig.look(after_ms=500)
    rig.answer(commands.TrashEmptied(left_count=1, claim_needed=True))
    assert rig.calls == ["claim"]
    assert len(rig.look(after_ms=100)) == 1


def test_failures_are_logged_once_and_repeated(rig, caplog):
    """Being fenced is the end."""
    rig.look(after_ms=500)
    rig.answer(commands.FailedReport("the bucket is down", retriable=True))
    rig.look(after_ms=100)
    rig.answer(commands.FailedReport("the bucket is down", retriable=True))
    assert len(caplog.records) == 1
    rig.look(after_ms=100)
    rig.answer(commands.FencedReport("a newer leader"))
    assert rig.look(after_ms=10**9) == []


def test_retention_that_cannot_be_counted_keeps_more(rig):
    """A size limit without known sizes; no policy to delete; an archive that is wanted no more."""
    rig.log.config = replace(ON, retention_bytes=10)
    (command,) = rig.look(after_ms=500)
    assert command.retention == Retention(5000, 10, 0)
    rig.answer(commands.TrashEmptied(left_count=1))
    rig.log.config = replace(ON, cleanup_policy=frozenset({"compact"}))
    (command,) = rig.look(after_ms=100)
    assert command.retention == Retention(-1, -1, 0)
    rig.answer(commands.TrashEmptied(left_count=1))
    rig.log.config = replace(ON, remote_storage_enable=False)
    (command,) = rig.look(after_ms=100)
    assert command.retention is None


def test_switching_off_moves_the_log_start_first(rig):
    """Durably: while that fails the archive stays. Then it goes as a whole, and the leadership begins anew."""
    rig.log.config = OFF
    rig.kept = False
    assert rig.look() == []
    assert (rig.log.log_start_offset, rig.calls) == (40, ["kept"])
    rig.kept = True
    (command,) = rig.look(after_ms=100)
    assert command == commands.TrashArchive(PARTITION, US, 1_000_100, TIERING_OFF)
    rig.answer(commands.ManifestRead(SimpleNamespace(seq=6, deleted=True, trash_count=4)))
    assert rig.calls == ["kept", "kept", "emptied"]
    assert rig.look() == []
    assert isinstance(rig.look(after_ms=100)[0], commands.EmptyTrash)


def test_switching_off_claims_and_reads_what_it_has_to_know(rig):
    """An archive that never was needs nothing at all."""
    rig.log.config = OFF
    facts, rig.remote.facts = rig.remote.facts, None
    assert rig.look() == []
    rig.remote.facts = facts
    assert rig.look(held=False) == []
    assert rig.calls == ["kept", "refresh", "kept", "claim"]
    rig.remote.facts = SimpleNamespace(seq=0, deleted=False, trash_count=0)
    assert rig.look() == []
    assert rig.look(after_ms=499) == []


@pytest.mark.parametrize("on_again", [False, True])
def test_an_archive_that_comes_about_later_goes_when_tiering_is_off(rig, on_again):
    """By a claim that was under way, or because tiering was on again in between."""
    rig.log.config = OFF
    none, rig.remote.facts = SimpleNamespace(seq=0, deleted=False, trash_count=0), rig.remote.facts
    some, rig.remote.facts = rig.remote.facts, none
    assert rig.look() == []
    assert rig.look(after_ms=99) == []
    assert rig.calls == ["kept"]
    if on_again:
        rig.log.config = ON
        assert rig.look() == []
        rig.log.config, rig.log.local_log_start_offset = OFF, 60
    rig.remote.facts = some
    assert isinstance(rig.look(after_ms=0 if on_again else 1)[0], commands.TrashArchive)
    assert rig.log.log_start_offset == (60 if on_again else 40)


def test_switching_off_goes_on_after_a_failure(rig, caplog):
    """Later; a leader that was fenced leaves it to the next one."""
    rig.log.config = OFF
    rig.look()
    rig.answer(commands.FailedReport("down", retriable=True))
    assert "down" in caplog.text
    assert rig.look(after_ms=99) == []
    assert isinstance(rig.look(after_ms=1)[0], commands.TrashArchive)


def test_a_manifest_that_cannot_be_read_is_read_less_and_less_often(rig):
    """A look comes four times a second, and an outage may last a day."""
    rig.log.config = OFF
    facts, rig.remote.facts, rig.remote.start_offset = rig.remote.facts, None, 40
    rig.remote.known = False
    for _ in range(240):
        rig.look(after_ms=250)
    assert 5 < rig.calls.count("refresh") < 15
    rig.remote.facts = facts
    assert isinstance(rig.look()[0], commands.TrashArchive)


@pytest.mark.parametrize("remembered", [True, False], ids=["after a start", "taken over"])
def test_the_trash_of_a_job_is_emptied_where_a_partition_is_neither_written_nor_read(tmp_path, remembered):
    """An erasure may be such a job. No reader asks for the manifest there, and this leadership has not claimed it."""
    rig = ArchiveRig(tmp_path)
    rig.write(12)
    rig.settle()
    rig.archive = rig.lead(2, rig.unified.remote.state if remembered else None)
    for _ in range(60):
        rig.settle()  # its own first look is over
    now_ms = rig.now_ms
    merge = commands.MergeObjects(
        ARCHIVED, Claimant(0, 1, bytes([1]) * 16), b"m" * 16, 2, 1 << 20, now_ms, now_ms + 3_600_000
    )
    merged = rig.worker.execute(merge)
    assert isinstance(merged, commands.ObjectsMerged)
    assert len(rig.manifest.trash) == merged.object_count > 1
    for _ in range(1000):
        rig.settle()
    assert rig.manifest.trash == ()
    assert rig.manifest.claimant.leader_epoch == 2
