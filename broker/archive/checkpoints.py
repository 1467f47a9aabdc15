"""The broker's records of its archives beside the logs, so that it starts and answers without the bucket."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.directories import Directories, Directory
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.storage.checkpoint import SECOND_TIMELINES, RemoteLogState, write_offsets, write_remote_log
from stratalog.wire.topic import TopicPartition

__all__ = ["ArchiveCheckpoints"]

_CERTAIN: Final = 0
_DOUBTED: Final = 1
"""Rows of logs that have to be compared: earlier releases wrote 0 for all of them."""


class ArchiveCheckpoints:
    """Remote ends, log starts, and partitions whose log may be of another timeline than their archive."""

    def __init__(self, directories: Directories) -> None:
        self._directories = directories
        self._cleared: set[TopicPartition] = set()
        """Those that agree with their archives while a directory has a row of them: two have one of a log that moves."""

    def _of(self, unified: UnifiedLog) -> Directory:
        return self._directories.of(unified.partition.directory)

    def state_of(self, unified: UnifiedLog) -> RemoteLogState | None:
        """The state of a partition's archive that an earlier run stored."""
        return self._of(unified).files.remote_logs.get(unified.topic_partition)

    def archives_known(self) -> bool:
        """True if this directory is known to have archived records of the partition."""
        states = (state for one in self._directories.all for state in one.files.remote_logs.values())
        return any(state.remote_end_offset > 0 for state in states)

    def keep_log_start(self, unified: UnifiedLog) -> bool:
        """Make one partition's log start durable; False if the disk fails or is full."""
        directory = self._of(unified)
        try:
            logs = {unified.topic_partition: unified.log}
            directory.ballast.lend(partial(directory.files.write_checkpoints, logs))
        except OSError as error:
            directory.writer.report(error)
            return False
        return directory.writer.offline is None

    def write(self, remotes: Mapping[UnifiedLog, RemotePartition]) -> None:
        """Store the state of each archive that has changed, beside the logs."""
        by_path: dict[str, dict[TopicPartition, RemoteLogState]] = {}
        for unified, remote in remotes.items():
            if remote.known:
                by_path.setdefault(unified.partition.directory.path, {})[unified.topic_partition] = remote.state
        for directory in self._directories.online:
            states = directory.files.remote_logs | by_path.get(directory.path, {})
            if states != directory.files.remote_logs:
                try:
                    directory.ballast.lend(partial(write_remote_log, directory.files.files, directory.path, states))
                except OSError as error:
                    directory.writer.report(error)
                    continue
                directory.files.remote_logs = dict(states)
        self.write_cleared()

    # -- second timelines -----------------------------------------------------------------------------------------

    def is_suspect(self, unified: UnifiedLog) -> bool:
        """True if the log must be compared with its archive before it goes on."""
        suspects = self._of(unified).files.second_timelines
        return unified.topic_partition in suspects and unified.topic_partition not in self._cleared

    def is_certain(self, unified: UnifiedLog) -> bool:
        """True if the log is suspect, and its directory certainly went back in time."""
        suspects = self._of(unified).files.second_timelines
        return self.is_suspect(unified) and suspects[unified.topic_partition] != _DOUBTED

    def suspect(self, unified: UnifiedLog, *, certain: bool = True) -> bool:
        """Mark one partition as suspect, durably; False if the disk refuses. A mere doubt leaves a certain mark as it is."""
        directory, key = self._of(unified), unified.topic_partition
        row = _CERTAIN if certain or self.is_certain(unified) else _DOUBTED
        self._cleared.discard(key)
        return self._write_suspects(directory, {**directory.files.second_timelines, key: row})

    def suspect_all(self) -> bool:
        """Mark every partition that has an archive, or may have had one in the missing time."""
        self._cleared.clear()
        written = [
            self._write_suspects(one, dict.fromkeys({**one.files.remote_logs, **one.files.second_timelines}, _CERTAIN))
            for one in self._directories.online
        ]
        return all(written)

    def clear(self, unified: UnifiedLog) -> None:
        """Clear the mark, as log and archive agree. Stored by `write_cleared`; a second comparison is cheap."""
        if unified.topic_partition in self._of(unified).files.second_timelines:
            self._cleared.add(unified.topic_partition)

    def write_cleared(self) -> None:
        """Store which marks have been cleared, where any have."""
        for directory in self._directories.online:
            suspects = directory.files.second_timelines
            if self._cleared & suspects.keys():
                rows = {one: row for one, row in suspects.items() if one not in self._cleared}
                self._write_suspects(directory, rows)

    def _write_suspects(self, directory: Directory, rows: dict[TopicPartition, int]) -> bool:
        try:
            directory.ballast.lend(
                partial(write_offsets, directory.files.files, directory.path, SECOND_TIMELINES, rows)
            )
        except OSError as error:
            directory.writer.report(error)
            return False
        directory.files.second_timelines = rows
        rows_of = [one.files.second_timelines for one in self._directories.all]
        self._cleared = {name for name in self._cleared if any(name in rows for rows in rows_of)}
        return True
