"""Whether a manifest can be the one of an archive that is known to exist, or that archive is lost. Pure.

A bucket that was emptied, another bucket, or one that went back in time shows no manifest, or one that ends too early.
"""

from __future__ import annotations

from stratalog.tier.manifests.manifest import REPAIR, Manifest, ManifestLost

__all__ = ["check_not_lost", "may_end_earlier"]


def may_end_earlier(manifest: Manifest) -> bool:
    """Whether a remote end that fell has a reason: the archive was deleted, or a repair took ranges out lately."""
    return manifest.deleted_ms >= 0 or any(note.kind == REPAIR for note in manifest.commits)


def check_not_lost(manifest: Manifest, archived_end: int) -> None:
    """Raise `ManifestLost` for a manifest that is not there, or ends too early, although ``archived_end`` was archived.

    ``archived_end`` is the remote end that the caller knows of, 0 for none. An archive that is started anew in the
    place of a lost one would hide it, and would move its log start for good once it is back.
    """
    if archived_end <= manifest.remote_end or may_end_earlier(manifest):
        return
    found = f"ends at offset {manifest.remote_end}" if manifest.seq else "is missing"
    raise ManifestLost(
        f"{manifest.partition}: {manifest.partition.manifest_key} {found}, but {archived_end} offsets were archived: "
        "this is another bucket, or it has lost objects. The broker archives, evicts and removes nothing until that manifest is back. "
        "If it is gone for good, stop the broker and give the archive up: stratalog tier adopt --data DIR --bucket URL "
        f"--give-up {manifest.partition.topic}"
    )
