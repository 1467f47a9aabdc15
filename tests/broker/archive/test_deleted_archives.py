"""Archives of deleted topics: noted, removed step by step, forgotten when nothing is left; also across restarts."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stratalog.broker.archive.deleted_archives import (
    DeletedArchive,
    DeletedArchives,
    DeletionPorts,
    removed_archives,
)
from stratalog.hot.storage.checkpoint import DELETED_ARCHIVES
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.bucket.trash import TOPIC_DELETED
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.wire.errors import KafkaError
from stratalog.wire.records.metadata import RemoveTopicRecord

ID, OTHER = bytes([1] * 16), bytes([2] * 16)


def archive(partition=0, topic_id=ID):
    """A note."""
    return DeletedArchive(PartitionId("t", topic_id, partition), Claimant(0, 8, bytes([partition] * 16), 1))


class Full(RealFilesystem):
    """A disk that may be full."""

    full = False

    def open_append(self, path):
        """Refused when it is."""
        if self.full:
            raise OSError(28, "No space left on device", path)
        return super().open_append(path)


class Rig:
    """The archives of deleted topics of one run after the other; the worker is the test."""

    def __init__(self, directory, *, read_only=False):
        self.directory, self.files, self.read_only = str(directory), Full(), read_only
        self.start()

    def start(self, living=()):
        """A new run."""
        self.restarted()
        self.archives.start(living)

    def restarted(self):
        """A new run, which has read the notes and has not started yet."""
        self.sent, self.waiting, self.now_ms = [], [], 5
        ports = DeletionPorts(
            submit=lambda command, answered: self.sent.append((command, answered)),
            now_ms=lambda: self.now_ms,
            later=lambda seconds, call: self.waiting.append((seconds, call)),
            grace_ms=lambda: 50_000,
            interval_ms=lambda: 2_000,
            read_only=self.read_only,
        )
        self.archives = DeletedArchives(self.files, self.directory, "cluster", ports)
        self.archives.load()

    @property
    def waits(self):
        """The lengths of the waits that have begun, in seconds."""
        return [seconds for seconds, _ in self.waiting]

    def take(self, kind):
        """The oldest command of this kind that waits for its answer, and how to answer it."""
        at = next(n for n, (command, _) in enumerate(self.sent) if isinstance(command, kind))
        return self.sent.pop(at)

    def answer(self, kind, report):
        """Answer the oldest command of this kind; the command."""
        command, answered = self.take(kind)
        answered(report)
        return command

    def wake(self):
        """End the wait; returns its length in seconds."""
        waited, self.waiting = self.waiting, []
        for _, call in waited:
            call()
        return [seconds for seconds, _ in waited]

    @property
    def noted(self):
        """The note on disk."""
        return [
            one["partition"] for one in json.loads((Path(self.directory) / DELETED_ARCHIVES).read_text())["archives"]
        ]


TRASHED = commands.ManifestRead(SimpleNamespace())


@pytest.fixture
def rig(tmp_path):
    """An empty directory."""
    return Rig(tmp_path)


def test_an_archive_stays_until_the_deletion_is_in_force(rig):
    """A note alone removes nothing: the record may never be written."""
    rig.archives.note([archive()])
    assert rig.noted == [0]
    assert rig.sent == []


def test_one_partition_after_its_steps(rig):
    """To the trash, emptied after the grace, the topic's description last; then the note goes."""
    rig.archives.note([archive()])
    rig.archives.confirm([ID])
    assert rig.answer(commands.WriteProjection, commands.Written("k")).fields["state"] == "deleted"
    command = rig.answer(commands.TrashArchive, TRASHED)
    assert command.claimant == archive().claimant
    assert command.reason == TOPIC_DELETED
    assert rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(3)).grace_ms == 50_000
    assert rig.wake() == [50.001]
    rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(1, "a page cannot be read"))
    assert rig.wake() == [50.0]
    rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(0))
    assert rig.archives.pending == [archive().partition]
    rig.answer(commands.RemoveTopicDocument, commands.Written("k"))
    assert rig.archives.pending == []
    rig.wake()
    assert rig.noted == []


