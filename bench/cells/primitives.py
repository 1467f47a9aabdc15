"""Costs of single steps on this machine and interpreter, in microseconds of CPU: the ground of every prediction.

`predict` adds them up for each cell; docs/performance.md says how and why. A cell far from its prediction is either
a defect or something that the sum forgets.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from bench.build import broker_environment
from bench.outcome import median
from bench.processes import parse_pss_kib
from bench.settings import Settings

__all__ = ["PYTHON_CALLS", "Primitives", "measure", "predict"]

SMALL, MIDDLE, LARGE = 200, 16 << 10, 1 << 20
SIZES = (SMALL, MIDDLE, LARGE)

PYTHON_CALLS = {
    "produce-200B": 34,
    "produce-200B-pipelined": 21,
    "produce-16KiB": 37,
    "fetch-1MiB": 76,
}
"""Python functions that the broker calls for one request, counted by cProfile."""

_GROUP = 32
_ROUNDS = 5
_MESSAGE_BYTES = 107
"""A record of 100 bytes as it stands in a batch."""
_CYCLE_REQUESTS = 40
"""Requests that one sync cycle acknowledges, counted: half of the 80 in flight, while the others are on their way."""
_IMPORT = "import stratalog.broker.node, stratalog.cli.serve; print(open('/proc/self/smaps_rollup').read())"


@dataclass(frozen=True, slots=True)
class Primitives:
    """Microseconds by size in bytes, unless a name says otherwise."""

    exchange: float
    """One recv and one send of 200 bytes on the loopback, with what the kernel does for the other side."""
    receive: dict[int, float]
    append: dict[int, float]
    grouped_append: float
    """200 bytes as one of 32 buffers of a writev."""
    checksum: dict[int, float]
    sendfile: float
    """1 MiB from the page cache."""
    call: float
    """A Python method of ten lines that calls into C twice."""
    sync: float
    """fdatasync behind an append of 16 KiB, by the clock."""
    import_seconds: float
    """A new interpreter until the broker's modules are imported, by the clock."""
    import_megabytes: float

    def as_details(self) -> dict[str, float | str]:
        """All figures under flat names, for the file of details."""
        flat: dict[str, float | str] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, dict):
                flat |= {f"{name}_{size}_us": each for size, each in value.items()}
            else:
                flat[name if name.startswith("import") else f"{name}_us"] = value
        return flat


class _Typical:
    """A method as the broker has many: fields of a header, a look-up, numbers kept, two calls into C."""

    __slots__ = ("count", "header", "limit", "positions", "size_bytes")

    def __init__(self) -> None:
        self.header = struct.Struct(">qiibIhiqqqhii")
        self.positions: dict[tuple[str, int], int] = {("flights", 0): 0}
        self.count = self.size_bytes = 0
        self.limit = 1 << 60

    def add(self, topic: str, partition: int, data: bytes) -> int:
        fields = self.header.unpack_from(data)
        length, base_offset = len(data), fields[0]
        key = (topic, partition)
        position = self.positions[key]
        if fields[1] > length or base_offset < position:
            return -1
        self.count += 1
        self.size_bytes += length
        if self.size_bytes > self.limit:
            self.size_bytes = 0
        self.positions[key] = base_offset
        return self.count


def _cost_us(work: Callable[[], object], count: int) -> float:
    """CPU time of this thread for one of ``count`` calls, the median of some rounds."""

    def once() -> float:
        began = time.thread_time_ns()
        for _ in range(count):
            work()
        return (time.thread_time_ns() - began) / count / 1000

    return median(once() for _ in range(_ROUNDS))


def _call_us() -> float:
    add, data = _Typical().add, bytes(SMALL)

    def ten() -> None:
        for _ in range(10):
            add("flights", 0, data)

    return _cost_us(ten, 2000) / 10


def _loopback() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    for one in (client, accepted):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client, accepted


def _receive_us(size: int) -> float:
    """Only the receiving half: the data is in the socket before."""
    client, accepted = _loopback()
    data, into = bytes(min(size, 64 << 10)), bytearray(min(size, 64 << 10))
    spent = 0
    with client, accepted:
        for _ in range(200):
            client.sendall(data)
            began = time.thread_time_ns()
            left = len(data)
            while left:
                left -= accepted.recv_into(into)
            spent += time.thread_time_ns() - began
    return spent / 200 / 1000 * size / len(data)


