"""Opens the logs of partitions: where they lie, or in the directory with the fewest.

A log that cannot be opened stops no other. The partition is offline with a sentence that names it; where the disk is
only full it is tried again.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from stratalog.broker.replicas.directories import Directories, Directory
from stratalog.broker.replicas.due_partitions import DuePartition
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.recovery_report import RecoveryReport
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.hot.cleaner_offsets import know_rows
from stratalog.hot.config import LogConfig
from stratalog.hot.first_marks import begin_at_log_start
from stratalog.hot.gone_logs import has_lost, note_lost
from stratalog.hot.leaving_logs import doom_partition, forget_other_topic
from stratalog.hot.log.log import Log
from stratalog.hot.log.log_owner import LogOwner
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.stale_rows import drop_stale_rows
from stratalog.hot.storage.shortages import SHORTAGES
from stratalog.metadata.image.directory_ids import LOST, MIGRATING, UNASSIGNED, is_elsewhere, is_reserved
from stratalog.wire.errors import Corrupt, KafkaError, StratalogError
from stratalog.wire.topic import TopicPartition, Uuid, uuid_text

__all__ = ["LogOpening", "OpenedLog"]

_OF_ONE_NAME = frozenset(
    {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG}
)
"""Errors that say something about one file, and nothing about the disk."""
_PREFERRED_MAX = 10_000
_REFUSED_MAX: Final = 10
"""Logs of thousands that find no room, after which the others are not tried: one disk may be full, and another have room."""
_FILES_OF_A_NEW_LOG: Final = 2
"""Its segment and partition.metadata stay open until they are synced."""
_NAMED = (StratalogError, KafkaError, OSError)
"""Errors whose words are enough; of others the place in the code is logged, too."""

log = logging.getLogger(__name__)


class OpenedLog(NamedTuple):
    """A log that is open, the directory it lies in, and whether it has a past."""

    log: Log
    directory: Directory
    led: Led

    @property
    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """The checkpoint of the directory."""
        return self.directory.files.high_watermarks


class LogOpening:
    """Which logs are open in which directory, and which could not be opened so far."""

    def __init__(
        self, directories: Directories, table: PartitionTable, clock: Clock, *, segments_open_max: int
    ) -> None:
        """``table`` hears of what cannot be opened. So many files of segments may be held open."""
        self.counts: Counter[str] = Counter()
        """Open logs by the path of their directory."""
        self._preferred: dict[TopicPartition, Directory] = {}
        """Where logs that are not here yet are to be begun, as AlterReplicaLogDirs asked; the oldest are forgotten."""
        self._directories = directories
        self._table = table
        self._clock = clock
        self._cache = SegmentCache(open_max=segments_open_max)
        self._unsynced_max = max(segments_open_max // _FILES_OF_A_NEW_LOG // 2, 1)
        self._started = False
        self._recovery = RecoveryReport()
        self._unopened: dict[DuePartition, None] = {}
        self._lost: dict[Uuid, None] = {}
        """Topics with a log that was not there at the start and could not be begun anew so far."""
        self._unread: dict[TopicPartition, Uuid] = {}
        """Replicas without a directory in the metadata, and only ones, which may lie in one that is away since the start."""
        self._replaced: dict[TopicPartition, Uuid] = {}
        """The same where they were lost with a directory that was replaced."""
        self.given_up: dict[TopicPartition, Uuid] = {}
        """Replicas that count and whose logs are gone from their directory: the controller is to hear of it."""
        self.on_forgotten: Callable[[Uuid, int], None] = lambda _topic_id, _partition: None
        """Called with a replica of `given_up` that does not count any more. The controller refuses what it hears of it."""

    def started(
        self,
        is_placed_here: Callable[[TopicPartition], bool],
        anywhere: Callable[[], Iterable[tuple[TopicPartition, Uuid]]],
    ) -> None:
        """The logs of the last run have been opened: partitions without files are new from now on.

        ``anywhere`` gives the replicas of this broker that may lie in any directory, and the ids of their topics.
        """
        self._started = True
        if self._directories.is_partly_unread:
            self._unread = {name: topic_id for name, topic_id in anywhere() if not self._directories.holding(name)}
        elif self._directories.settled.is_replaced:
            self._replaced = {name: topic_id for name, topic_id in anywhere() if not self._directories.holding(name)}
        elif self._directories.settled.only_copies:
            copies = self._directories.settled.only_copies
            self._unread = {name: topic_id for name, topic_id in anywhere() if name in copies}
        self._directories.begin_points(is_placed_here)
        for directory in self._directories.online:
            directory.writer.begin_together()
        self._recovery.tell()

    def prefer(self, name: TopicPartition, directory: Directory) -> None:
        """Begin the log of a partition in this directory when it comes here."""
        self._preferred[name] = directory
        if len(self._preferred) > _PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def dropping_stale_rows(self, name: TopicPartition) -> Generator[None, None, None]:
        """Write the checkpoints without a log of this name that has left, in steps, before one is begun.

        While the logs of the last run are being opened it is done at once, when one is begun: marks of those that are
        not open yet would go.
        """
        for directory in self._directories.online if self._started else ():
            if name in directory.files.stale:
                yield from self._directories.checkpoint_steps(directory, self._table.partitions)

    def moved(self, source: Directory, target: Directory) -> None:
        """A log has moved from one directory to another."""
        self.counts[source.path] -= 1
        self.counts[target.path] += 1

    def open(
        self,
        name: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        *,
        leader_epoch_max: int,
        others_have_it: bool = False,
        placed_in: Uuid = UNASSIGNED,
        is_counted_on: bool = False,
    ) -> OpenedLog | None:
        """Open the log of a partition, or begin it; None if that fails, which the table then says to clients.

        ``leader_epoch_max`` is above every epoch that the log may hold; ``others_have_it`` says that there are other
        replicas, from which the log is copied again behind damage. ``placed_in`` is the directory that the cluster's metadata
        name: while one is offline, no log is begun anew that may lie there. ``is_counted_on``: others are copied from this
        replica, or it from none: it is not begun anew in the place of one in a directory that this broker does not have.
        """
        is_only = not others_have_it
        directory = self._place(name, topic_id, placed_in, is_counted_on=is_counted_on, is_only=is_only)
        if directory is None:
            return None
        directories = self._directories
        led = Led.OPENED
        if not directories.holding(name):
            is_lost = is_only and self._report_lost(name, topic_id, placed_in, directory)
            is_new = self._started and topic_id not in self._lost and not is_lost
            led = Led.CREATED if is_new else Led.LOST
        try:
            if led is not Led.OPENED:
                drop_stale_rows(directory.files, name)
            log_ = directory.files.open_log(
                name,
                topic_id,
                config,
                now_ms=self._clock.wall_ms(),
                cache=self._cache,
                leader_epoch_max=leader_epoch_max,
                others_have_it=others_have_it,
            )
            know_rows(directory.files, log_)
            begin_at_log_start(log_)
        except Exception as error:  # noqa: BLE001 - any mistake: one log that cannot be opened stops no other
            if led is Led.LOST:
                self._lost[topic_id] = None
            self._failed(name, topic_id, directory, error)
            return None
        self.counts[directory.path] += 1
        self._preferred.pop(name, None)
        self.given_up.pop(name, None)
        directories.begun(name)
        self._recovery.add(log_)
        return OpenedLog(log_, directory, led)

    def _place(
        self, name: TopicPartition, topic_id: Uuid, placed_in: Uuid, *, is_counted_on: bool, is_only: bool
    ) -> Directory | None:
        """Where the log lies, or is to lie; None if it cannot be opened there, which the table then says to clients."""
        if not self._make_way(name, topic_id, is_only=is_only):
            return None
        try:
            directory = self._directory_for(name, topic_id, placed_in, is_counted_on=is_counted_on, is_only=is_only)
            if is_counted_on:
                self._check_not_gone(name, topic_id, placed_in)
        except OSError as error:
            log.error("%s cannot be opened: %s", name, error)
            self._table.add_unopened(name.topic, topic_id, name.partition, f"{name} cannot be opened: {error}")
            if error.errno in SHORTAGES:
                self._unopened[DuePartition(topic_id, name.partition)] = None
            return None
        return directory

    def _make_way(self, name: TopicPartition, topic_id: Uuid, *, is_only: bool) -> bool:
        """Let no log of another topic bear this name; False if it does on, which the table then says to clients."""
        for directory in self._directories.all:
            if directory.writer.offline is None:
                try:
                    self._directories.make_way(directory, name, topic_id, is_only=is_only)
                except (OSError, Corrupt) as error:
                    self._failed(name, topic_id, directory, error)
                    if directory.writer.offline is None:
                        return False
            if directory.writer.offline is not None:
                forget_other_topic(directory.files, name, topic_id)
        return True

    def _directory_for(
        self, name: TopicPartition, topic_id: Uuid, placed_in: Uuid, *, is_counted_on: bool, is_only: bool
    ) -> Directory:
        """Where the log lies, or is to lie. Raises `OSError` if that is offline, or may be, or is not here."""
        directories = self._directories
        directory = self._holding(name, placed_in)
        if directory is not None and directory.writer.offline is not None:
            raise OSError(f"it lies in {directory.path}, which is offline: {directory.writer.offline}")
        if directory is not None:
            return directory
        if directories.is_partly_unread and not self._started and (is_only or placed_in in {UNASSIGNED, MIGRATING}):
            self._unread[name] = topic_id  # an only log may have been about to move from there
        if self._unread.get(name) == topic_id:
            raise OSError(self._why_unread(name))
        is_away = is_elsewhere(placed_in, [one.directory_id for one in directories.online])
        if is_away and len(directories.online) < len(directories.all):
            raise OSError("it may lie in a directory that is offline, and is not begun anew in another one")
        if is_away and is_counted_on:
            why = f"it lies in directory {uuid_text(placed_in)}, which is none of this broker's: an empty log in its place would have the "
            raise OSError(
                f"{why}other replicas drop what they have. Restore that directory, or elect one of them uncleanly"
            )
        if is_only and is_elsewhere(placed_in, directories.ids) and not directories.settled.is_replaced:
            raise OSError(
                f"it lies in directory {uuid_text(placed_in)}, which is none of this broker's, and no other broker has it. "
                f"Restore that directory. {_by_hand(name)}"
            )
        preferred = self._preferred.get(name)
        if preferred is not None and preferred.writer.offline is None:
            return preferred
        return directories.emptiest(self.counts)

    def _holding(self, name: TopicPartition, placed_in: Uuid) -> Directory | None:
        """The directory in which the log lies. Raises `OSError` if another one may have the log that counts.

        Of several logs the one counts that the metadata name; the others are kept aside. They come with a disk that was away
        while the replica was begun anew in another directory.
        """
        directories = self._directories
        found = directories.holding(name)
        paths = " and ".join(one.path for one in found)
        if name in directories.settled.undecided:
            raise OSError(
                f"it has moved to {paths} from a directory that is offline since the start, and may have gone on there"
            )
        if len(found) == 1 and LOST in directories.ids and is_elsewhere(placed_in, directories.ids):
            raise OSError(
                f"it lies in {paths}, and by the metadata in another directory, which may be one that is offline. If that disk "
                "is lost, replace it by an empty one: the log goes on here then"
            )
        if len(found) < 2:
            return found[0] if found else None
        named = [one for one in found if one.directory_id == placed_in]
        if not named:
            raise OSError(
                f"it lies in {paths}, and the metadata name none of them: move the wrong ones elsewhere, and start again"
            )
        for one in found:
            if one is not named[0] and one.writer.offline is None:
                text = "%s lies in %s by the metadata; the log in %s is of before, and is kept as %s"
                try:
                    log.error(text, name, named[0].path, one.path, directories.set_log_aside(one, name))
                except OSError as error:
                    one.writer.report(error)
                    raise
        return named[0]

    def _why_unread(self, name: TopicPartition) -> str:
        copy = self._directories.settled.only_copies.get(name)
        if self._directories.settled.away and len(self._directories.online) == len(self._directories.all):
            return f"{self._directories.settled.why_away}. {_by_hand(name)}"
        if copy is None or self._directories.is_partly_unread:
            return "it may lie in the directory that is offline since the start, and is not begun anew in another one"
        return f"it lies in none of log.dirs, and {copy} is an unfinished copy: restore the other directory. {_by_hand(name)}"

    def _check_not_gone(self, name: TopicPartition, topic_id: Uuid, placed_in: Uuid) -> None:
        """Raise `OSError` if the log lay here and is gone: an empty one in its place would have the others drop what they have."""
        if self._directories.holding(name):
            return
        if self.given_up.get(name, topic_id) != topic_id:
            self.forget_gone(name)
        lost_by = self._directories.that_lost(name, placed_in)
        if lost_by is None and placed_in != LOST:
            return
        if lost_by is not None:
            note_lost(lost_by.files, name)
        self._lost[topic_id] = None
        self.given_up[name] = topic_id
        where = f"the directory {name}" if lost_by is None else f"{lost_by.path}/{name}"
        raise OSError(
            f"its log is gone from {where}, and is copied again when another replica leads: an empty log in its place would "
            "have the others drop what they have. If none leads, restore the files, or elect one of the others uncleanly; if the "
            "logs of all are gone, make this directory by hand, and restart"
        )

    def _report_lost(self, name: TopicPartition, topic_id: Uuid, placed_in: Uuid, directory: Directory) -> bool:
        """Say that the only log of a partition begins anew although it was here: its disk was replaced, or its files removed.

        False where it was not here.
        """
        if placed_in == UNASSIGNED:  # as all logs of a node of its own
            held_it = next((one for one in self._directories.online if has_lost(one.files, name)), None)
        else:
            held_it = self._directories.that_lost(name, placed_in)
        if held_it is not None:
            lay_in = held_it.path
        elif is_elsewhere(placed_in, self._directories.ids):
            lay_in = f"the directory {uuid_text(placed_in)}, which is none of this broker's"
        elif self._replaced.get(name) == topic_id and not is_reserved(placed_in):
            lay_in = "a directory whose disk was replaced"  # it was about to move when its broker stopped
        else:
            return False
        log.error(
            "%s: its log is gone from %s, and no other broker has one: it begins anew in %s, after the end of its archive if it "
            "has one. If the files can be restored, stop this broker and put them back before clients write",
            name,
            lay_in,
            directory.path,
        )
        return True

    def forget_topic(self, topic: str, topic_id: Uuid) -> None:
        """A topic was deleted: its logs are neither missed nor closed here. Those of another one of its name are."""
        self._table.forget_unopened(topic, topic_id)
        for name in [one for one, known_id in self.given_up.items() if known_id == topic_id]:
            self.forget_gone(name)

    def forget_gone(self, name: TopicPartition) -> None:
        """The same for one partition, which other brokers or another topic have."""
        self._table.forget_closed(name)
        if name not in self.given_up:
            return
        self.on_forgotten(self.given_up.pop(name), name.partition)
        self._directories.forget_gone(name)

    def removed(self, unified: UnifiedLog) -> None:
        """A partition has left this broker, and its log is abandoned: let its files go."""
        directory = self._directories.of(unified.partition.directory)
        self.counts[directory.path] -= 1
        if directory.writer.offline is not None:  # the next start that can read it keeps it aside
            return
        try:
            doom_partition(directory.files, unified.topic_partition, os.urandom(len(unified.topic_id)))
        except OSError as error:
            directory.writer.report(error)

    def _failed(self, name: TopicPartition, topic_id: Uuid, directory: Directory, error: Exception) -> None:
        path = directory.files.partition_path(name)
        self._table.add_unopened(name.topic, topic_id, name.partition, _unopened(name, path, error))
        if isinstance(error, OSError) and error.errno not in _OF_ONE_NAME:
            directory.writer.report(error)
            if directory.writer.offline is None:
                self._unopened[DuePartition(topic_id, name.partition)] = None
        else:
            named = isinstance(error, _NAMED)
            log.error("%s", _unopened(name, path, error), exc_info=None if named else error)

    def sync_recovered(self, opened: OpenedLog, owner: LogOwner) -> None:
        """Bring to disk what the last run left unsynced; at a start beside the other logs, in threads."""
        if opened.log.has_unsynced:
            writer = opened.directory.writer
            (writer.sync_unhurried if self._started else writer.sync_together)(owner)

    @property
    def is_behind(self) -> bool:
        """Whether so many new logs wait for their first sync that more of them would take the descriptors of all else."""
        return sum(one.writer.unhurried_count for one in self._directories.all) >= self._unsynced_max

    def taking_unopened(self) -> Iterator[DuePartition]:
        """The partitions that a full disk kept from being opened, each to be tried again before the next one is taken.

        It ends when some have found no room again, which come last the next time, or when `is_behind`.
        """
        waiting, self._unopened = deque(self._unopened), {}
        try:
            while waiting and len(self._unopened) < _REFUSED_MAX and not self.is_behind:
                yield waiting.popleft()
        finally:
            self._unopened = dict.fromkeys((*waiting, *self._unopened))

    def tell_recovery(self) -> None:
        """Log what logs that were opened late have cost."""
        self._recovery.tell()


def _by_hand(name: TopicPartition) -> str:
    """The explicit word of the operator that an only log is lost."""
    return f"If it is lost for good, make the directory {name} in one of log.dirs, empty, and start again: it begins anew there"


def _unopened(name: TopicPartition, path: str, error: Exception) -> str:
    return (
        f"{name} cannot be opened and is offline, the other partitions are served. Its files are in {path}: repair or move "
        f"away what is named here, and restart the broker: {error if isinstance(error, _NAMED) else repr(error)}"
    )
