"""Tiered topics that are deleted: the archive goes as a whole, after the grace, whatever happens in between."""

import json
from pathlib import Path

import pytest

from stratalog.client.admin import delete_topics
from stratalog.tier.documents.keys import PartitionId, topic_prefix
from stratalog.tier.manifests.leases import end_lease, write_lease
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.errors import ErrorCode, KafkaError

DOWN = FaultRule(Fault.FAIL_BEFORE, count=None)
QUICK = {"stratalog_trash_check_interval_ms": "50", "stratalog_trash_grace_ms": "300"}


@pytest.fixture
def tiered(start_tiered):
    """A broker that empties the trash soon."""
    return start_tiered(**QUICK)


def left(tiered, topic_id, topic="t"):
    """Everything of a topic that is still in the bucket."""
    return [one.key for one in tiered.memory.list(topic_prefix(topic, topic_id))]


def archived_topic(tiered, partition_count=1):
    """A topic with an archive; its id."""
    tiered.topic("t", partition_count)
    for partition in range(partition_count):
        tiered.write("t", 20, partition=partition)
        tiered.archived("t", partition)
    return tiered.node.partition("t").topic_id


def test_the_archive_goes_after_the_grace(tiered):
    """First the trash, with a mark in the manifest and in the topic's description; then nothing at all is left."""
    topic_id = archived_topic(tiered, 2)
    objects = len(tiered.objects("t"))
    delete_topics(tiered.node.client(), ["t"])
    prefix = topic_prefix("t", topic_id)
    manifest = PartitionId("t", topic_id, 0)
    tiered.node.wait_until(lambda: read_manifest(tiered.memory, manifest).manifest.deleted_ms >= 0)
    trashed = read_manifest(tiered.memory, manifest).manifest
    assert len(trashed.trash) == objects
    tiered.node.wait_until(lambda: json.loads(tiered.memory.get(prefix + "topic.json")[0])["state"] == "deleted")
    tiered.node.wait_until(lambda: left(tiered, topic_id) == [])
    note = Path(tiered.node.directory) / "data" / "deleted-archives"
    tiered.node.wait_until(lambda: json.loads(note.read_text())["archives"] == [])


def test_a_topic_whose_records_were_all_deleted_leaves_the_bucket(tiered):
    """Its active segment rolled right where the log had come to start: nothing of it may be left behind."""
    tiered.topic("t")
    tiered.write("t", 1, size_bytes=300)  # the active segment has no room for another batch
    assert tiered.delete_records("t", -1) == 5
    tiered.write("t", 1, size_bytes=300)  # rolls at 5
    tiered.archived("t", evicted=False)
    manifest, topic_id = tiered.manifest("t"), tiered.node.partition("t").topic_id
    assert (manifest.entries, manifest.log_start_offset, manifest.remote_end) == ((), 5, 5)
    assert tiered.objects("t") == []
    delete_topics(tiered.node.client(), ["t"])
    tiered.node.wait_until(lambda: left(tiered, topic_id) == [])


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_deletion_survives_a_stop(tiered, when):
    """Before the trash, with the bucket down; or between trash and grace."""
    topic_id = archived_topic(tiered)
    if when == "before":
        tiered.spoil(DOWN)
    delete_topics(tiered.node.client(), ["t"])
    manifest = PartitionId("t", topic_id, 0)
    if when == "between":
        tiered.node.wait_until(lambda: read_manifest(tiered.memory, manifest).manifest.deleted_ms >= 0)
    tiered.node.stop()
    tiered.spoil()
    tiered.node.start()
    tiered.node.wait_until(lambda: left(tiered, topic_id) == [])


def test_a_topic_of_the_same_name_is_another_one(tiered):
    """Created while the old archive is on its way out: other keys, nothing of one reaches the other."""
    old = archived_topic(tiered)
    delete_topics(tiered.node.client(), ["t"])
    tiered.written.clear()
    new = archived_topic(tiered)
    assert new != old
    tiered.node.wait_until(lambda: left(tiered, old) == [])
    tiered.check_bucket("t", orphans=False)
    tiered.check_reads("t")
    tiered.node.restart()
    tiered.check_reads("t")