def _exchange_us() -> float:
    client, accepted = _loopback()
    data, into = bytes(SMALL), bytearray(SMALL)

    def once() -> None:
        client.send(data)
        accepted.recv_into(into)

    with client, accepted:
        return _cost_us(once, 2000)


def _sendfile_us(folder: Path) -> float:
    path = folder / "sent"
    path.write_bytes(bytes(LARGE))
    client, accepted = _loopback()
    into = bytearray(LARGE)
    spent = 0
    with client, accepted, path.open("rb") as file:
        client.setblocking(False)
        for _ in range(100):
            position = 0
            while position < LARGE:
                began = time.thread_time_ns()
                count = os.sendfile(client.fileno(), file.fileno(), position, LARGE - position)
                spent += time.thread_time_ns() - began
                position += count
                while count:
                    count -= accepted.recv_into(into)
    return spent / 100 / 1000


def _append_us(folder: Path, size: int, group: int = 1) -> float:
    """An append to a file that grows, for each buffer."""
    data = [bytes(size)] * group
    path = folder / "appended"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return _cost_us(lambda: os.writev(descriptor, data), max(16, (16 << 20) // size // group // 16)) / group
    finally:
        os.close(descriptor)
        path.unlink()


def _sync_us(folder: Path) -> float:
    descriptor = os.open(folder / "synced", os.O_WRONLY | os.O_CREAT)
    times = []
    try:
        for _ in range(40):
            os.write(descriptor, bytes(MIDDLE))
            began = time.monotonic()
            os.fdatasync(descriptor)
            times.append((time.monotonic() - began) * 1e6)
    finally:
        os.close(descriptor)
    return median(times)


def _import() -> tuple[float, float]:
    environment = broker_environment()
    began = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True, env=environment)
    return time.monotonic() - began, parse_pss_kib(ran.stdout) * 1024 / 1e6


def measure(settings: Settings) -> Primitives:
    """Measure them all, in a few seconds."""
    with (
        tempfile.TemporaryDirectory(dir=settings.memory) as memory,
        tempfile.TemporaryDirectory(dir=settings.disk) as disk,
    ):
        folder = Path(memory)
        imports = [_import() for _ in range(3)]
        return Primitives(
            exchange=_exchange_us(),
            receive={size: _receive_us(size) for size in SIZES},
            append={size: _append_us(folder, size) for size in SIZES},
            grouped_append=_append_us(folder, SMALL, _GROUP),
            checksum={size: _cost_us(lambda data=bytes(size): crc32c(data), 200) for size in SIZES},  # type: ignore[misc]
            sendfile=_sendfile_us(folder),
            call=_call_us(),
            sync=_sync_us(Path(disk)),
            import_seconds=median(seconds for seconds, _ in imports),
            import_megabytes=median(megabytes for _, megabytes in imports),
        )


def predict(p: Primitives) -> dict[str, float]:
    """The figure that each cell should come to; cells that depend on more than them are left out."""
    python = {cell: count * p.call for cell, count in PYTHON_CALLS.items()}
    small = p.exchange + p.checksum[SMALL] + p.append[SMALL]
    ours = p.exchange + p.checksum[SMALL] + p.grouped_append + python["produce-200B"]
    piped = p.exchange / 5 + p.checksum[SMALL] + p.append[SMALL]
    ours_piped = p.exchange / 5 + p.checksum[SMALL] + p.grouped_append + python["produce-200B-pipelined"]
    large = {size: p.receive[size] + p.checksum[size] + p.append[size] + p.exchange / 2 for size in (MIDDLE, LARGE)}
    fetched = p.exchange + p.sendfile
    cycle = _CYCLE_REQUESTS * ours
    return {
        "produce-200B": small / ours,
        "produce-200B-pipelined": piped / ours_piped,
        "produce-16KiB": large[MIDDLE] / (large[MIDDLE] + python["produce-16KiB"]),
        "produce-1MiB": large[LARGE] / (large[LARGE] + python["produce-16KiB"]),
        "fetch-1MiB": fetched / (fetched + python["fetch-1MiB"]),
        "librdkafka-produce-100B": (large[LARGE] + python["produce-16KiB"]) / LARGE * _MESSAGE_BYTES,
        "sync-on-ack": cycle / (cycle + p.sync),
        "start-empty": p.import_seconds,
        "memory-idle": p.import_megabytes,
    }
