"""Cost of a wake-up here: a server on asyncio that only sends back what it gets, asked now and then.

A processor that has been idle finds its caches cold, so a request that comes alone costs several times what it costs among
many. ``python -m bench.echo`` is the server; :func:`echo_core_percent` asks it as members of groups ask a broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

from bench.processes import cpu_seconds

__all__ = ["echo_core_percent"]

_REQUEST = bytes(60)
"""As long as a heartbeat."""


class _Echo(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._buffer = bytearray(1 << 16)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._transport.write(bytes(self._buffer[:nbytes]))


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", 0, backlog=2_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def echo_core_percent(connections: int, requests_per_second: float, seconds: float) -> float:
    """CPU time of the echo server in percent of one core, at evenly spaced requests over all connections in turn."""
    process = subprocess.Popen([sys.executable, "-m", "bench.echo"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with ExitStack() as stack:
            address = ("127.0.0.1", int(process.stdout.readline()))
            clients = [stack.enter_context(socket.create_connection(address)) for _ in range(connections)]
            count = int(requests_per_second * seconds)
            began, before = time.monotonic(), cpu_seconds(process.pid)
            for number in range(count):
                time.sleep(max(began + number / requests_per_second - time.monotonic(), 0.0))
                client = clients[number % connections]
                client.sendall(_REQUEST)
                if client.recv(len(_REQUEST)) != _REQUEST:
                    raise SystemExit("the echo server answered something else")
            return 100 * (cpu_seconds(process.pid) - before) / (time.monotonic() - began)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