def test_it_is_said_once_why_an_archive_stays(rig, caplog):
    """A cut may hold it for years, and it is asked every hour."""
    rig.archives.note([archive()])
    rig.archives.confirm([ID])
    rig.answer(commands.WriteProjection, commands.Written("k"))
    rig.answer(commands.TrashArchive, TRASHED)
    for problem in ("", "a cut", "a cut", "another cut"):
        rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(1, problem))
        rig.wake()
    assert [one.getMessage() for one in caplog.records] == [
        f"{archive().partition}: a cut",
        f"{archive().partition}: another cut",
    ]


def test_the_description_goes_with_the_last_partition(rig):
    """Each topic keeps it until then; a few partitions are worked on at a time."""
    rig.archives.note([archive(n) for n in range(6)])
    rig.archives.confirm([ID])
    rig.take(commands.WriteProjection)
    assert len(rig.sent) == 4
    for _ in range(6):
        rig.answer(commands.TrashArchive, TRASHED)
        rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(0))
    assert [type(command) for command, _ in rig.sent] == [commands.RemoveTopicDocument]


def test_a_restart_goes_on(rig):
    """With the same claim: what was trashed under it before is recognised."""
    rig.archives.note([archive()])
    rig.start()
    assert rig.take(commands.TrashArchive)[0].claimant == archive().claimant


def test_a_deletion_that_never_happened_is_forgotten(rig):
    """The topic lives: its note was written before a record that was not."""
    rig.archives.note([archive(), archive(0, OTHER)])
    rig.start(living={ID: None})
    assert [one.topic_id for one in rig.archives.pending] == [OTHER]
    rig.wake()
    assert len(rig.noted) == 1


def test_a_note_that_is_made_before_the_start_is_no_note_of_an_earlier_run(rig):
    """A controller may be active before its broker has started: the topic still lives, and its record is on its way."""
    rig.archives.note([archive(1)])
    rig.restarted()
    rig.archives.note([archive(2)])
    rig.archives.start(living={ID: None})
    assert [one.partition for one in rig.archives.pending] == [2]
    rig.archives.confirm([ID])
    assert rig.take(commands.TrashArchive)[0].partition.partition == 2


def second(at_ms=100, asks_first=True):
    """A note of a broker that comes second, or does not know whether there is an archive."""
    return replace(archive(), not_before_ms=at_ms, asks_first=asks_first)


def test_a_second_broker_waits_for_its_turn_also_after_a_restart(rig):
    """The first one removes the archive meanwhile: then nothing is claimed, and the note goes."""
    rig.archives.note_committed([second()])
    rig.archives.confirm([ID])
    assert (rig.sent, rig.waits) == ([], [0.095])
    rig.start()
    assert (rig.sent, rig.waits) == ([], [0.095])
    rig.now_ms = 100
    rig.wake()
    assert rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(0)).claimant == archive().claimant
    rig.answer(commands.RemoveTopicDocument, commands.Written("k"))
    assert (rig.archives.pending, rig.sent) == ([], [])


@pytest.mark.parametrize(
    "found", [commands.LostReport("an older claim"), commands.FailedReport("not deleted", retriable=False)]
)
def test_an_archive_that_is_found_goes_to_the_trash(rig, found):
    """Its last leader's claim is on it, or the first broker died between its claim and the trash."""
    rig.archives.note_committed([second(0)])
    rig.archives.confirm([ID])
    rig.answer(commands.RemoveArchive, found)
    assert rig.answer(commands.WriteProjection, commands.Written("k")).fields["state"] == "deleted"
    rig.answer(commands.TrashArchive, TRASHED)
    rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(0))
    rig.answer(commands.RemoveTopicDocument, commands.Written("k"))
    assert rig.archives.pending == []


def test_a_trash_that_the_first_broker_has_left_is_emptied_by_the_second(rig):
    """Under the same claim, after the grace."""
    rig.archives.note_committed([second(0)])
    rig.archives.confirm([ID])
    rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(3))
    rig.wake()
    rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(0))
    rig.answer(commands.RemoveTopicDocument, commands.Written("k"))
    assert rig.archives.pending == []


