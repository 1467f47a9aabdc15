"""Changing the bucket of a data directory on purpose: what would be lost is found first, and then the identity is replaced.

The broker is stopped. Partitions whose archive is in the new bucket as far as it went go on there. One whose archive is
not there begins a new archive with what is on the disk; whatever was only in the old bucket has to be given up by the name
of its topic.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from stratalog.broker.archive.known_bucket import KnownBucket, read_known_bucket, write_known_bucket
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.hot.storage.directory_names import parse_directory_name
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.lost_archive import may_end_earlier
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.messages.bucket_commands import SignBucket
from stratalog.tier.stores.store import ObjectStore
from stratalog.tier.work.bucket_identity import broker_name, sign_bucket
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition, uuid_text

__all__ = ["Adoption", "MovedPartition", "adopt_bucket", "plan_adoption"]

_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_UUID_BYTES: Final = 16


class MovedPartition(NamedTuple):
    """One archived partition: where its log begins on the disk, what is known of its archive, what the new bucket has."""

    name: TopicPartition
    local_start: int
    log_start: int
    known: RemoteLogState
    manifest: Manifest

    @property
    def is_there(self) -> bool:
        """Whether the new bucket has all that was archived."""
        known = self.known
        return self.manifest.remote_end >= known.remote_end_offset or may_end_earlier(self.manifest, known.manifest_seq)

    @property
    def lost(self) -> tuple[int, int]:
        """Offsets that the log would not have any more, end exclusive; empty if nothing would be lost.

        A log has no hole: where the new bucket ends below what is on the disk, what it holds is lost with the hole. And a log
        begins where its archive does, also where the disk has more.
        """
        if self.leaves_hole:
            return min(self.log_start, self.local_start), self.local_start
        if self.begins_later:
            return self.log_start, self.manifest.log_start_offset
        return 0, 0

    @property
    def leaves_hole(self) -> bool:
        """Whether the archive in the new bucket ends below what is on the disk, also where a repair has made it end earlier."""
        return self.manifest.remote_end < self.local_start

    @property
    def begins_later(self) -> bool:
        """Whether the archive in the new bucket begins above the log start."""
        return self.manifest.deleted_ms < 0 and self.manifest.log_start_offset > self.log_start

    @property
    def loss(self) -> str:
        """The offsets that would be lost, and why, for a message."""
        found = (
            f"ends at {self.manifest.remote_end}" if self.leaves_hole else f"begins at {self.manifest.log_start_offset}"
        )
        return f"{self.name} [{self.lost[0]}, {self.lost[1]}), as the archive there {found}"

    @property
    def state(self) -> RemoteLogState | None:
        """The checkpoint from now on; None has the next start compare and begin a new archive."""
        if self.is_there and not self.begins_later:
            return self.known
        if not self.manifest.seq:
            return None
        manifest = self.manifest
        return RemoteLogState(manifest.log_start_offset, manifest.remote_end, manifest.totals.size_bytes, manifest.seq)


class Adoption(Struct, frozen=True):
    """The changes to make in each log directory. ``cluster_id`` and ``node_id`` are those of the directories."""

    cluster_id: str
    node_id: int
    partitions: dict[str, list[MovedPartition]]

    @property
    def losses(self) -> list[MovedPartition]:
        """Partitions that would lose offsets."""
        return [one for rows in self.partitions.values() for one in rows if one.lost[0] < one.lost[1]]


def plan_adoption(files: Filesystem, directories: Sequence[str], store: ObjectStore) -> Adoption:
    """Compare every archived partition with the new bucket; nothing is written.

    Raises `Invalid` for directories that are no broker's or of several, `Corrupt`, `OSError`, and what the store raises.
    """
    owners = [checkpoint.read_meta_properties(files, path) for path in directories]
    found = {(owner.cluster_id, owner.node_id) for owner in owners if owner is not None}
    if len(found) != 1 or None in owners:
        raise Invalid(f"{', '.join(directories)}: these are not the log directories of one broker")
    ((cluster_id, node_id),) = found
    return Adoption(cluster_id, node_id, {path: list(_partitions(files, path, store)) for path in directories})


def _partitions(files: Filesystem, path: str, store: ObjectStore) -> Iterator[MovedPartition]:
    states = checkpoint.read_remote_log(files, path)
    starts = checkpoint.read_offsets(files, path, checkpoint.LOG_START_OFFSETS)
    for entry in files.scan(path):
        name = parse_directory_name(entry.name)
        if name is None or name not in states or not states[name].remote_end_offset:
            continue
        directory = f"{path}/{entry.name}"
        topic_id = checkpoint.read_topic_id(files, directory)
        if topic_id is None:
            raise Invalid(
                f"{directory} does not say which topic it is of: repair {checkpoint.PARTITION_METADATA} first"
            )
        bases = [int(match[1]) for one in files.scan(directory) if (match := _SEGMENT.fullmatch(one.name))]
        local_start = min(bases, default=states[name].remote_end_offset)
        manifest = read_manifest(store, PartitionId(name.topic, topic_id, name.partition)).manifest
        log_start = max(starts.get(name, 0), states[name].log_start_offset)
        yield MovedPartition(name, local_start, log_start, states[name], manifest)


def adopt_bucket(
    files: Filesystem,
    adoption: Adoption,
    store: ObjectStore,
    url: str,
    *,
    home: str,
    given_up: Collection[str],
    random_uuid: Callable[[], bytes] = lambda: os.urandom(_UUID_BYTES),
) -> KnownBucket:
    """Have the directories archive to the bucket at ``url``; ``home`` is the directory of the metadata.

    ``given_up`` names every topic that may lose offsets. The identity is written last: what is broken off is done
    again. Raises `Invalid` for a loss that is not given up, and for archives that another cluster has taken over, and what
    the disk and the store raise.
    """
    known = read_known_bucket(files, home) or KnownBucket()
    _refuse_taken(adoption, known, url)
    refused = [one for one in adoption.losses if one.name.topic not in given_up]
    if refused:
        ranges = "; ".join(one.loss for one in refused[:10])
        raise Invalid(
            f"{url} does not have all that the log has, so these offsets would be lost: {ranges}. Copy the bucket "
            "first, or name each topic that may lose this with --give-up TOPIC"
        )
    for path, rows in adoption.partitions.items():
        starts = checkpoint.read_offsets(files, path, checkpoint.LOG_START_OFFSETS)
        states = checkpoint.read_remote_log(files, path)
        for one in rows:
            if one.lost[0] < one.lost[1]:
                starts[one.name] = max(starts.get(one.name, 0), one.lost[1])
            if one.state is None:
                del states[one.name]
            else:
                states[one.name] = one.state
        checkpoint.write_offsets(files, path, checkpoint.LOG_START_OFFSETS, starts)
        checkpoint.write_remote_log(files, path, states)
    incarnation = max(known.incarnation, 0)
    broker = broker_name(adoption.node_id, incarnation)
    command = SignBucket(adoption.cluster_id, broker, uuid_text(random_uuid()), incarnation, "", known.starts)
    known = replace(known, bucket_id=sign_bucket(store, command).bucket_id, url=url)
    write_known_bucket(files, home, known)
    return known


def _refuse_taken(adoption: Adoption, known: KnownBucket, url: str) -> None:
    """Raise `Invalid` for archives of a later incarnation than the cluster's: the broker would be fenced there for good."""
    rows = [one for rows in adoption.partitions.values() for one in rows]
    taken = [one for one in rows if one.manifest.claimant.incarnation > known.incarnation >= 0]
    if taken:
        names = ", ".join(str(one.name) for one in taken[:10])
        raise Invalid(
            f"{url}: a restore with --takeover has made the archives of {names} those of another cluster, of incarnation "
            f"{taken[0].manifest.claimant.incarnation}, and this one has {known.incarnation}: it could archive nothing there. "
            "Use a bucket that was not taken over, or the cluster that was restored"
        )
