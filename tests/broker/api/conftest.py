"""Produce requests without sockets, threads and time of their own: two runs of the same requests end in the same state."""

import asyncio
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.api.produce import API
from stratalog.broker.buffers import BufferPool
from stratalog.broker.config_listeners import Listener, SecurityProtocol
from stratalog.broker.connection import Connection
from stratalog.broker.connection_services import Services
from stratalog.broker.directory_writer import DirectoryWriter
from stratalog.broker.dispatch import Dispatcher
from stratalog.broker.metrics import Metrics
from stratalog.broker.partition import Partition
from stratalog.broker.partition_table import PartitionTable
from stratalog.broker.tick import Tick
from stratalog.broker.unified_log import UnifiedLog
from stratalog.hot.config import LogConfig
from stratalog.hot.filesystem import RealFilesystem
from stratalog.hot.log import Log
from stratalog.hot.replica_state import ReplicaState
from stratalog.wire.topic import TopicPartition

NOW_MS = 1_700_000_000_000
NAMES = ("t", "u", "longer")


class Loop:
    """An event loop that runs when it is told to, and whose threads are done at once."""

    def __init__(self) -> None:
        self.due: list[partial] = []
        self.now = 100.0

    def call_soon(self, callback, *arguments) -> None:
        self.due.append(partial(callback, *arguments))

    call_soon_threadsafe = submit = call_soon

    def time(self) -> float:
        return self.now

    def run(self) -> None:
        """Until nothing is left."""
        while self.due:
            due, self.due = self.due, []
            for callback in due:
                callback()


class Socket(asyncio.Transport):
    """A transport that keeps what is written, and asks for the sender that goes through it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("client", 1), "ssl_object": object()})
        self.sent = bytearray()
        self.ended = self.paused = False

    def write(self, data) -> None:
        self.sent += data

    def abort(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Rig:
    """Two partitions of each topic in a folder, and connections whose requests take the ways that ``api`` offers."""

    def __init__(self, folder: Path, api=API, authorizer=None) -> None:
        self.folder = folder
        self.loop = Loop()
        self.clock = SimpleNamespace(monotonic=self.loop.time, wall_ms=lambda: NOW_MS + int(self.loop.now * 1000))
        self.metrics = Metrics()
        self.table = PartitionTable()
        self.reworks: list = []
        tick = Tick(self.loop)
        self.directory = DirectoryWriter(
            str(folder), loop=self.loop, tick=tick, sync_threads=self.loop, on_failed=lambda *_: None
        )
        self.partitions = [self._partition(name, number) for name in NAMES for number in (0, 1)]
        broker = SimpleNamespace(partitions=self.table, clock=self.clock)
        self.dispatcher = Dispatcher(
            broker, [api], metrics=self.metrics, monotonic=self.clock.monotonic, authorizer=authorizer
        )
        pool = BufferPool(1 << 30)
        self.services = Services(
            self.loop, self.clock, tick, pool, None, self.metrics.network, self.dispatcher.dispatch
        )
        self.connection: Connection = None
        self.connections: list[Connection] = []
        self.connect()

    def connect(self) -> None:
        """From now on the client uses a new connection."""
        listener = Listener("TEST", SecurityProtocol.PLAINTEXT, "127.0.0.1", 1)
        self.connection = Connection(self.services, listener, lambda _: True, lambda _: None)
        self.connection.connection_made(Socket())
        self.connections.append(self.connection)

    def _partition(self, name: str, number: int) -> UnifiedLog:
        path = self.folder / f"{name}-{number}"
        path.mkdir()
        config = LogConfig(flush_messages=1 if name == "t" else 1 << 60, max_message_bytes=20_000)
        names = TopicPartition(name, number)
        log = Log.open(str(path), names, name.encode().ljust(16), config, files=RealFilesystem(), now_ms=0, clean=True)
        replica = ReplicaState(
            1, replicas=(1,), in_sync=(1,), leader_epoch=3, epoch_start_offset=0, leader_end_offset=0
        )
        one = Partition(
            log,
            directory=self.directory,
            replica=replica,
            leader_epoch=3,
            clock=self.clock,
            rework=lambda *command: self.reworks.append(command),
        )
        unified = UnifiedLog(one, self.metrics.topic(name))
        self.table.add(unified)
        return unified

    def receive(self, data: bytes) -> None:
        """Bytes from the client; the loop does not run yet."""
        while data and not self.connection.closed and not self.connection.stalled:
            room = self.connection.get_buffer(-1)
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]

    def outcome(self) -> list:
        """Everything that may not depend on the way: answers, logs, counts, what connections know of their client."""
        topics = [
            [getattr(figures, name) for name in figures.__slots__] for _, figures in sorted(self.metrics.topics.items())
        ]
        rows = [self.metrics.api("Produce", version) for version in range(3, 14)]
        counts = [(row.errors, row.time_us, list(row.time_buckets)) for row in rows]
        ends = [
            (one.closed, one.client_id, one.client_id_bytes, one.parked, one.stalled, bytes(one._transport.sent))
            for one in self.connections
        ]
        logs = [
            (one.log.log_end_offset, one.partition.high_watermark, one.log.producer_state.to_bytes())
            for one in self.partitions
        ]
        files = [path.read_bytes() for path in sorted(self.folder.rglob("*.log"))]
        return [topics, counts, ends, logs, files, len(self.reworks), self.services.buffers.used_bytes]

    def close(self) -> None:
        """Let go of the files."""
        for one in self.partitions:
            one.log.close()


@pytest.fixture
def produce_rig(monkeypatch):
    """Makes rigs: ``produce_rig(folder, api=..., authorizer=...)``. Their syncs succeed and take no time."""
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Rig


@pytest.fixture
def now_ms() -> int:
    """The wall-clock time of a rig, give or take."""
    return NOW_MS