def test_a_bucket_that_cannot_be_asked_is_asked_again_and_a_higher_claim_is_left_alone(rig):
    """No answer is no archive, and no reason to claim one."""
    rig.archives.note_committed([second(0)])
    rig.archives.confirm([ID])
    rig.answer(commands.RemoveArchive, commands.FailedReport("down", retriable=True))
    rig.wake()
    rig.answer(commands.RemoveArchive, commands.FencedReport("another cluster's"))
    assert (rig.archives.pending, rig.sent) == ([], [])


def test_a_committed_deletion_is_noted_also_when_the_disk_is_full(rig, caplog):
    """It cannot be refused any more: the note is in memory, and written when there is room."""
    rig.files.full = True
    rig.archives.note_committed([second()])
    assert "tried again" in caplog.text
    rig.files.full = False
    rig.wake()
    assert rig.noted == [0]


def test_a_broker_that_only_reads_notes_nothing(tmp_path):
    """Those who write the bucket do."""
    rig = Rig(tmp_path, read_only=True)
    rig.archives.note_committed([second(0)])
    assert rig.archives.pending == []


def test_a_deletion_that_cannot_be_noted_is_refused(rig):
    """The deletion leaves no trace."""
    rig.files.full = True
    with pytest.raises(KafkaError, match="Nothing was deleted"):
        rig.archives.note([archive()])
    assert rig.archives.pending == []
    rig.archives.note([])


def test_failures_are_repeated(rig, caplog):
    """At every step, for ever; the trash is not asked for twice."""
    rig.archives.note([archive()])
    rig.archives.confirm([ID])
    rig.answer(commands.TrashArchive, commands.FailedReport("down", retriable=True))
    assert rig.wake() == [2.0]
    rig.answer(commands.TrashArchive, TRASHED)
    rig.answer(commands.RemoveArchive, commands.FailedReport("down", retriable=True))
    rig.wake()
    rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(0))
    rig.answer(commands.RemoveTopicDocument, commands.FailedReport("down", retriable=True))
    rig.wake()
    rig.answer(commands.RemoveArchive, commands.ArchiveRemoved(0))
    rig.answer(commands.RemoveTopicDocument, commands.Written("k"))
    assert rig.archives.pending == []
    assert "down" in caplog.text


def test_an_archive_claimed_by_another_broker_stays(rig, caplog):
    """A cluster that was restored from the bucket owns it now."""
    rig.archives.note([archive()])
    rig.archives.confirm([ID])
    rig.answer(commands.TrashArchive, commands.FencedReport("incarnation 1"))
    assert rig.archives.pending == []
    assert "stays" in caplog.text


def test_a_note_that_cannot_be_read_is_kept_aside(rig, tmp_path, caplog):
    """No archive is removed by guess, and the operator learns what to do."""
    (tmp_path / DELETED_ARCHIVES).write_text("[]")
    rig.start()
    assert rig.archives.pending == []
    assert (tmp_path / f"{DELETED_ARCHIVES}.damaged").exists()
    assert "tier gc" in caplog.text


async def test_after_the_end_nothing_is_sent(rig):
    """The note stays."""
    rig.archives.note([archive()])
    await rig.archives.close()
    rig.archives.confirm([ID])
    assert not [command for command, _ in rig.sent if isinstance(command, commands.TrashArchive)]
    rig.wake()
    assert rig.noted == [0]


def test_only_tiered_topics_leave_something_to_remove():
    """Each partition under a claim above its last leader's."""
    topic = SimpleNamespace(name="t", topic_id=ID, partitions={0: SimpleNamespace(leader_epoch=7)})
    image = SimpleNamespace(topics=SimpleNamespace(by_id={ID: topic}))
    records = [RemoveTopicRecord(topic_id=ID), RemoveTopicRecord(topic_id=OTHER)]
    (found,) = removed_archives(
        image, records, is_tiered=lambda _name, topic_id: topic_id == ID, incarnation=2, node_id=1
    )
    assert (found.partition, found.claimant.rank) == (PartitionId("t", ID, 0), (2, 8))
    assert removed_archives(image, records, is_tiered=lambda _name, _id: False, incarnation=2, node_id=1) == []
