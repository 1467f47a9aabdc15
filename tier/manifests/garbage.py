"""Which objects of a partition are garbage: left by attempts that were never committed. Pure.

Rule 5 of ``docs/safety.md``: the objects were listed first and the manifest was read afterwards. A key is garbage only
if no manifest, page, trash, job, pin or cut names it, its leader epoch is below the claimed one (a page's number is not
above the manifest's, a history copy's is below it), and it is older than the grace. Objects of the claimed epoch may be about to
be committed: they wait for the next claim. Objects that this release does not know are never garbage.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from stratalog.tier.documents.keys import HistoryKey, PageKey, SegmentKey, TopicKey, parse_key
from stratalog.tier.manifests.leases import SKEW_MS
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.stores.store import ObjectInfo
from stratalog.wire.errors import Invalid

__all__ = ["Verdict", "judge", "old_enough"]


class Verdict(Enum):
    """The verdict on one listed object."""

    NAMED = "named"
    """Something names it: a manifest, a page, the trash, a cut."""
    GARBAGE = "garbage"
    YOUNG = "younger than the grace"
    CURRENT = "of the claimed epoch, which may still commit it"
    LATER = "a page or copy that the next manifest may name"
    JOB = "of a listed job"
    HELD = "a page or copy that a cut or a job may need"
    UNKNOWN = "no key of this format"


def old_enough(modified_ms: int, now_ms: int, grace_ms: int) -> bool:
    """Whether something written then is older than the grace, by any clock within the skew of 15 minutes."""
    return modified_ms < now_ms - grace_ms - SKEW_MS


def judge(manifest: Manifest, named: Collection[str], info: ObjectInfo, *, now_ms: int, grace_ms: int) -> Verdict:
    """The verdict on one object of the partition's folder.

    ``named`` are all keys that the manifest (read after the listing), its pages, its trash and cuts name.
    """
    try:
        key = parse_key(info.key)
    except Invalid:
        return Verdict.UNKNOWN
    if info.key in named or isinstance(key, TopicKey):
        return Verdict.NAMED
    verdict = _judge_segment(manifest, key) if isinstance(key, SegmentKey) else _judge_page(manifest, key)
    if verdict is Verdict.GARBAGE and not old_enough(info.modified_ms, now_ms, grace_ms):
        return Verdict.YOUNG
    return verdict


def _judge_segment(manifest: Manifest, key: SegmentKey) -> Verdict:
    for job in manifest.jobs:
        if key.uuid == job.uuid or key.uuid in job.inputs or not job.inputs:
            return Verdict.JOB
    return Verdict.GARBAGE if key.epoch < manifest.claimant.leader_epoch else Verdict.CURRENT


def _judge_page(manifest: Manifest, key: PageKey | HistoryKey) -> Verdict:
    if manifest.pins or manifest.jobs:
        return Verdict.HELD
    named_by = key.seq if isinstance(key, PageKey) else key.seq + 1  # the next manifest is the first to name a copy
    return Verdict.GARBAGE if named_by <= manifest.seq else Verdict.LATER
