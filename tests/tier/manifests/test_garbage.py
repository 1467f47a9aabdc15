"""Garbage, key by key, in the words of rule 5."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stratalog.tier.documents.keys import PartitionId, topic_key
from stratalog.tier.manifests.garbage import Verdict, judge, old_enough
from stratalog.tier.manifests.leases import SKEW_MS
from stratalog.tier.manifests.manifest import Claimant, Manifest
from stratalog.tier.manifests.parts import Job, Pin
from stratalog.tier.stores.store import ObjectInfo

PARTITION = PartitionId("orders", bytes(range(16)), 3)
MANIFEST = Manifest(PARTITION, seq=40, claimant=Claimant(0, 7, bytes(16)))
GRACE = 1000
NOW = 10 * SKEW_MS
OLD = NOW - GRACE - SKEW_MS - 1
UUID = bytes([4] * 16)


def verdict(key, modified_ms=OLD, named=(), manifest=MANIFEST):
    """The verdict on it."""
    return judge(manifest, named, ObjectInfo(key, 1, "", modified_ms), now_ms=NOW, grace_ms=GRACE)


def segment(epoch, uuid=UUID):
    """A key of this epoch."""
    return PARTITION.segment_key(0, 10, epoch, uuid)


def test_only_an_old_unnamed_object_of_an_earlier_epoch_is_garbage():
    """Each condition by itself keeps it."""
    assert verdict(segment(6)) is Verdict.GARBAGE
    assert verdict(segment(6), named={segment(6)}) is Verdict.NAMED
    assert verdict(segment(7)) is Verdict.CURRENT
    assert verdict(segment(8)) is Verdict.CURRENT
    assert verdict(segment(6), OLD + 1) is Verdict.YOUNG


@pytest.mark.parametrize(
    ("make", "given"),
    [(lambda seq: PARTITION.page_key(0, 9, seq), 40), (lambda seq: PARTITION.history_key(seq, "w"), 39)],
)
def test_a_page_or_copy_goes_by_its_number(make, given):
    """Above the given ones it may be about to be named, a copy by the manifest after its own; pins and jobs keep it."""
    assert verdict(make(given)) is Verdict.GARBAGE
    assert verdict(make(given + 1)) is Verdict.LATER
    assert verdict(make(given), OLD + 1) is Verdict.YOUNG
    assert verdict(make(given), named={make(given)}) is Verdict.NAMED
    pinned = structs.replace(MANIFEST, pins=(Pin("cut", 1, 10, 0),))
    assert verdict(make(given), manifest=pinned) is Verdict.HELD


def test_a_listed_job_protects_its_object_and_its_inputs():
    """An expiry that passed long ago lifts no protection; a job that names no inputs protects every object."""
    job = Job(UUID, "merge", 1, 2, (bytes([5] * 16),))
    listed = structs.replace(MANIFEST, jobs=(job,))
    assert verdict(segment(6), manifest=listed) is Verdict.JOB
    assert verdict(segment(6, bytes([5] * 16)), manifest=listed) is Verdict.JOB
    assert verdict(segment(6, bytes([6] * 16)), manifest=listed) is Verdict.GARBAGE
    nameless = structs.replace(MANIFEST, jobs=(structs.replace(job, inputs=()),))
    assert verdict(segment(6, bytes([6] * 16)), manifest=nameless) is Verdict.JOB


@pytest.mark.parametrize("key", ["elsewhere", PARTITION.prefix + "seg/mine.seg", PARTITION.prefix + "notes.txt"])
def test_foreign_keys_are_left_alone(key):
    """A foreign object."""
    assert verdict(key) is Verdict.UNKNOWN


def test_manifests_and_descriptions_are_never_garbage():
    """They are what everything else goes by."""
    assert verdict(PARTITION.manifest_key) is Verdict.NAMED
    assert verdict(topic_key(PARTITION.topic, PARTITION.topic_id)) is Verdict.NAMED


@pytest.mark.story
@given(st.integers(0, 12), st.integers(0, 80), st.integers(0, 2 * SKEW_MS), st.booleans())
def test_garbage_could_never_be_committed_again(epoch, seq, age, paged):
    """Garbage has a fenced epoch or a page number already given: no commit accepts it any more."""
    key = PARTITION.page_key(0, 9, seq) if paged else segment(epoch)
    if verdict(key, NOW - age) is Verdict.GARBAGE:
        assert seq <= MANIFEST.seq if paged else epoch < MANIFEST.claimant.leader_epoch
        assert age > GRACE + SKEW_MS
    assert old_enough(NOW - age, NOW, GRACE) == (age > GRACE + SKEW_MS)
