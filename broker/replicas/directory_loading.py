"""Locks and loads the log directories at the start. One whose disk fails does not stop a broker that has others.

A directory belongs to one broker of one cluster (``meta.properties``) and to one process (``.lock``).
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from stratalog.broker.runtime.ballast import DISK_FULL, Ballast, Spare
from stratalog.hot.directory import LogDirectory
from stratalog.hot.gone_logs import is_new
from stratalog.hot.moved_logs import UnfinishedMove, only_copies, settle_moves, undecided
from stratalog.hot.stale_rows import forget_removed
from stratalog.hot.storage.checkpoint import FORGOTTEN_OFFSETS, write_clean_shutdown
from stratalog.hot.storage.directory_names import parse_directory_name
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition, Uuid, uuid_parse, uuid_text

__all__ = [
    "LoadedDirectory",
    "Settled",
    "check_formatted",
    "cluster_id_of",
    "load_directories",
    "lock_directory",
    "put_marks_back",
    "release_loaded",
    "report",
    "settle",
    "without",
]

_UUID_BYTES: Final = 16
_NO_COPIES: Final[Mapping[TopicPartition, str]] = MappingProxyType({})
_OF_THE_PROCESS: Final = DISK_FULL | {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors that another start does not have, or that a full disk makes: the start ends with them."""

log = logging.getLogger(__name__)


class LoadedDirectory(NamedTuple):
    """A log directory of this start. One with an ``error`` is offline: nothing of it is known, and it is not locked."""

    files: LogDirectory
    lock: int | None
    ballast: Ballast
    error: OSError | None = None


class Settled(NamedTuple):
    """The moves between directories that the last stop has interrupted, as the start leaves them."""

    unfinished_moves: list[UnfinishedMove]
    undecided: frozenset[TopicPartition] = frozenset()
    """Logs that came here by a move, and may have gone on in a directory that is offline since the start."""
    only_copies: Mapping[TopicPartition, str] = _NO_COPIES
    """Unfinished copies of logs that lie in a directory which is away; empty where that is lost."""
    is_replaced: bool = False
    """Whether all directories could be read, and one of them is new: a log that lies in none is lost."""
    away: frozenset[Uuid] = frozenset()
    """Directories that the start before had, and this one has not: logs may lie there."""

    @property
    def why_away(self) -> str:
        """The reason why a log that may lie in one of these is not opened."""
        missed = " and ".join(sorted(map(uuid_text, self.away)))
        return f"it lies in none of log.dirs, which lack directory {missed} of the start before: name that again"


def load_directories(
    paths: Iterable[str], files: Filesystem, spare: Spare, *, needed: str | None, metadata_only: str | None
) -> list[LoadedDirectory]:
    """Lock and load each directory.

    One that fails is offline, if another one that holds topics does not; ``needed``, the one of the metadata log, may not
    fail, and ``metadata_only`` names one without topics. Raises what stops the start, with all locks released:
    `Invalid`, `Corrupt`, `OSError`.
    """
    loaded: list[LoadedDirectory] = []
    paths = list(dict.fromkeys(paths))
    _check_distinct(paths)
    _check_no_partition(paths)
    try:
        for path in paths:
            one = _load(path, files, spare, may_fail=needed is not None and path != needed)
            loaded.append(one)  # one by one: an error releases those before
        _tell_unverified([one.files for one in loaded])
        failed = [one for one in loaded if one.error is not None]
        if failed and all(one.error is not None for one in loaded if one.files.path != metadata_only):
            raise _of_the_start(failed[0].error)
    except BaseException:
        release_loaded(loaded)
        raise
    for one in failed:
        log.critical(
            "log directory %s cannot be used: %s. The broker starts without it: partitions that lie there are offline here until "
            "the disk is repaired, or an empty one is in its place, and the broker started again",
            one.files.path,
            one.error,
        )
    return loaded


