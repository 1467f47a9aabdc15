"""Looks where a node's metadata log lies before the node starts: it begins no new one in the midst of the logs of an older one.

A new metadata log knows no topic. The logs that it forgets are whole, and are set aside as soon as topics of their names are made
again; a voter that begins anew has forgotten its votes. Settings that name directories in another order lead there, and a disk that
is not mounted. A node that has formatted its directory on an operator's word, or that never ran, begins as ever.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION
from stratalog.broker.settings.config import BrokerConfig
from stratalog.hot.storage.checkpoint import (
    DELETED_ARCHIVES,
    KNOWN_BUCKET,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    MetaProperties,
    read_meta_properties,
)
from stratalog.hot.storage.directory_names import directory_name, parse_directory_name
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.quorum.quorum_state import FILE_NAME, parse_quorum_state
from stratalog.wire.errors import Corrupt, Invalid

__all__ = ["own_directories"]

_METADATA_LOG: Final = directory_name(METADATA_PARTITION)
_SEGMENT: Final = ".log"

log = logging.getLogger(__name__)


class _Found(NamedTuple):
    """The traces of earlier runs in one directory."""

    path: str
    has_metadata: bool = False
    """A segment, a snapshot or a vote of the metadata log lies there."""
    owner: MetaProperties | None = None
    """As its ``meta.properties`` has it, if that can be read."""
    has_run: bool = False
    """A node has run with it: partitions lie there, or their checkpoint."""
    error: OSError | None = None
    """It cannot be read."""

    @property
    def is_formatted(self) -> bool:
        """Whether it was made a node's directory, and no node has run with it since."""
        return self.owner is not None and not self.has_run

    def is_of(self, node_id: int) -> bool:
        """Whether it is not another node's; the start ends with that elsewhere."""
        return self.owner is None or self.owner.node_id == node_id


def own_directories(config: BrokerConfig, files: Filesystem) -> list[str]:
    """The directories of a node, that of its metadata log among them.

    Raises `Invalid` if the metadata log lies in another of them, or has to lie on a disk that is away.
    """
    paths = list(dict.fromkeys([*config.log_dirs, config.metadata_log_dir]))
    home = _look(config.metadata_log_dir, files)
    others = [_look(path, files) for path in paths if not _is_same(path, home.path)]
    if home.error is None:  # else the start ends with it
        for one in others:
            if one.has_metadata and one.is_of(config.node_id):
                _judge_other(one.path, home, config, files)
        if not home.has_metadata and not home.is_formatted:
            _check_beginning(home, others, config)
    return paths


def _is_same(path: str, other: str) -> bool:
    try:
        return path == other or os.path.samefile(path, other)  # noqa: PTH121 - paths are strings throughout
    except OSError:
        return False


def _look(path: str, files: Filesystem) -> _Found:
    try:
        entries = files.scan(path, sized=())
        names = {one.name for one in entries}
        inside = [one.name for one in files.scan(f"{path}/{_METADATA_LOG}", sized=())] if _METADATA_LOG in names else []
    except FileNotFoundError:
        return _Found(path)
    except OSError as error:
        return _Found(path, error=error)
    folders = (one.name for one in entries if one.is_directory)
    return _Found(
        path,
        has_metadata=any(name == FILE_NAME or name.endswith((_SEGMENT, ".checkpoint")) for name in inside),
        owner=_owner(path, files),
        has_run=RECOVERY_POINTS in names or any(_is_partition(path, one, files) for one in folders),
    )


def _is_partition(path: str, name: str, files: Filesystem) -> bool:
    """Whether a topic's log lies there: folders of other things may be called backup-2024."""
    if parse_directory_name(name) in {None, METADATA_PARTITION}:
        return False
    try:
        inside = files.scan(f"{path}/{name}", sized=())
    except OSError:
        return True  # it may be one
    return any(one.name == PARTITION_METADATA or one.name.endswith(_SEGMENT) for one in inside)


def _owner(path: str, files: Filesystem) -> MetaProperties | None:
    try:
        return read_meta_properties(files, path)
    except (Corrupt, OSError):
        return None  # the start ends with it elsewhere


def _is_only_voter(config: BrokerConfig) -> bool:
    """Whether a metadata log that this node begins is a new cluster, whatever other nodes have."""
    roles = config.roles
    return not roles.has_peers or set(roles.quorum.voter_ids) == {config.node_id}


def _judge_other(path: str, home: _Found, config: BrokerConfig, files: Filesystem) -> None:
    """Raise `Invalid` for a metadata log that the settings do not name, or warn where another one may take its place.

    A broker copies the log. A dynamic voter is another one in another directory, and keeps the votes of each with its own log.
    """
    roles = config.roles
    has_copies = roles.has_peers and not (roles.is_controller and roles.quorum.voters)
    if has_copies and (home.has_metadata or home.is_formatted or not roles.is_controller):
        log.warning(
            "the metadata log of this node is that in %s, by log.dirs and metadata.log.dir, and an older one lies in %s: move %s/%s "
            "out of the way, and %s and %s, where they are there, to %s",
            home.path,
            path,
            path,
            _METADATA_LOG,
            KNOWN_BUCKET,
            DELETED_ARCHIVES,
            home.path,
        )
        return
    if home.has_metadata:
        raise Invalid(
            f"two metadata logs of this node: in {home.path}, where log.dirs and metadata.log.dir have it, and in {path}. Move "
            f"the {_METADATA_LOG} that the node has not used last out of the way, and see that metadata.log.dir, or log.dirs by its first "
            "directory, names that of the other: an older one lacks topics and votes. The files are unchanged"
        )
    raise Invalid(
        f"the metadata log of this node lies in {path}, and log.dirs and metadata.log.dir have it in {home.path}: a new one "
        f"would know no topic. Set metadata.log.dir={path}, or name that first in log.dirs{_other_way(path, home.path, files)}. "
        "The files are unchanged"
    )


def _other_way(path: str, home: str, files: Filesystem) -> str:
    """The log may lie in another directory where its voters are not known by the ids of their directories."""
    state = f"{path}/{_METADATA_LOG}/{FILE_NAME}"
    try:
        is_static = not parse_quorum_state(files.read_bytes(state), state).data_version
    except (Corrupt, OSError):
        return ""
    beside = f"{KNOWN_BUCKET} and {DELETED_ARCHIVES}, where they are there"
    return f"; or move {path}/{_METADATA_LOG} to {home}, and {beside}" if is_static else ""


def _check_beginning(home: _Found, others: Sequence[_Found], config: BrokerConfig) -> None:
    """Raise `Invalid` if the metadata log that this node has to begin would be that of logs which have another one."""
    is_only_voter, roles = _is_only_voter(config), config.roles
    used = next((one.path for one in (*others, home) if one.has_run), None)
    if is_only_voter and used is not None:
        raise Invalid(
            f"{home.path} has no metadata log, and a node has run with {used}: a new one would know none of its topics. Mount the disk "
            f"of {home.path}, or name in metadata.log.dir the directory that has {_METADATA_LOG}. To begin anew, name empty "
            "directories in log.dirs. The files are unchanged"
        )
    unread = next((one for one in others if one.error is not None), None)
    if unread is not None and (is_only_voter or (roles.is_controller and roles.quorum.voters)):
        raise Invalid(
            f"{home.path} has no metadata log, and {unread.path}, which may have it, cannot be read: {unread.error}. Repair the disk, "
            f"or take {unread.path} out of log.dirs if this is the node's first start. The files are unchanged"
        )
