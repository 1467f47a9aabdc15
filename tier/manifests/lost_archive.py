"""Whether a manifest can be the one of an archive that is known to exist, or that archive is lost. Pure.

A bucket that was emptied, another bucket, or one that went back in time shows no manifest, or one that ends too early.
"""

from __future__ import annotations

from typing import Final

from stratalog.tier.manifests.manifest import REPAIR, Manifest, ManifestLost

__all__ = ["NO_BEGIN", "REPAIRED", "check_may_begin", "check_not_lost", "may_end_earlier", "shortened_seq"]

REPAIRED: Final = 2**63 - 1
"""Above every number: the repair of a manifest that was lost numbers its changes anew."""


NO_BEGIN: Final = -1
"""In the place of the offset where an archive begins: it has to exist."""


def shortened_seq(manifest: Manifest) -> int:
    """The number of the latest change after which the archive may end earlier than before, 0 if there was none.

    `REPAIRED` for an archive that was repaired lately.
    """
    return REPAIRED if any(note.kind == REPAIR for note in manifest.commits) else manifest.shortened_seq


def may_end_earlier(manifest: Manifest, known_seq: int) -> bool:
    """Whether a remote end below that of the manifest ``known_seq`` has a reason.

    The archive is deleted, or it was begun again, repaired or rewound since.
    """
    return manifest.deleted_ms >= 0 or shortened_seq(manifest) > known_seq


def check_not_lost(manifest: Manifest, archived_end: int, archived_seq: int = 0) -> None:
    """Raise `ManifestLost` for a manifest that is not there, or ends too early, although ``archived_end`` was archived.

    ``archived_end`` is the remote end that the caller knows of, 0 for none, by the manifest ``archived_seq``. An archive
    that is started anew in the place of a lost one would hide it, and would move its log start for good once it is back.
    """
    if archived_end <= manifest.remote_end or may_end_earlier(manifest, archived_seq):
        return
    if 0 < archived_seq <= manifest.seq:  # no later change of an archive ends earlier for no reason
        raise ManifestLost(
            f"{manifest.partition}: {manifest.partition.manifest_key} ends at offset {manifest.remote_end} after change {manifest.seq}, but by "
            f"remote-log-checkpoint {archived_end} offsets were archived after change {archived_seq}: that file has no checksum, and is "
            "damaged, or the bucket was put back and written to since. The broker archives, evicts and removes nothing here. Unless the "
            "bucket was put back, stop the broker, move remote-log-checkpoint out of the log directory, and start again: the bucket tells"
        )
    found = f"ends at offset {manifest.remote_end}" if manifest.seq else "is missing"
    raise _lost(manifest, f"{found}, but {archived_end} offsets were archived")


def check_may_begin(manifest: Manifest, start_offset: int) -> None:
    """Raise `ManifestLost` for a manifest that is not there although it has to be: see `NO_BEGIN`.

    One that began at the disk would move the log start there, and all before it would be gone for good once the archive is back.
    """
    if not manifest.seq and start_offset < 0:
        raise _lost(manifest, "is missing, but the log begins before its first offset on the disk of its leader")


def _lost(manifest: Manifest, why: str) -> ManifestLost:
    return ManifestLost(
        f"{manifest.partition}: {manifest.partition.manifest_key} {why}: "
        "this is another bucket, or it has lost objects. The broker archives, evicts and removes nothing until that manifest is back. "
        "If it is gone for good, stop the broker and give the archive up: stratalog tier adopt --data DIR --bucket URL "
        f"--give-up {manifest.partition.topic}"
    )
