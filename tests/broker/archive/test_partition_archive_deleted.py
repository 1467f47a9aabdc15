"""DeleteRecords up to the end of the active segment, which then rolls right there: its records never reach the bucket."""

import pytest
from msgspec.structs import replace

from stratalog.tier.bucket.trash import TOPIC_DELETED
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from tests.broker.archive.archive_rig import CONFIG, PARTITION, Rig


@pytest.fixture
def rig(tmp_path):
    """One partition: its first segment holds deleted records only, and is sealed."""
    found = Rig(tmp_path)
    found.write(2)
    found.settle()
    found.log.advance_log_start(10)
    found.log.delete_local_before(10)
    found.settle()
    found.write(1)
    assert found.log.active_base_offset == found.log.log_start_offset == 10
    return found


def test_deleted_records_are_not_uploaded(rig):
    """The archive goes on behind them, without a hole and without an object."""
    assert "Upload" not in rig.settle()
    manifest = rig.manifest
    assert (manifest.entries, manifest.trash, manifest.log_start_offset, manifest.remote_end) == ((), (), 10, 10)
    rig.write(4)
    rig.settle()
    assert rig.manifest.remote_start == 10
    assert rig.manifest.remote_end == rig.log.active_base_offset


def test_an_answer_that_readers_overtake_moves_the_plan_all_the_same(rig):
    """A read of the manifest shows where it goes on before the answer does: uploads must not wait for ever."""
    rig.write(3)
    rig.settle()
    assert rig.archive.state == "held"
    rig.log.advance_log_start(30)
    rig.settle()
    rig.write(1)  # rolls at 30
    rig.archive.look()
    assert isinstance(rig.queue[0][0], commands.SetLogStart)
    rig.worker.execute(rig.queue[0][0])
    rig.unified.remote.refresh()
    command, answered = rig.queue.pop()
    answered(rig.worker.execute(command))
    rig.step(commands.FailedReport("the answer is lost", retriable=True))
    rig.write(4)
    rig.settle()
    assert rig.manifest.remote_end == rig.log.active_base_offset


def test_the_archive_of_the_deleted_topic_goes(rig):
    """No object is left behind that no manifest names."""
    rig.settle()
    above = Claimant(0, 2, b"d" * 16)
    trashed = rig.worker.execute(commands.TrashArchive(PARTITION, above, 1, TOPIC_DELETED))
    assert isinstance(trashed, commands.ManifestRead)
    removed = rig.worker.execute(commands.RemoveArchive(PARTITION, above, 10**12, 1))
    assert isinstance(removed, commands.ArchiveRemoved), removed


def test_tiering_that_is_switched_off_and_on_goes_on(rig):
    """The archive begins anew."""
    rig.settle()
    rig.log.update_config(replace(CONFIG, remote_storage_enable=False, remote_delete_on_disable=True))
    rig.archive.configured()
    rig.settle()
    assert rig.manifest.deleted_ms >= 0
    rig.log.update_config(CONFIG)
    rig.archive.configured()
    rig.write(6)
    rig.settle()
    assert rig.manifest.deleted_ms < 0
    assert rig.manifest.remote_end == rig.log.active_base_offset
