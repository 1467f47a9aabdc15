"""Readers that cost little: many consumers in one thread, who ask for a piece at a time and check that no offset is missing.

``python -m bench.cold_reader PORT TOPIC`` prints READING when the first bytes have come, and a line of JSON at the end:
when every reader has read its part once, or, with ``--seconds``, when the time is over; until then each begins anew.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import struct
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Final

__all__ = ["ColdRead", "Readers", "read_cold"]

_FETCH, _VERSION = 1, 4
_HEAD: Final = struct.Struct(">ihhih")
_BODY: Final = struct.Struct(">iiiibi")
_PARTITION: Final = struct.Struct(">iiqi")
_BATCH: Final = struct.Struct(">qi")
_BATCH_HEADER_BYTES: Final = 61
_LAST_DELTA_AT: Final = 23
_LOG_OVERHEAD_BYTES: Final = 12
_CLIENT: Final = b"bench"
_WAIT_MS: Final = 500


@dataclass(slots=True)
class ColdRead:
    """Answers that the readers got. ``empty`` answers had nothing yet; ``first_ms`` is until the first bytes of any reader."""

    bytes: int = 0
    seconds: float = 0.0
    first_ms: float = 0.0
    answers: int = 0
    empty: int = 0
    throttled: int = 0

    @property
    def megabytes_per_second(self) -> float:
        """10**6 bytes a second."""
        return self.bytes / self.seconds / 1e6


class _Reader:
    """One connection that reads a range of a partition, from ``at`` on."""

    def __init__(
        self, port: int, topic: bytes, partition: int, offsets: tuple[int, int], at: int, fetch_bytes: int
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        (self._start, self._end), self._fetch_bytes = offsets, fetch_bytes
        self.offset = at
        self._topic, self._partition = topic, partition
        self._correlation = 0
        self._buffer = bytearray(fetch_bytes + (1 << 20))
        self._have = 0
        self.left = self._end - self._start

    def ask(self) -> None:
        """Send the next request."""
        self._correlation += 1
        topic = struct.pack(">h", len(self._topic)) + self._topic
        body = _HEAD.pack(0, _FETCH, _VERSION, self._correlation, len(_CLIENT))[4:] + _CLIENT
        body += _BODY.pack(-1, _WAIT_MS, 1, self._fetch_bytes, 0, 1) + topic
        body += _PARTITION.pack(1, self._partition, self.offset, self._fetch_bytes)
        self._have = 0
        self.socket.send(len(body).to_bytes(4, "big") + body)

    def receive(self, totals: ColdRead) -> bool:
        """Take what has come; whether that completed an answer. Raises ``SystemExit`` for a wrong one."""
        view = memoryview(self._buffer)
        try:
            count = self.socket.recv_into(view[self._have :])
        except BlockingIOError:
            return False
        if not count:
            raise SystemExit("the broker closed a connection")
        self._have += count
        if self._have < 4 or self._have < 4 + int.from_bytes(view[:4], "big"):
            return False
        self._take(view, totals)
        return True

    def _take(self, view: memoryview, totals: ColdRead) -> None:
        totals.answers += 1
        totals.throttled += int.from_bytes(view[8:12], "big") > 0
        at = 16 + 2 + len(self._topic) + 8
        error = int.from_bytes(view[at : at + 2], "big", signed=True)
        if error:
            raise SystemExit(f"partition {self._partition}, offset {self.offset}: error {error}")
        aborted = int.from_bytes(view[at + 18 : at + 22], "big", signed=True)
        at += 22 + 16 * max(0, aborted)
        size_bytes = int.from_bytes(view[at : at + 4], "big", signed=True)
        if size_bytes <= 0:
            totals.empty += 1
            return
        totals.bytes += size_bytes
        self._follow(view[at + 4 : at + 4 + size_bytes])

    def _follow(self, records: memoryview) -> None:
        """Go from batch to batch; the first may begin before the offset, each other where the one before it ended."""
        at, offset = 0, self.offset
        while at + _BATCH_HEADER_BYTES <= len(records):
            base, length = _BATCH.unpack_from(records, at)
            if base > offset or (at and base != offset):
                raise SystemExit(f"partition {self._partition}: offset {base} instead of {offset}")
            offset = base + int.from_bytes(records[at + _LAST_DELTA_AT : at + _LAST_DELTA_AT + 4], "big") + 1
            at += _LOG_OVERHEAD_BYTES + length
        self.left -= offset - self.offset
        self.offset = offset if offset < self._end else self._start


@dataclass(frozen=True, slots=True)
class Readers:
    """``count`` readers of ``partitions``, spread evenly over ``[begin, end)`` of them; ``seconds`` 0: each reads it once."""

    port: int
    topic: str
    end: int
    begin: int = 0
    count: int = 1
    partitions: int = 1
    fetch_bytes: int = 1 << 20
    seconds: float = 0.0

    def run(self) -> ColdRead:
        """Read."""
        totals = ColdRead()
        with selectors.DefaultSelector() as selector:
            readers = self._open()
            for reader in readers:
                selector.register(reader.socket, selectors.EVENT_READ, reader)
            started = time.monotonic()
            for reader in readers:
                reader.ask()
            left = len(readers)
            while left and (not self.seconds or time.monotonic() < started + self.seconds):
                for key, _ in selector.select(0.5):
                    reader = key.data
                    if not reader.receive(totals):
                        continue
                    if totals.bytes and not totals.first_ms:
                        totals.first_ms = (time.monotonic() - started) * 1000
                        print("READING", flush=True)
                    if reader.left > 0 or self.seconds:
                        reader.ask()
                    else:
                        left -= 1
            totals.seconds = time.monotonic() - started
            for reader in readers:
                reader.socket.close()
        return totals

    def _open(self) -> list[_Reader]:
        each = -(-self.count // self.partitions)
        topic = self.topic.encode()
        return [
            _Reader(
                self.port,
                topic,
                n % self.partitions,
                (self.begin, self.end),
                self.begin + (self.end - self.begin) * (n // self.partitions) // each,
                self.fetch_bytes,
            )
            for n in range(self.count)
        ]

    def command(self) -> list[str]:
        """The command line of `main`."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in asdict(self).items()]
        return [sys.executable, "-m", "bench.cold_reader", *options]


def read_cold(readers: Readers) -> ColdRead:
    """Read in a process of its own. Raises ``SystemExit`` if that fails."""
    done = subprocess.run(readers.command(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the readers failed: {done.stderr.strip()}")
    return result_of(done.stdout)


def result_of(output: str) -> ColdRead:
    """The last line that the program printed."""
    return ColdRead(**json.loads(output.strip().splitlines()[-1]))


def main() -> None:
    """Read as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m bench.cold_reader")
    for name, kind in (
        ("port", int),
        ("begin", int),
        ("end", int),
        ("count", int),
        ("partitions", int),
        ("fetch-bytes", int),
    ):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = vars(parser.parse_args())
    print(json.dumps(asdict(Readers(**given).run())))


if __name__ == "__main__":
    main()
