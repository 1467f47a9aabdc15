"""The files of the metadata log, ``__cluster_metadata``, as a start finds them: log, snapshots, ``quorum-state``.

A start checks everything that it reads before it changes anything. It refuses a log with damage, or one that no snapshot
reaches, and leaves the files as they are.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from stratalog.broker.quorum.batches import parse_batches
from stratalog.broker.quorum.log_views import view_of
from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.broker.replicas.directories import Directory
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.image.features import bootstrap_records, runnable_records
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage
from stratalog.metadata.image.snapshot import (
    SnapshotId,
    parse_snapshot_name,
    read_snapshot_and_quorum,
    snapshot_name,
)
from stratalog.metadata.quorum import quorum_state
from stratalog.metadata.quorum.batch_bounds import BATCH_BYTES_MAX
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT, read_bootstrap
from stratalog.metadata.quorum.checkpoint import STATIC_QUORUM, QuorumRecords
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.messages import ControlRecord, OffsetAndEpoch
from stratalog.metadata.raft.voter_set import VoterSet
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.schema import Message

__all__ = [
    "METADATA_LOG_CONFIG",
    "chunks_of",
    "first_records",
    "log_view_steps",
    "open_metadata_log",
    "read_newest_snapshot",
    "read_quorum_state",
    "snapshots_in",
    "store_quorum_state",
]

METADATA_LOG_CONFIG: Final = LogConfig(
    segment_bytes=1 << 30,
    segment_ms=7 * 86_400_000,
    retention_ms=-1,
    max_message_bytes=BATCH_BYTES_MAX,
    flush_messages=1,
)
READ_BYTES: Final = 1 << 20
_STEP_BYTES: Final = 1 << 16
"""The bytes that are checked without a pause: a thousand batches, if they are small."""
_SEGMENT: Final = ".log"
_DAMAGED: Final = ".damaged"
"""The end of the name of a snapshot that cannot be read: no list of snapshots has it."""

log = logging.getLogger(__name__)


def first_records(files: Filesystem, directory: str) -> tuple[Message, ...]:
    """The records with which a new metadata log begins: those of ``bootstrap.checkpoint``, or the defaults without one.

    Raises `Corrupt` for a file that cannot be read, `Invalid` for a cluster that this release cannot run.
    """
    path = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return tuple(bootstrap_records())
    try:
        records, lowered = runnable_records(read_bootstrap(content, path))
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from error
    for sentence in lowered:
        log.warning("%s: %s", path, sentence)
    return records


def open_metadata_log(home: Directory, *, now_ms: int, is_copy: bool = False) -> Log:
    """Open the metadata log in its directory, or make it. Raises `Corrupt` for damage, `OSError`.

    ``is_copy``: no commit has ever counted on this log, it is a broker's. Then cut off what a power cut has torn of the
    part that was not synced, also where later batches are whole: the quorum has it.
    """
    opening = partial(
        home.files.open_log,
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        METADATA_LOG_CONFIG,
        now_ms=now_ms,
        refuse_damage=True,
        unsynced_may_go=is_copy,
    )
    try:
        log_ = opening()
    except Corrupt:
        if not _take_back_beginning(home.files.files, home.files.partition_path(METADATA_PARTITION)):
            raise
        log_ = opening()
    if log_.recovery.damaged_offset is not None:
        log.warning(
            "the metadata log ends at offset %d (%s): what follows had not been synced, it is kept in %s and fetched again",
            log_.recovery.damaged_offset,
            log_.recovery.reason,
            log_.recovery.quarantine,
        )
    if log_.recovery.tail_offset is not None:
        log.log(
            logging.WARNING if log_.recovery.tail_is_short else logging.ERROR,
            "the metadata log ends at offset %d: %d bytes behind it are no whole batch (%s); they are kept in %s. If "
            "topics or settings are missing now, restore the directory from a copy",
            log_.recovery.tail_offset,
            log_.recovery.truncated_bytes,
            log_.recovery.reason,
            log_.recovery.quarantine,
        )
    return log_


def _take_back_beginning(files: Filesystem, directory: str) -> bool:
    """Remove the empty segment with which a log was to begin behind a snapshot when the process was killed; whether it is there.

    The rest of the log ends below it, so that the next step of the start lets it begin there again. Raises `OSError`.
    """
    segments = sorted(one for one in files.scan(directory, sized=(_SEGMENT,)) if one.name.endswith(_SEGMENT))
    if len(segments) < 2 or segments[-1].size_bytes:
        return False
    behind = [one for one in snapshots_in(files, directory) if f"{one.end_offset:020d}{_SEGMENT}" == segments[-1].name]
    if not behind:
        return False
    try:
        read_snapshot_and_quorum(files.read_bytes(f"{directory}/{snapshot_name(behind[-1])}"), behind[-1])
    except (Corrupt, Invalid):
        return False  # the log may be needed yet
    files.unlink(f"{directory}/{segments[-1].name}")
    files.sync_directory(directory)
    log.warning("%s: the log begins again behind %s, as before the last stop", directory, snapshot_name(behind[-1]))
    return True


# -- snapshots ---------------------------------------------------------------------------------------------------------


def snapshots_in(files: Filesystem, directory: str) -> list[SnapshotId]:
    """The finished snapshots of a directory, the oldest first."""
    # No sizes: a thread may give a file its name meanwhile, and its former name is gone when it is looked at.
    names = (parse_snapshot_name(entry.name) for entry in files.scan(directory, sized=()))
    return sorted(name for name in names if name is not None)


def read_newest_snapshot(log_: Log, files: Filesystem) -> tuple[ClusterImage, QuorumRecords]:
    """The image and the voters of the newest whole snapshot; an empty image, and static voters, without one.

    Newer ones that cannot be read get another name then: no other node is to begin with one, and the log before one stays.
    Raises `Corrupt` if the log does not reach back to a snapshot that can be read, or not as far as one that cannot,
    `Invalid` for one of a newer release, `OSError`.
    """
    image, quorum, unreadable = EMPTY_IMAGE, STATIC_QUORUM, []
    for snapshot in reversed(snapshots_in(files, log_.directory)):
        path = f"{log_.directory}/{snapshot_name(snapshot)}"
        try:
            image, quorum = read_snapshot_and_quorum(files.read_bytes(path), snapshot)
            break
        except Invalid as error:
            raise Invalid(f"{path}: {error}") from error
        except Corrupt as error:
            if not snapshot.end_offset:
                raise Corrupt(
                    f"{path}: {error}. It names the first voters of the quorum: copy it from another voter, or restore it"
                ) from error
            log.error("%s: %s; an older snapshot is tried", path, error)
            unreadable.append(snapshot)
    if image.provenance.offset + 1 < log_.log_start_offset:
        raise Corrupt(
            f"the metadata log in {log_.directory} begins at offset {log_.log_start_offset}, and no snapshot reaches "
            f"beyond offset {image.provenance.offset + 1}: restore the directory; the files are unchanged"
        )
    last = log_.leader_epochs.latest_epoch, log_.log_end_offset
    for end_offset, epoch in unreadable:
        if (epoch, end_offset) > last:
            raise Corrupt(
                f"the metadata log in {log_.directory} ends at offset {log_.log_end_offset}, and its snapshot up to offset "
                f"{end_offset} cannot be read: restore the directory from a copy; the files are unchanged"
            )
    for snapshot in unreadable:
        path = f"{log_.directory}/{snapshot_name(snapshot)}"
        files.rename(path, path + _DAMAGED)
    return image, quorum


# -- the log -----------------------------------------------------------------------------------------------------------


def chunks_of(log_: Log, offset: int, end_offset: int, max_bytes: int = READ_BYTES) -> Iterator[bytes]:
    """Whole batches from the one with ``offset`` up to ``end_offset``, about 1 MiB at a time. Raises `Corrupt`, `OSError`."""
    while offset < end_offset:
        read = log_.read(offset, max_bytes=max_bytes, max_offset=end_offset)
        content = b"".join(os.pread(part.file.fileno(), part.length, part.position) for part in read.parts)
        if not content:
            raise Corrupt(f"the metadata log in {log_.directory} cannot be read at offset {offset}")
        yield content
        offset = read.next_offset


def log_view_steps(
    log_: Log, files: Filesystem, quorum: QuorumRecords, quorum_end: int, static_voters: VoterSet
) -> Generator[None, None, LogView]:
    """The log as the quorum sees it; ``quorum`` is what the records below the offset ``quorum_end`` say of the voters.

    ``static_voters`` are those of the settings, which count as long as no record names others. Reads and checks every
    batch, with pauses. Raises `Corrupt`.
    """
    start, end = log_.log_start_offset, log_.log_end_offset
    epochs: dict[int, int] = {}
    found: list[tuple[int, ControlRecord]] = []
    at = start
    try:
        for chunk in chunks_of(log_, start, end, _STEP_BYTES):
            yield
            for batch in parse_batches(chunk, f"the metadata log in {log_.directory}"):
                if at not in (start, batch.base_offset):
                    raise Corrupt(f"it goes on at offset {batch.base_offset}")
                epochs.setdefault(batch.epoch, max(start, batch.base_offset))
                found.extend(enumerate(batch.control, batch.base_offset))
                at = batch.end_offset
        if at != end:
            raise Corrupt(f"its last batch ends there, and its end is {end}")
    except Corrupt as error:
        raise Corrupt(
            f"the metadata log in {log_.directory} is damaged near offset {at} ({error}): restore the directory from a "
            "copy; the files are unchanged"
        ) from error
    snapshots = [OffsetAndEpoch(*each) for each in snapshots_in(files, log_.directory)]
    view = view_of(
        start,
        end,
        list(epochs.items()),
        snapshots,
        found,
        quorum=quorum,
        quorum_end=quorum_end,
        static_voters=static_voters,
    )
    return replace(view, flushed_offset=log_.flushed_offset)


# -- quorum-state ------------------------------------------------------------------------------------------------------


def read_quorum_state(files: Filesystem, directory: str, *, only_voter: bool, last_epoch: int) -> QuorumState | None:
    """The stored epoch, leader and vote; None if there is no such file.

    Without the file an only voter goes on above the epochs of its log, because no other node has its votes. An epoch
    below those of the log is raised: the file has no checksum. Raises `Corrupt` for a file that is none.
    """
    path = f"{directory}/{quorum_state.FILE_NAME}"
    try:
        stored = quorum_state.parse_quorum_state(files.read_bytes(path), path)
    except FileNotFoundError:
        return QuorumState(leader_epoch=last_epoch) if only_voter else None
    if stored.leader_epoch < last_epoch:
        log.warning(
            "%s says leader epoch %d, but the metadata log has epoch %d: that one is taken",
            path,
            stored.leader_epoch,
            last_epoch,
        )
        return replace(stored, leader_epoch=last_epoch, leader_id=quorum_state.NO_VOTER, voted_id=quorum_state.NO_VOTER)
    return stored


def store_quorum_state(files: Filesystem, directory: str, state: QuorumState) -> None:
    """Put a state in the place of the one before; durable on return. Raises `OSError`; then the old one stands."""
    write_durably(files, f"{directory}/{quorum_state.FILE_NAME}", state.to_bytes())
