"""An archive that was moved to the trash begins again, whatever a power cut left of what was known of it."""

import pytest

from stratalog.tier.bucket.trash import TIERING_OFF, trash_archive
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.second_timeline import MadeClaims
from tests.broker.archive.test_partition_archive import PARTITION, Rig


@pytest.mark.parametrize("checkpoint", [None, (0, 0, 0), (0, 5, 1)], ids=["none", "the first", "an old one"])
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
