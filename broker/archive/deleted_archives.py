"""Archives of deleted topics on their way out: noted on disk before the topic goes, moved to the trash, removed after the grace.

Where a broker is the whole cluster, the note is written before the deletion becomes a record of the metadata log, so that a
crash in between forgets nothing; a note whose topic still lives at the next start is void. In a cluster of several nodes
brokers note what was committed: see `deletion_turns`. Only a note removes an archive, never the absence of a topic: a broker
that has lost its metadata deletes nothing.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from stratalog.broker.workers.io_worker import Submit
from stratalog.hot.storage.checkpoint import DELETED_ARCHIVES, write_durably
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.image.image import ClusterImage
from stratalog.tier.bucket.trash import TOPIC_DELETED
from stratalog.tier.documents.keys import PartitionId, topic_key
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.records.metadata import RemoveTopicRecord
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid, uuid_parse, uuid_text

__all__ = [
    "DeletedArchive",
    "DeletedArchives",
    "DeletionPorts",
    "note_deletions",
    "removed_archives",
]

_UUID_BYTES: Final = 16
_AT_ONCE: Final = 4
_LONGEST_WAIT_MS: Final = 3_600_000
_WRITTEN_AFTER_SECONDS: Final = 1.0
"""Finished notes leave the disk together: repeating a finished removal costs nothing."""

log = logging.getLogger(__name__)


class DeletedArchive(Struct, frozen=True):
    """One partition of a deleted topic, and the claim under which it is removed: above that of its last leader."""

    partition: PartitionId
    claimant: Claimant
    not_before_ms: int = 0
    """The wall time from which on it is this broker's turn."""
    asks_first: bool = False
    """Whether there may be no archive: none was known, or another broker has removed it. Then nothing is claimed."""


class DeletionPorts(Struct, frozen=True):
    """How to reach the bucket, the clock and the disk. ``read_only``: the archives are removed by those who write them."""

    submit: Submit
    now_ms: Callable[[], int]
    later: Callable[[float, Callable[[], None]], object]
    grace_ms: Callable[[], int]
    interval_ms: Callable[[], int]
    read_only: bool = False


def removed_archives(
    image: ClusterImage,
    records: Iterable[Message],
    *,
    is_tiered: Callable[[str, Uuid], bool],
    incarnation: int,
    node_id: int,
) -> list[DeletedArchive]:
    """The archives of the topics that ``records`` delete, partition by partition."""
    found = []
    for record in records:
        topic = image.topics.by_id.get(record.topic_id) if isinstance(record, RemoveTopicRecord) else None
        if topic is None or not is_tiered(topic.name, topic.topic_id):
            continue
        for number, state in topic.partitions.items():
            claimant = Claimant(incarnation, state.leader_epoch + 1, os.urandom(_UUID_BYTES), node_id)
            found.append(DeletedArchive(PartitionId(topic.name, topic.topic_id, number), claimant))
    return found


def note_deletions(
    deleted: DeletedArchives,
    is_archived: Callable[[str, Uuid], bool],
    node_id: int,
    image: ClusterImage,
    records: Iterable[Message],
) -> None:
    """Note the archives that ``records`` will remove; call it before they are written. Raises KAFKA_STORAGE_ERROR.

    ``is_archived(topic, topic_id)`` is whether anything of a topic's partitions here was archived, whatever its settings say now.
    """

    def is_tiered(name: str, topic_id: Uuid) -> bool:
        configured = image.topic_configs(name).get("remote.storage.enable", "false").strip().lower() == "true"
        return configured or is_archived(name, topic_id)

    deleting = [record for record in records if isinstance(record, RemoveTopicRecord)]
    if deleting:
        deleted.note(
            removed_archives(image, deleting, is_tiered=is_tiered, incarnation=image.incarnation, node_id=node_id)
        )


