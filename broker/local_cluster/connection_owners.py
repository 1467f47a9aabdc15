"""Finds the process at the other end of a connection within one machine, in Linux's tables of sockets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["owner_of"]

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""An IPv4 connection stands in the second one if its socket also takes IPv6, as Java's do."""
_LOCAL, _REMOTE, _INODE = 1, 2, 9


def owner_of(port: int, server_port: int, processes: Mapping[int, int]) -> int | None:
    """The key of the process that holds the client's end of an IPv4 connection within this machine.

    ``port`` is that of the client, ``server_port`` the one it connected to; ``processes`` has process ids by key. None for
    a connection of another process, or one that has ended.
    """
    inode = _inode(port, server_port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    return next((key for key, pid in processes.items() if _holds(pid, wanted)), None)


def _inode(port: int, server_port: int) -> str | None:
    for table in _TABLES:
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        for fields in map(str.split, lines):
            if _port(fields[_LOCAL]) == port and _port(fields[_REMOTE]) == server_port:
                return fields[_INODE]
    return None


def _port(address: str) -> int:
    """The port of ``0100007F:2384``."""
    return int(address.rpartition(":")[2], 16)


def _holds(pid: int, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - some hundred names, for each new connection
    except FileNotFoundError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") == wanted:  # noqa: PTH115 - as above
                return True
        except FileNotFoundError:  # closed meanwhile
            continue
    return False
