"""Archives of deleted topics: noted, removed step by step, forgotten when nothing is left; also across restarts."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

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

    def __init__(self, directory):
        self.directory, self.files = str(directory), Full()
        self.start()

    def start(self, living=()):
        """A new run."""
        self.sent, self.waiting, self.now_ms = [], [], 5
        ports = DeletionPorts(
            submit=lambda command, answered: self.sent.append((command, answered)),
            now_ms=lambda: self.now_ms,
            later=lambda seconds, call: self.waiting.append((seconds, call)),
            grace_ms=lambda: 50_000,
            interval_ms=lambda: 2_000,
        )
        self.archives = DeletedArchives(self.files, self.directory, "cluster", ports)
        self.archives.start(living)

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
    (found,) = removed_archives(image, records, is_tiered=lambda _: True, incarnation=2, node_id=1)
    assert (found.partition, found.claimant.rank) == (PartitionId("t", ID, 0), (2, 8))
    assert removed_archives(image, records, is_tiered=lambda _: False, incarnation=2, node_id=1) == []