def _tell_unverified(directories: Sequence[LogDirectory]) -> None:
    """Let each directory know of a log that was moved there by hand, and that the last stop did not vouch for elsewhere."""
    unverified = set[TopicPartition]().union(*(one.unverified for one in directories))
    for one in directories:
        one.unverified |= unverified & one.partitions.keys()


def _check_distinct(paths: Iterable[str]) -> None:
    """Raise `Invalid` if one directory has two names: a link, or a mount. Its own lock would tell of another process."""
    names: dict[tuple[int, int], str] = {}
    for path in paths:
        try:
            found = os.stat(path)  # noqa: PTH116 - paths are strings throughout
        except OSError:
            continue
        other = names.setdefault((found.st_dev, found.st_ino), path)
        if other != path:
            raise Invalid(
                f"log.dirs (--data) names one directory twice, as {other} and as {path}: leave one of them out"
            )


def _check_no_partition(paths: Sequence[str]) -> None:
    """Raise `Invalid` if a directory lies in another one under the name of a partition: it would go with that topic."""
    places = {
        path: Path(os.path.realpath(path)) for path in paths
    }  # a loop of links is the trouble of its directory alone
    for path, place in places.items():
        for outer, above in places.items():
            inner = place.relative_to(above).parts if place.is_relative_to(above) else ()
            partition = parse_directory_name(inner[0]) if inner else None
            if partition is not None:
                raise Invalid(
                    f"log.dirs or metadata.log.dir names {path}, and {outer}/{inner[0]} is where the log of {partition} would lie: it would be "
                    f"removed with the topic {partition.topic}. Rename {inner[0]}, as to {inner[0].replace('-', '')}, or move it out of "
                    f"{outer}; nothing was changed"
                )


def _load(path: str, files: Filesystem, spare: Spare, *, may_fail: bool) -> LoadedDirectory:
    lock: int | None = None
    ballast = Ballast(path, spare.ballast_bytes)
    try:
        _make(path)
        lock = lock_directory(path)
        ballast.make_room(spare.cache_dir)
        loaded = LogDirectory.load(path, files)
        forget_removed(loaded)
        return LoadedDirectory(loaded, lock, ballast)
    except BaseException as error:  # noqa: BLE001 - raised again, or it is in what is returned
        if lock is not None:
            os.close(lock)
        if may_fail and isinstance(error, OSError) and error.errno not in _OF_THE_PROCESS:
            return LoadedDirectory(LogDirectory(path, files), None, ballast, error)
        raise _of_the_start(error) from None


class _NotMade(OSError):
    """A directory that cannot be made: with one directory only, the settings are wrong."""


def _of_the_start(error: BaseException | None) -> BaseException:
    """The error that ends the start."""
    assert error is not None
    return Invalid(str(error)) if isinstance(error, _NotMade) else error


