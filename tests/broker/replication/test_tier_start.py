"""The history that a replica takes from its archive."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replication.tier_start import ArchiveAccess, read_history
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.parts import Claimant
from stratalog.tier.manifests.view import PackedEntries
from stratalog.tier.messages import commands
from stratalog.wire.errors import ErrorCode, KafkaError

PARTITION = PartitionId("t", b"i" * 16, 0)


def bucket(**answers):
    """Answers at once, by the name of the command; ``asked`` gets what was asked for."""
    asked = []

    def submit(command, answered):
        asked.append(command)
        answered(answers[type(command).__name__])

    submit.asked = asked
    return submit


def manifest(*, owner=0, **fields):
    epochs = ((2, 0), (5, 40), (6, 90))
    view = {"deleted": False, "remote_end": 90, "newest_key": "k", "leader_epochs": epochs, **fields}
    return commands.ManifestRead(SimpleNamespace(partition=PARTITION, claimant=Claimant(owner, 6, b"c"), **view))


async def history(submit, local_start=50, leader_epoch=5):
    """The history that a log of incarnation 0 begins with."""
    return await read_history(ArchiveAccess(submit, lambda: 0), PARTITION, local_start, leader_epoch)


async def test_epochs_end_with_the_archive_and_producers_are_those_behind_its_newest_object():
    """An epoch that begins at the end has no archived record."""
    submit = bucket(ReadManifest=manifest(), ReadRestartState=commands.RestartStateRead("k", (), b"p"))
    assert await history(submit) == (90, (EpochEntry(2, 0), EpochEntry(5, 40)), b"p")
    assert submit.asked[1].key == "k"
    assert submit.asked[0].lets_go  # the log that was there is dropped by it


async def test_an_archive_without_objects_knows_no_producers():
    """All of them expired."""
    submit = bucket(ReadManifest=manifest(newest_key=""))
    assert (await history(submit)).producer_snapshot is None


def entry(base, end, uuid):
    """One archived object."""
    sizes = dict.fromkeys(("size_bytes", "data_bytes", "chunks_position", "chunks_bytes"), 1)
    times = dict.fromkeys(("min_timestamp_ms", "max_timestamp_ms", "aborted_count"), 0)
    return SimpleNamespace(base=base, end=end, epoch=5, uuid=uuid, key=f"ends at {end}", **sizes, **times)


@pytest.mark.parametrize(("local_start", "key"), [(60, "ends at 60"), (55, None)])
async def test_an_archive_of_a_later_owner_ends_where_the_leaders_disk_begins(local_start, key):
    """Behind that it has the records of another cluster. Producers are known where an object ends there."""
    entries = PackedEntries.pack(PARTITION, [entry(0, 60, b"a" * 16), entry(60, 90, b"b" * 16)])
    restart = commands.RestartStateRead("", (), b"p")
    submit = bucket(ReadManifest=manifest(owner=1, entries=entries), ReadRestartState=restart)
    found = await history(submit, local_start)
    assert found == (local_start, (EpochEntry(2, 0), EpochEntry(5, 40)), b"p" if key else None)
    assert [one.key for one in submit.asked[1:]] == ([key] if key else [])


async def test_producers_of_a_later_owner_that_went_back_to_a_cut_are_none_of_the_logs():
    """The object that ends there has its records."""
    entries = PackedEntries.pack(
        PARTITION, [entry(0, 30, b"a" * 16), entry(30, 60, b"b" * 16), entry(60, 90, b"c" * 16)]
    )
    epochs = ((2, 0), (70_000, 30))
    submit = bucket(ReadManifest=manifest(owner=1, entries=entries, leader_epochs=epochs))
    assert await history(submit, 60) == (60, (EpochEntry(2, 0),), None)


async def test_an_archive_of_a_later_owner_that_has_not_gone_on_is_the_logs_own():
    """As after a restore beside an owner that has stopped."""
    submit = bucket(ReadManifest=manifest(owner=1), ReadRestartState=commands.RestartStateRead("k", (), b"p"))
    assert await history(submit, 90) == (90, (EpochEntry(2, 0), EpochEntry(5, 40)), b"p")


@pytest.mark.parametrize(
    "answers",
    [
        {"ReadManifest": commands.FailedReport("the bucket is away", retriable=True)},
        {"ReadManifest": manifest(deleted=True)},
        {"ReadManifest": manifest(), "ReadRestartState": commands.FailedReport("not there", retriable=False)},
    ],
)
async def test_an_archive_that_cannot_be_used_is_an_error_that_passes(answers):
    """The replica asks again after a pause."""
    with pytest.raises(KafkaError, match="its archive cannot be used") as caught:
        await history(bucket(**answers))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
