"""Makes a restored cluster the only writer of an archive: every manifest is raised to its incarnation (rule 1).

A writer with a lower claim is fenced from then on. Two restores at one time cannot both succeed: each manifest carries
the mark of one of them.
"""

from __future__ import annotations

from msgspec.structs import replace

from stratalog.tier.care.repair import apply_repair
from stratalog.tier.care.restore_plan import PartitionState
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Manifest, ManifestFenced, ManifestLost, claim, take_over
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.parts import Claimant
from stratalog.tier.stores.store import ObjectStore

__all__ = ["raise_incarnation", "take_partition_over"]


def raise_incarnation(manifest: Manifest, claimant: Claimant, *, now_ms: int) -> Manifest:
    """Take a manifest over, in steps of one if its incarnation is further behind. Pure; repeated, it does nothing.

    Raises `ManifestFenced` if the manifest is of this incarnation under another mark, or of a higher one.
    """
    if not manifest.seq:
        return claim(manifest, claimant, now_ms=now_ms)
    held = manifest.claimant
    if (held.incarnation, held.uuid) == (claimant.incarnation, claimant.uuid):
        return manifest
    if held.incarnation >= claimant.incarnation:
        raise ManifestFenced(
            f"{manifest.partition}: the archive is claimed by {held.words}: another restore took it over "
            "while this one did: stop it and repeat"
        )
    for incarnation in range(held.incarnation + 1, claimant.incarnation + 1):
        manifest = take_over(manifest, claimant._replace(incarnation=incarnation), now_ms=now_ms)
    return manifest


def take_partition_over(
    store: ObjectStore, state: PartitionState, claimant: Claimant, *, cluster_id: str, now_ms: int
) -> PartitionState:
    """Write the repaired manifest if there is one to write, raise the claim, and read back what the archive holds.

    ``claimant`` has the raised incarnation; its leader epoch is raised to all that were seen. Raises `ManifestFenced`,
    `ManifestLost` for one that has vanished since the state was read, `Retriable`, and what the store raises.
    """
    partition: PartitionId = state.partition
    if state.repair is not None:
        apply_repair(store, state.repair, uuid=claimant.uuid, now_ms=now_ms, takeover=True, accept_loss=True)

    def transition(manifest: Manifest) -> Manifest:
        if state.manifest.seq and not manifest.seq:
            raise ManifestLost(
                f"{partition}: {partition.manifest_key} has vanished since the restore looked at it: run it again, and the "
                "manifest is rebuilt from what is left"
            )
        epoch = max(claimant.leader_epoch, state.leader_epoch, manifest.claimant.leader_epoch, 0)
        raised = raise_incarnation(manifest, claimant._replace(leader_epoch=epoch), now_ms=now_ms)
        return raised if raised is manifest or raised.cluster_id else replace(raised, cluster_id=cluster_id)

    stored = change_manifest(store, partition, transition)
    return replace(state, manifest=stored.manifest)
