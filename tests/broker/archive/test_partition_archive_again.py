"""An archive that was moved to the trash begins again, whatever a power cut left of what was known of it."""

import pytest
from msgspec.structs import replace

from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.tier.bucket.trash import TIERING_OFF, begin_again, trash_archive
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.second_timeline import MadeClaims
from stratalog.tier.messages import commands
from tests.broker.archive.test_partition_archive import CONFIG, PARTITION, Rig


@pytest.mark.parametrize(
    "checkpoint", [None, RemoteLogState(0, 0, 0), RemoteLogState(0, 5, 1)], ids=["none", "the first", "an old one"]
)
def test_an_archive_in_the_trash_begins_again_without_a_comparison(tmp_path, checkpoint):
    """Its end falls back to where the local log begins: that is more than an old checkpoint says, and no other timeline."""
    rig = Rig(tmp_path)
    rig.write(9)
    rig.settle()
    rig.archive.close()
    us = Claimant(0, 1, bytes([1]) * 16)
    change_manifest(rig.store, PARTITION, lambda old: trash_archive(old, us, now_ms=0, reason=TIERING_OFF))
    rig.made = MadeClaims(frozenset([bytes([1]) * 16, bytes([2]) * 16]), 0)
    rig.archive = rig.lead(2, checkpoint)
    rig.write(9)
    first = rig.log.first_base_offset
    asked = rig.settle()
    assert asked[:2] == ["Claim", "BeginAgain"]
    assert "Upload" in asked
    assert rig.compared == []
    assert rig.manifest.deleted_ms < 0
    assert rig.manifest.log_start_offset == first < rig.manifest.remote_end


@pytest.mark.parametrize("seq_is_known", [True, False], ids=["this release", "an older one"])
def test_a_leader_that_was_away_while_the_archive_began_again_does_not_call_it_lost(tmp_path, seq_is_known):
    """Its checkpoint names more than the archive has by now; the number of its manifest tells why."""
    rig = Rig(tmp_path, replace(CONFIG, local_retention_bytes=10**6))
    rig.write(9)
    rig.settle()
    old = rig.archive.remote.state if seq_is_known else rig.archive.remote.state._replace(manifest_seq=0)
    rig.archive.close()
    us = Claimant(0, 1, bytes([1]) * 16)
    change_manifest(rig.store, PARTITION, lambda one: trash_archive(one, us, now_ms=0, reason=TIERING_OFF))
    change_manifest(rig.store, PARTITION, lambda one: begin_again(one, us, 0, now_ms=0))
    assert rig.manifest.remote_end < old.remote_end_offset
    rig.archive = rig.lead(3, old)
    rig.write(9)
    assert "Upload" in rig.settle()
    assert not rig.archive.lost
    assert rig.manifest.remote_end > old.remote_end_offset


@pytest.mark.parametrize("answer", ["late", "lost"])
def test_a_read_back_from_before_the_trash_lets_nothing_local_go(tmp_path, answer):
    """Tiering is on again before the answer: a read-back that was under way speaks of objects that are in the trash."""
    rig = Rig(tmp_path)
    rig.write(9)
    rig.archive.look()
    while not isinstance(rig.queue[0][0], commands.ReadBack):
        rig.step()
    rig.log.update_config(replace(CONFIG, remote_storage_enable=False, remote_delete_on_disable=True))
    rig.archive.configured()
    while not isinstance(rig.queue[-1][0], commands.TrashArchive):
        rig.now_ms += 1000
        rig.archive.look()
    assert isinstance(rig.step(), commands.ReadBack)
    trashed = rig.worker.execute(rig.queue[0][0])
    if answer == "lost":
        rig.step(commands.FailedReport("the connection broke", retriable=True))
    rig.log.update_config(CONFIG)
    rig.archive.configured()
    assert (rig.log.log_start_offset, rig.log.first_base_offset) == (0, 0)
    if answer == "late":
        rig.step(trashed)
    rig.settle()
    assert rig.log.log_start_offset == 0
    assert rig.manifest.entries[0].base == 0
    assert rig.manifest.remote_end == rig.log.first_base_offset == rig.log.active_base_offset


@pytest.mark.parametrize("seen", [False, True], ids=["by the claim", "by a read"])
def test_tiering_that_is_on_again_before_the_answer_of_the_trash_goes_on(tmp_path, seen):
    """The answer is lost: the archive is in the trash, and the next claim finds it there."""
    rig = Rig(tmp_path)
    rig.write(9)
    rig.settle()
    rig.log.update_config(replace(CONFIG, remote_storage_enable=False, remote_delete_on_disable=True))
    rig.archive.configured()
    while not (rig.queue and isinstance(rig.queue[0][0], commands.TrashArchive)):
        rig.now_ms += 1000
        rig.archive.look()
    rig.log.update_config(CONFIG)
    rig.archive.configured()
    rig.worker.execute(rig.queue[0][0])
    rig.step(commands.FailedReport("the connection broke", retriable=True))
    assert rig.manifest.deleted_ms >= 0
    assert rig.archive.state == "held"
    if seen:
        rig.archive.remote.refresh()
        rig.step()
    rig.write(20)
    asked = rig.settle()
    assert "BeginAgain" in asked
    assert "Commit" not in asked[: asked.index("BeginAgain")]
    assert rig.manifest.deleted_ms < 0
    assert rig.manifest.remote_end == rig.log.active_base_offset


def test_a_commit_that_comes_after_the_switching_off_begins_nothing_anew(tmp_path):
    """Its upload was under way; the archive stays in the trash."""
    rig = Rig(tmp_path)
    rig.write(9)
    rig.settle()
    rig.write(4)
    rig.archive.look()
    us = Claimant(0, 1, bytes([1]) * 16)
    change_manifest(rig.store, PARTITION, lambda one: trash_archive(one, us, now_ms=0, reason=TIERING_OFF))
    rig.log.update_config(replace(CONFIG, remote_storage_enable=False, remote_delete_on_disable=True))
    rig.archive.configured()
    asked = rig.settle()
    assert "Commit" in asked
    assert "BeginAgain" not in asked
    assert (rig.manifest.entries, rig.manifest.deleted_ms) == ((), 0)
