"""A manifest that was lost and is rebuilt from the objects while the leader of its partition lives: that one goes on."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.tier.bucket.walk import iter_partitions, iter_topics
from stratalog.tier.care.repair import apply_repair
from stratalog.tier.care.repair_plan import plan_repair
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.documents.keys import parse_key
from stratalog.tier.manifests.manifest import Claimant, ManifestFenced, claim
from stratalog.tier.manifests.second_timeline import MadeClaims
from tests.broker.archive.archive_rig import PARTITION, Rig


@pytest.fixture
def rig(tmp_path):
    """Four segments are archived, then the manifest is lost."""
    rig = Rig(tmp_path)
    rig.made = MadeClaims(frozenset([bytes([1]) * 16]), 0)
    rig.write(9)
    rig.settle()
    rig.store.delete_many([PARTITION.manifest_key])
    return rig


def repair(rig):
    folder = next(iter_partitions(rig.store, next(iter_topics(rig.store))))
    with ThreadPoolExecutor(2) as readers:
        plan = plan_repair(rig.store, folder, "t", VerifyOptions(10**12), readers=readers)
    apply_repair(rig.store, plan, uuid=b"r" * 16, now_ms=9)


def go_on(rig):
    for _ in range(10):
        rig.now_ms += 1_000_000
        rig.archive.look()
        while rig.queue:
            rig.step()


def test_a_leader_that_has_not_noticed_goes_on(rig):
    """It is not fenced by a claim that was made up."""
    repair(rig)
    rig.write(9)
    go_on(rig)
    assert rig.archive.state == "held"
    assert (rig.manifest.remote_end, rig.compared) == (rig.log.active_base_offset, [])


def test_a_leader_that_has_noticed_goes_on(rig):
    """It claims again and again meanwhile; then its directory is not called one that went back in time."""
    rig.write(9)
    go_on(rig)
    assert rig.archive.lost
    segments = rig.store.list(PARTITION.segments_prefix)
    rig.store.delete_many([info.key for info in segments if parse_key(info.key).base >= 40])  # never committed
    repair(rig)
    go_on(rig)
    assert rig.archive.state == "held"
    assert (rig.manifest.remote_end, rig.compared) == (rig.log.active_base_offset, [])


def test_an_earlier_leader_stays_fenced(rig):
    """One below the epoch under which objects were uploaded."""
    repair(rig)
    with pytest.raises(ManifestFenced):
        claim(rig.manifest, Claimant(0, 0, b"z" * 16), now_ms=1)