@pytest.mark.story
def test_a_lease_keeps_the_archive_of_a_deleted_topic(tiered):
    """A reader of its earlier manifest may go on reading."""
    topic_id = archived_topic(tiered)
    lease = write_lease(tiered.memory, bytes(16), 3_600_000, tiered.node.node.clock.wall_ms())
    keys = [entry.key for entry in tiered.manifest("t").entries]
    delete_topics(tiered.node.client(), ["t"])
    requests = lambda: tiered.node.node.tiering._requests["list"]  # noqa: E731
    tiered.node.wait_until(lambda: len(read_manifest(tiered.memory, PartitionId("t", topic_id, 0)).manifest.trash) > 0)
    seen = tiered.node.run(requests)
    tiered.node.wait_until(lambda: requests() > seen + 8)
    assert set(keys) <= set(left(tiered, topic_id))
    end_lease(tiered.memory, lease.uuid)
    tiered.node.wait_until(lambda: left(tiered, topic_id) == [])


def test_uploads_under_way_do_not_bring_it_back(tiered):
    """They are fenced by the claim of the deletion; what they leave is removed before the manifest is."""
    topic_id = archived_topic(tiered)
    tiered.spoil(FaultRule(Fault.DELAY, "put_if_absent", r"\.seg", count=None, seconds=0.2))
    tiered.write("t", 30)
    delete_topics(tiered.node.client(), ["t"])
    manifest = PartitionId("t", topic_id, 0)
    tiered.node.wait_until(lambda: read_manifest(tiered.memory, manifest).manifest.deleted_ms >= 0)
    tiered.node.wait_until(lambda: not read_manifest(tiered.memory, manifest).manifest.trash)
    assert read_manifest(tiered.memory, manifest).manifest.entries == ()


@pytest.mark.story
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT])
def test_a_bucket_that_fails_only_delays_it(tiered, fault):
    """Every request may fail once in a while: nothing is left in the end."""
    topic_id = archived_topic(tiered, 2)
    tiered.spoil(FaultRule(fault, count=None, probability=0.3))
    delete_topics(tiered.node.client(), ["t"])
    tiered.node.wait_until(lambda: left(tiered, topic_id) == [])


def test_a_deletion_that_cannot_be_noted_does_not_happen(tiered, monkeypatch):
    """A full disk: the client gets the error, and the topic lives on with its archive."""
    archived_topic(tiered)
    archives = tiered.node.node.deleted_archives

    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archives, "_write", full)
    with pytest.raises(KafkaError, match="Nothing was deleted"):
        delete_topics(tiered.node.client(), ["t"])
    tiered.check_reads("t")
    tiered.node.restart()
    tiered.check_reads("t")
    assert tiered.check_bucket("t").deleted_ms == -1


def test_a_death_after_the_note_and_before_the_record_deletes_nothing(tiered, monkeypatch):
    """The topic lives, also for the next run, which takes the note for void."""
    archived_topic(tiered)

    async def refused(records, *, epoch):
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")

    monkeypatch.setattr(tiered.node.node.quorum, "propose", refused)
    with pytest.raises(KafkaError):
        delete_topics(tiered.node.client(), ["t"])
    monkeypatch.undo()
    assert tiered.node.node.deleted_archives.pending
    tiered.node.restart()
    assert tiered.node.node.deleted_archives.pending == []
    tiered.write("t", 20)
    tiered.archived("t")
    tiered.check_bucket("t")
    tiered.check_reads("t")


def test_a_death_after_the_record_forgets_nothing(tiered, monkeypatch):
    """The next run has the note, and the topic is gone: the archive goes."""
    topic_id = archived_topic(tiered)
    monkeypatch.setattr(tiered.node.node.deleted_archives, "confirm", lambda _: None)
    delete_topics(tiered.node.client(), ["t"])
    tiered.node.restart()
    tiered.node.wait_until(lambda: left(tiered, topic_id) == [])
