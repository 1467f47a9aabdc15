"""Writes the files of a node that is formatted; every directory is checked and locked before the first byte.

``meta.properties`` is the last file of a directory. A crash before it leaves files that the next try replaces; a
directory that holds anything else and has no owner is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stratalog.broker.replicas.directory_loading import lock_directory
from stratalog.broker.settings.config import BrokerConfig
from stratalog.hot.directory import BALLAST
from stratalog.hot.storage.checkpoint import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    write_durably,
    write_meta_properties,
)
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.formatting.node_format import (
    BOOTSTRAP_SNAPSHOT,
    DirectoryFormat,
    DirectoryOwner,
    FormatOptions,
    FormatPlan,
    NodeIdentity,
    plan_format,
)
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT
from stratalog.wire.errors import Corrupt, Invalid

__all__ = ["format_node", "identity_of"]

_ID_BYTES: Final = 16
_SALT_BYTES: Final = 24
_LEFT_BY_A_CRASH: Final = frozenset(
    name + suffix for name in (BOOTSTRAP_CHECKPOINT, BOOTSTRAP_SNAPSHOT, META_PROPERTIES) for suffix in ("", ".tmp")
)
_BESIDE_DATA: Final = frozenset({".lock", "lost+found", BALLAST})


def identity_of(config: BrokerConfig) -> NodeIdentity:
    """The facts of a configuration that formatting needs."""
    roles = config.roles
    return NodeIdentity(
        node_id=config.node_id,
        is_controller=roles.is_controller,
        has_static_voters=bool(roles.quorum.voters),
        directories=tuple(sorted({*config.log_dirs, config.metadata_log_dir})),
        metadata_directory=config.metadata_log_dir,
        controller_listener=roles.controller_listeners[0],
        controller_address=config.controller_address,
    )


def format_node(
    node: NodeIdentity,
    options: FormatOptions,
    *,
    files: Filesystem,
    now_ms: int,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> FormatPlan:
    """Format every directory of a node that has no owner yet; the work that was done.

    Raises `Invalid` for a reason not to, `Corrupt` for an unreadable ``meta.properties``, `OSError` for a disk that
    fails; directories that were done by then are whole.
    """
    locks: list[int] = []
    made: list[str] = []
    try:
        owners = {path: _owner(files, path) for path in node.directories}
        plan = plan_format(
            node,
            options,
            owners,
            new_id=lambda: random_bytes(_ID_BYTES),
            new_salt=lambda: random_bytes(_SALT_BYTES),
            now_ms=now_ms,
        )
        for one in plan.directories:
            _check_empty(one.path)
        for one in plan.directories:
            made += _make(one.path)
            locks.append(lock_directory(one.path))
        for path in made:
            files.sync_directory(path.rpartition("/")[0] or "/")
        for one in plan.directories:
            _write(files, one)
    finally:
        for lock in locks:
            os.close(lock)
    return plan


def _owner(files: Filesystem, path: str) -> DirectoryOwner | None:
    if Path(path).exists() and not Path(path).is_dir():
        raise Invalid(f"{path} is not a directory: name another one in log.dirs or metadata.log.dir")
    try:
        found = read_meta_properties(files, path)
    except Corrupt as error:
        raise Corrupt(f"{error}; restore the file, or name another directory: nothing was written") from error
    return None if found is None else DirectoryOwner(*found)


def _check_empty(path: str) -> None:
    """Refuse a directory without owner that holds anything of a node: its data would become that of a new one."""
    top = Path(path)
    if not top.is_dir():
        return
    metadata_log = BOOTSTRAP_SNAPSHOT.partition("/")[0]
    for found in sorted(top.iterdir()):
        inside = sorted(found.iterdir()) if found.name == metadata_log and found.is_dir() else [found]
        for one in inside:
            name = one.relative_to(top).as_posix()
            if name not in _LEFT_BY_A_CRASH | _BESIDE_DATA:
                raise Invalid(
                    f"Log directory {path} has no {META_PROPERTIES} and is not empty: it holds {name}. Restore "
                    f"{META_PROPERTIES}, or name an empty directory: nothing was written"
                )


def _make(path: str) -> list[str]:
    """Make the directory and those above it; those that were made, the highest first."""
    missing = [one for one in [Path(path), *Path(path).parents] if not one.exists()]
    Path(path).mkdir(parents=True, exist_ok=True)
    return [str(one) for one in reversed(missing)]


def _write(files: Filesystem, one: DirectoryFormat) -> None:
    for name, content in one.files.items():
        target = f"{one.path}/{name}"
        above = Path(target).parent
        if not above.is_dir():
            above.mkdir()
            files.sync_directory(one.path)
        write_durably(files, target, content)
    write_meta_properties(files, one.path, MetaProperties(*one.owner))