def _make(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 - paths are strings throughout
    except OSError as error:
        if error.errno in _OF_THE_PROCESS:
            raise
        raise _NotMade(f"log.dirs (--data): the directory {path} cannot be made: {error.strerror}") from error


def settle(loaded: Sequence[LoadedDirectory], *, metadata_only: str | None) -> Settled:
    """Bring moves that a stop has interrupted to one log for each partition. Raises `OSError`.

    An empty directory that was formatted since the last start is in the place of one that is lost. While another one
    cannot be read, or none is new, a log that is in none of them may lie in one that is away. One that was new while another one
    could not be read still is when that is back.
    """
    usable = [one.files for one in loaded if one.error is None]
    is_all = len(usable) == len(loaded)
    paths = {one.path for one in usable}
    is_replaced = is_all and any(is_new(one, paths) for one in usable if one.path != metadata_only)
    alone = _NO_COPIES if is_replaced else only_copies(usable)
    unfinished = settle_moves(usable, partial(os.urandom, _UUID_BYTES), is_all=is_all, is_replaced=is_replaced)
    return Settled(unfinished, frozenset() if is_all else frozenset(undecided(usable)), alone, is_replaced)


def without(
    settled: Settled, former: Collection[Uuid], present: Collection[Uuid], unfound: Iterable[object]
) -> Settled:
    """The same for a broker whose metadata place no log in a directory: ``former`` were those of the start before.

    They are missed as long as there are ``unfound`` logs, which lie in none of ``present``; not where another one is new.
    """
    away = frozenset(former).difference(present)
    is_missed = away and not settled.is_replaced and any(True for _ in unfound)
    return settled._replace(away=away if is_missed else frozenset())


def release_loaded(loaded: Sequence[LoadedDirectory]) -> None:
    """Give up a start before it writes: marks of a clean stop go back, locks are released."""
    put_marks_back(one.files for one in loaded)
    for one in loaded:
        if one.lock is not None:
            os.close(one.lock)


def put_marks_back(directories: Iterable[LogDirectory]) -> None:
    """Write the marks of a clean stop again, which loading has taken."""
    for one in directories:
        if one.clean:
            with suppress(OSError):  # without the mark the next start verifies every log, and serves the same
                write_clean_shutdown(one.files, one.path, one.clean_broker_epoch)


def lock_directory(path: str) -> int:
    """Lock the directory; returns the descriptor, for the caller to close. Raises `OSError`, `Invalid` if locked."""
    descriptor = os.open(f"{path}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Invalid(
            f"log directory {path} is in use by another process; stop it, or give this broker another directory"
        ) from None
    return descriptor


def check_formatted(loaded: Iterable[LogDirectory]) -> None:
    """Raise `Invalid` for a directory without an id: a node of several may not make one up, it might have voted before."""
    for one in loaded:
        if one.owner is None or one.owner.directory_id is None:
            raise Invalid(
                f"{one.path} is not formatted, and the settings name other nodes: run `stratalog format` with this "
                "node's file and the id of the cluster first. If this node had data there before, its disk is not mounted, or "
                "was lost: a voter without its disk is no new one (docs/cluster.md)"
            )


def cluster_id_of(loaded: Iterable[LogDirectory], node_id: int) -> str:
    """The cluster that the directories name; a new id if none does. Raises `Invalid` for another node or several clusters."""
    known = [(one.path, one.owner) for one in loaded if one.owner is not None]
    for path, owner in known:
        if owner.node_id != node_id:
            raise Invalid(
                f"{path} belongs to node {owner.node_id}, this broker has node.id={node_id}: name the directories of this "
                f"node in log.dirs, or set node.id={owner.node_id}; nothing was changed"
            )
    ids: dict[bytes, str] = {}
    for path, owner in known:
        other = path if owner.directory_id is None else ids.setdefault(owner.directory_id, path)
        if other != path:
            raise Invalid(
                f"{other} and {path} have the same directory.id in meta.properties: one is a copy of the other. Name in "
                "log.dirs only the one that the broker used last; nothing was changed"
            )
    clusters = {owner.cluster_id: path for path, owner in reversed(known)}
    if len(clusters) > 1:
        found = ", ".join(f"{path} to {cluster_id}" for cluster_id, path in sorted(clusters.items()))
        raise Invalid(f"the log directories belong to different clusters: {found}; nothing was changed")
    if clusters:
        return next(iter(clusters))
    while True:
        text = uuid_text(os.urandom(_UUID_BYTES))
        if not text.startswith("-") and len(uuid_parse(text)) == _UUID_BYTES:
            return text


def report(directory: LogDirectory) -> None:
    """Log what is odd about a directory."""
    for name in directory.unknown:
        log.warning("%s/%s was not written by this broker; it is left alone", directory.path, name)
    for name in directory.damaged_checkpoints:
        if name == FORGOTTEN_OFFSETS:
            text = "%s/%s is damaged: until logs are cleaned again, a replica whose disk is put back hears here of no deletion that it missed"
            log.error(text, directory.path, name)
            continue
        log.error("%s/%s is damaged; its content is derived from the logs and the other files", directory.path, name)
    if directory.was_offline:
        log.warning("%s went offline in its last run; every file is verified from disk", directory.path)
