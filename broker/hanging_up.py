"""Whether the other side of a connection has hung up, asked of the socket while nothing is read from it."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

__all__ = ["has_hung_up"]

_ESTABLISHED: Final = 1
"""The state of a TCP connection that both sides keep open: first byte of ``struct tcp_info`` (tcp(7))."""


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """True once the other side has closed or reset the connection; False for what is no TCP connection."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family not in {socket.AF_INET, socket.AF_INET6}:
        return False
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED)