class DeletedArchives:
    """The notes of ``directory``; removes a few archives at a time and retries without end."""

    def __init__(self, files: Filesystem, directory: str, cluster_id: str, ports: DeletionPorts) -> None:
        self._files = files
        self._path = f"{directory}/{DELETED_ARCHIVES}"
        self._cluster_id = cluster_id
        self._ports = ports
        self._notes: dict[PartitionId, DeletedArchive] = {}
        self._ready: deque[DeletedArchive] = deque()
        self._attempts: dict[PartitionId, int] = {}
        self._found: set[PartitionId] = set()
        """Archives that were asked for, and are there."""
        self._told: dict[PartitionId, str] = {}
        """The last line in the log about each of the archives that cannot be removed yet: a cut may hold one for years."""
        self._loaded: dict[PartitionId, DeletedArchive] = {}
        self._running = 0
        self._writing = False
        self._closed = False

    @property
    def pending(self) -> list[PartitionId]:
        """The partitions whose archives are still to be removed."""
        return list(self._notes)

    def load(self) -> None:
        """Read the notes of an earlier run, before any new one is made. A file that cannot be read is kept aside."""
        try:
            data = self._files.read_bytes(self._path)
        except FileNotFoundError:
            return
        try:
            notes = [_from_fields(each) for each in json.loads(data)["archives"]]
        except (ValueError, TypeError, LookupError, Invalid) as error:
            kept = f"{self._path}.damaged"
            self._files.rename(self._path, kept)
            log.error(
                "%s cannot be read (%r) and is kept as %s: archives of deleted topics that it names stay in the bucket, "
                "`stratalog tier gc` lists them",
                self._path,
                error,
                kept,
            )
            return
        self._loaded = {one.partition: one for one in notes}
        self._notes = dict(self._loaded)

    def start(self, living: Collection[Uuid]) -> None:
        """Go on with the notes of an earlier run; drop those of ``living`` topics, which were never deleted.

        A note that was made since is left alone: its record may be on its way.
        """
        loaded, self._loaded = self._loaded, {}
        for one in loaded.values():
            if self._notes.get(one.partition) is not one:
                continue
            if one.partition.topic_id in living:
                self._drop(one)
            else:
                self._enqueue(one)

    def note(self, archives: Sequence[DeletedArchive]) -> None:
        """Store notes of archives about to be deleted; durable on return.

        Raises KAFKA_STORAGE_ERROR if it cannot be written: then the topic must not be deleted.
        """
        if not archives or self._ports.read_only:
            return
        before = dict(self._notes)
        self._notes.update((one.partition, one) for one in archives)
        try:
            self._write()
        except OSError as error:
            self._notes = before
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Nothing was deleted: the archive of {archives[0].partition.topic} cannot be noted for removal: {error}",
            ) from error

    def note_committed(self, archives: Sequence[DeletedArchive]) -> None:
        """Note archives of topics that are deleted already; a disk that refuses is tried again."""
        if self._ports.read_only or not archives:
            return
        self._notes.update((one.partition, one) for one in archives if one.partition not in self._notes)
        self._write_or_later()

    def confirm(self, topic_ids: Collection[Uuid]) -> None:
        """Begin to remove the archives of these topics, which are deleted and no longer led."""
        told: set[Uuid] = set()
        for one in list(self._notes.values()):
            if one.partition.topic_id not in topic_ids:
                continue
            if one.partition.topic_id not in told and not one.asks_first:
                told.add(one.partition.topic_id)
                self._ports.submit(self._marked(one.partition), lambda _: None)
            self._enqueue(one)

    async def close(self) -> None:
        """Ignore answers from now on; the notes stay."""
        self._closed = True

    def _marked(self, partition: PartitionId) -> commands.WriteProjection:
        """Mark the topic's description in the bucket as deleted."""
        fields = {
            "format": "stratalog-topic",
            "version": 1,
            "cluster_id": self._cluster_id,
            "topic": partition.topic,
            "topic_id": uuid_text(partition.topic_id),
            "state": "deleted",
        }
        return commands.WriteProjection(topic_key(partition.topic, partition.topic_id), fields)

    # -- one after the other --------------------------------------------------------------------------------------

    def _enqueue(self, one: DeletedArchive) -> None:
        wait_ms = one.not_before_ms - self._ports.now_ms()
        if wait_ms > 0:
            self._ports.later(min(wait_ms, _LONGEST_WAIT_MS) / 1000, lambda: self._enqueue(one))
            return
        self._ready.append(one)
        self._next()

    def _next(self) -> None:
        while self._ready and self._running < _AT_ONCE and not self._closed:
            one = self._ready.popleft()
            if one.partition in self._notes:
                self._running += 1
                self._trash(one)

    def _trash(self, one: DeletedArchive) -> None:
        command = commands.TrashArchive(
            one.partition, one.claimant, self._ports.now_ms(), TOPIC_DELETED, cluster_id=self._cluster_id
        )
        if one.partition in self._attempts:  # it is in the trash already
            self._remove(one)
        elif one.asks_first and one.partition not in self._found:
            self._ask(one)
        else:
            self._ports.submit(command, lambda report: self._trashed(one, report))

    def _ask(self, one: DeletedArchive) -> None:
        """Look whether there is an archive: this removes what another broker has left in the trash, and claims nothing."""
        command = commands.RemoveArchive(one.partition, one.claimant, self._ports.now_ms(), self._ports.grace_ms())
        self._ports.submit(command, lambda report: self._asked(one, report))

    def _asked(self, one: DeletedArchive, report: commands.Report) -> None:
        if isinstance(report, commands.ArchiveRemoved):
            self._attempts[one.partition] = 0
            self._removed(one, report)
        elif isinstance(report, commands.LostReport) or (
            isinstance(report, commands.FailedReport) and not report.retriable
        ):  # its last leader's claim is on it, or it is not in the trash yet
            self._found.add(one.partition)
            self._ports.submit(self._marked(one.partition), lambda _: None)
            self._trash(one)
        else:
            self._failed(one, report)

    def _trashed(self, one: DeletedArchive, report: commands.Report) -> None:
        if isinstance(report, commands.ManifestRead):
            self._attempts[one.partition] = 0
            self._remove(one)
        else:
            self._failed(one, report)

    def _remove(self, one: DeletedArchive) -> None:
        grace_ms = self._ports.grace_ms()
        command = commands.RemoveArchive(one.partition, one.claimant, self._ports.now_ms(), grace_ms)
        self._ports.submit(command, lambda report: self._removed(one, report))

    def _removed(self, one: DeletedArchive, report: commands.Report) -> None:
        if not isinstance(report, commands.ArchiveRemoved):
            self._failed(one, report)
        elif report.left_count:
            if report.problem and report.problem != self._told.get(one.partition):
                self._told[one.partition] = report.problem
                log.warning("%s: %s", one.partition, report.problem)
            grace_ms, first = self._ports.grace_ms(), not self._attempts[one.partition]
            self._attempts[one.partition] += 1
            self._again(one, grace_ms + 1 if first else min(grace_ms, _LONGEST_WAIT_MS))
        elif self._is_last(one):
            topic, topic_id, _ = one.partition
            command = commands.RemoveTopicDocument(topic, topic_id)
            self._ports.submit(command, lambda written: self._finish(one, written))
        else:
            self._done(one)

    def _is_last(self, one: DeletedArchive) -> bool:
        topic_id = one.partition.topic_id
        return all(other.topic_id != topic_id or other == one.partition for other in self._notes)

    def _finish(self, one: DeletedArchive, report: commands.Report) -> None:
        if isinstance(report, commands.Written):
            self._done(one)
        else:
            self._failed(one, report)

    def _done(self, one: DeletedArchive) -> None:
        log.info("%s: the deleted topic's archive is removed completely", one.partition)
        self._drop(one)
        self._release()

    def _drop(self, one: DeletedArchive) -> None:
        if self._notes.get(one.partition) == one:
            del self._notes[one.partition]
            self._attempts.pop(one.partition, None)
            self._found.discard(one.partition)
            self._told.pop(one.partition, None)
            self._write_later()

    def _failed(self, one: DeletedArchive, report: commands.Report) -> None:
        message = getattr(report, "message", str(report))
        if isinstance(report, commands.FencedReport):
            log.warning(
                "%s: the deleted topic's archive belongs to another broker now and stays: %s", one.partition, message
            )
            self._drop(one)
            self._release()
            return
        log.warning("%s: removing the deleted topic's archive is tried again: %s", one.partition, message)
        self._again(one, 0)

    def _again(self, one: DeletedArchive, wait_ms: int) -> None:
        wait_ms = max(wait_ms, self._ports.interval_ms())
        self._ports.later(wait_ms / 1000, lambda: self._enqueue(one))
        self._release()

    def _release(self) -> None:
        self._running -= 1
        self._next()

    # -- the note ---------------------------------------------------------------------------------------------------

    def _write_later(self) -> None:
        if not self._writing:
            self._writing = True
            self._ports.later(_WRITTEN_AFTER_SECONDS, self._write_now)

    def _write_now(self) -> None:
        self._writing = False
        if not self._closed:
            self._write_or_later()

    def _write_or_later(self) -> None:
        try:
            self._write()
        except OSError as error:
            log.warning("%s could not be written, and is tried again: %s", self._path, error)
            self._write_later()

    def _write(self) -> None:
        fields = {"version": 0, "archives": [_to_fields(one) for one in self._notes.values()]}
        write_durably(self._files, self._path, json.dumps(fields).encode())


def _to_fields(one: DeletedArchive) -> dict[str, Any]:
    partition, claimant = one.partition, one.claimant
    return {
        "topic": partition.topic,
        "topic_id": uuid_text(partition.topic_id),
        "partition": partition.partition,
        "incarnation": claimant.incarnation,
        "leader_epoch": claimant.leader_epoch,
        "claim": uuid_text(claimant.uuid),
        "broker_id": claimant.broker_id,
        "not_before_ms": one.not_before_ms,
        "asks_first": one.asks_first,
    }


def _from_fields(fields: dict[str, Any]) -> DeletedArchive:
    partition = PartitionId(fields["topic"], uuid_parse(fields["topic_id"]), int(fields["partition"]))
    claim = uuid_parse(fields["claim"])
    claimant = Claimant(int(fields["incarnation"]), int(fields["leader_epoch"]), claim, int(fields["broker_id"]))
    return DeletedArchive(
        partition, claimant, int(fields.get("not_before_ms", 0)), bool(fields.get("asks_first", False))
    )
