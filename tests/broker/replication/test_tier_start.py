"""The history that a replica takes from its archive."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replication.tier_start import read_history
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.tier.documents.keys import PartitionId
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


def manifest(**fields):
    epochs = ((2, 0), (5, 40), (6, 90))
    view = {"deleted": False, "remote_end": 90, "newest_key": "k", "leader_epochs": epochs, **fields}
    return commands.ManifestRead(SimpleNamespace(**view))


async def test_epochs_end_with_the_archive_and_producers_are_those_behind_its_newest_object():
    """An epoch that begins at the end has no archived record."""
    submit = bucket(ReadManifest=manifest(), ReadRestartState=commands.RestartStateRead("k", (), b"p"))
    assert await read_history(submit, PARTITION) == (90, (EpochEntry(2, 0), EpochEntry(5, 40)), b"p")
    assert submit.asked[1].key == "k"


async def test_an_archive_without_objects_knows_no_producers():
    """All of them expired."""
    submit = bucket(ReadManifest=manifest(newest_key=""))
    assert (await read_history(submit, PARTITION)).producer_snapshot is None


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
        await read_history(bucket(**answers), PARTITION)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
