"""A whole broker in a thread of its own, on free ports and a temporary directory."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from stratalog.broker.node import Node
from stratalog.broker.runtime.event_loop import BrokerLoop, run
from stratalog.broker.settings.config import Flags, load_config
from stratalog.client.admin import CreatedTopic, create_topic
from stratalog.client.client import Client
from stratalog.client.link import BrokerLink
from stratalog.client.records import NewRecord, Producer, fetch, produce_batches, visible_records
from stratalog.hot.storage.filesystem import RealFile, RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

WAIT_SECONDS = 90  # far more than anything takes: a machine that does much else is no failure
CONFORMANCE = ("tests/tier/stores/test_store.py",)
"""The store where `--store` is given without a file."""
LOOPS_OF_BOTH_KINDS = ("test_connection.py",)
SETTINGS = {"log.segment.delete.delay.ms": "1000", "stratalog.ballast.bytes": "0"}


def pytest_addoption(parser):
    text = "run the store conformance suite on this store (credentials and endpoint from the environment, as boto3's)"
    parser.addoption("--store", metavar="URL", help=text)


def pytest_configure(config):
    if config.getoption("store") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args[:] = [str(config.rootpath / path) for path in CONFORMANCE]


def pytest_asyncio_loop_factories(item):
    """Tests run on the loop that brokers run on; what is about connections on asyncio's own, too."""
    factories = {"broker": BrokerLoop}
    if item.path.name in LOOPS_OF_BOTH_KINDS:
        factories["asyncio"] = asyncio.SelectorEventLoop
    return factories


def pytest_collection_modifyitems(config, items):
    """With ``--store`` only tests that use it remain."""
    if not config.getoption("store"):
        return
    others = [item for item in items if not any(item.get_closest_marker(name) for name in ("store", "s3"))]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]


class RunningNode:
    """A node whose loop runs in a thread, so that blocking clients can talk to it. `stop` and `start` restart it."""

    new_node: Callable[..., Any] = Node

    def __init__(self, directory: str, settings: dict[str, str], **ports: Any) -> None:
        self.directory = directory
        self.settings = {**SETTINGS, **settings}
        self.ports = ports
        self.node: Node = None  # type: ignore[assignment]
        self._opened: list[Any] = []
        self._thread: threading.Thread | None = None

    def config(self):
        """The settings of the node."""
        return load_config(
            assignments=[f"{name}={value}" for name, value in self.settings.items()],
            environment={},
            flags=Flags(
                data=f"{self.directory}/data" if "log.dirs" not in self.settings else None,
                bucket=f"file://{self.directory}/bucket",
                listen="127.0.0.1:0" if "listeners" not in self.settings else None,
                http="127.0.0.1:0",
            ),
            host_name="localhost",
        )

    def start(self, seconds: float = WAIT_SECONDS) -> RunningNode:
        """Start, or start again on the same files. Raises what `Node.start` raises; a start that does not end is a failure."""
        started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: run(self._main(started)), name="broker")
        self._thread.start()
        wait([started], seconds)
        assert started.done(), f"the broker has not started within {seconds} s; it is here:\n{self._stacks()}"
        started.result()
        return self

    def _stacks(self) -> str:
        """Where the loop's thread and its tasks are."""
        lines = traceback.format_stack(sys._current_frames().get(getattr(self._thread, "ident", 0)), 12)
        for task in asyncio.all_tasks(self._loop) if "_loop" in vars(self) else ():
            waits: Any = task.get_coro()
            while frame := getattr(waits, "cr_frame", None):
                lines.append(f"{task.get_name()}: {frame.f_code.co_filename}:{frame.f_lineno}\n")
                waits = waits.cr_await
        return "".join(lines)

    async def _main(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        try:
            self.node = self.new_node(self.config(), **self.ports)
            await self.node.start()
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits
            started.set_exception(error)
            return
        started.set_result(None)
        await self._end.wait()
        await self.node.stop()

    def stop(self) -> None:
        """Stop in order; a second call does nothing."""
        for one in self._opened:
            one.close()
        self._opened.clear()
        thread, self._thread = self._thread, None
        if thread is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end.set)
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive(), "the broker does not stop"

    def restart(self) -> RunningNode:
        """Stop and start."""
        self.stop()
        return self.start()

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function on the broker's loop and wait for it; a coroutine function is awaited."""

        async def call() -> Any:
            result = function(*args)
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(WAIT_SECONDS)

    def wait_until(self, condition: Callable[[], Any]) -> Any:
        """Look on the loop until ``condition`` holds; what it returned."""
        end = time.monotonic() + WAIT_SECONDS
        while not (found := self.run(condition)):
            assert time.monotonic() < end, "what was waited for did not happen"
            time.sleep(0.005)
        return found

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self.node.kafka_address[1]

    @property
    def address(self) -> str:
        """``HOST:PORT`` for clients."""
        return f"127.0.0.1:{self.port}"

    def client(self, **options: Any) -> Client:
        """A new client; closed with the node."""
        self._opened.append(client := Client(self.address, **options))
        return client

    def link(self, **options: Any) -> BrokerLink:
        """A new connection; closed with the node."""
        self._opened.append(link := BrokerLink("127.0.0.1", self.port, **options))
        return link

    def partition(self, topic: str, number: int = 0):
        """The broker's own object for a partition, to look at."""
        return self.node.partitions.by_name(topic, number)

    # -- a client's work in one line ----------------------------------------------------------------------

    def create(self, topic: str, partition_count: int = 1, **configs: object) -> CreatedTopic:
        """Create a topic; ``segment_bytes=1`` stands for ``segment.bytes=1``."""
        named = {name.replace("_", "."): str(value) for name, value in configs.items()}
        return create_topic(self.client(), topic, partition_count=partition_count, configs=named)

    def produce(
        self, topic: str, *values: bytes | NewRecord, partition: int = 0, acks: int = -1, **options
    ) -> list[int]:
        """Append one batch of these values; their offsets. It waits for a leader, as `append` does not."""
        now_ms = self.node.clock.wall_ms()
        records = [
            value if isinstance(value, NewRecord) else NewRecord(value, now_ms, partition=partition) for value in values
        ]
        client = self.client()
        producer = Producer(client, topic, acks=acks, **options)
        return [one.offset for one in client.while_leaders_move({topic}, lambda: producer.send(records))]

    def append(self, topic: str, batch: bytes | bytearray, *, partition: int = 0, acks: int = -1):
        """Send bytes as one batch; the broker's answer for the partition."""
        name = TopicPartition(topic, partition)
        return produce_batches(self.client(), {name: batch}, acks=acks)[name]

    def read(self, topic: str, partition: int = 0, offset: int = 0, **options) -> list[Record]:
        """Every record from ``offset`` to the high watermark, as a consumer sees them."""
        client, name, found = self.client(), TopicPartition(topic, partition), []
        while True:
            (fetched,) = fetch(client, {name: offset}, max_wait_ms=0, **options)
            for next_offset, records in visible_records(fetched, offset):
                found += records
                offset = next_offset
            if offset >= fetched.high_watermark:
                return found

    def values(self, topic: str, partition: int = 0, offset: int = 0) -> list[bytes | None]:
        """The values of :meth:`read`."""
        return [record.value for record in self.read(topic, partition, offset)]

    def end(self, topic: str, partition: int = 0, timestamp: int = -1) -> int:
        """The high watermark, or what ListOffsets says for another timestamp."""
        name = TopicPartition(topic, partition)
        return self.client().list_offsets({name: timestamp})[name].offset


StartNode = Callable[..., RunningNode]


@pytest.fixture
def start_node(tmp_path) -> Iterator[StartNode]:
    """Start nodes with settings of the test's own; all are stopped after it."""
    nodes: list[RunningNode] = []

    def start(*, directory: str = "", start: bool = True, files=None, clock=None, **settings: str) -> RunningNode:
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        ports = {name: port for name, port in (("files", files), ("clock", clock)) if port is not None}
        node = RunningNode(str(tmp_path / directory), named, **ports)
        nodes.append(node)
        return node.start() if start else node

    yield start
    for node in nodes:
        node.stop()


@pytest.fixture
def broker(start_node) -> RunningNode:
    """A running broker with the default settings."""
    return start_node()


@pytest.fixture(scope="module")
def start_shared_node(tmp_path_factory) -> Iterator[StartNode]:
    """Start nodes for all tests of a file, with settings of the file's own; all are stopped after them."""
    nodes: list[RunningNode] = []

    def start(**settings: object) -> RunningNode:
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        nodes.append(RunningNode(str(tmp_path_factory.mktemp("shared")), named))
        return nodes[-1].start()

    yield start
    for node in nodes:
        node.stop()


@pytest.fixture(scope="module")
def shared_broker(start_shared_node) -> RunningNode:
    """One running broker for all tests of a file, with the default settings."""
    return start_shared_node()


@pytest.fixture
def new_batch() -> Callable[..., bytearray]:
    """Builds a batch of values as a client would; options are `build_batch`'s, and the time of the first record."""

    def build(*values: bytes | None, timestamp_ms: int | None = None, key: bytes | None = None, **options) -> bytearray:
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        return build_batch([Record(at, now_ms + at, key, value) for at, value in enumerate(values)], **options)

    return build


class WatchedFile:
    """A file whose calls are noted and may fail."""

    def __init__(self, file: RealFile, owner: WatchedFilesystem) -> None:
        self._file = file
        self._owner = owner
        self.fileno, self.size_bytes, self.pread = file.fileno, file.size_bytes, file.pread
        self.drop_cache, self.close = file.drop_cache, file.close

    def writev(self, buffers) -> int:
        self._owner.note("write", self._file.path)
        free = self._owner.free_bytes
        if free is None:
            return self._file.writev(buffers)
        taken = b"".join(buffers)[:free]
        self._owner.free_bytes = free - len(taken)
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device", self._file.path)
        return self._file.writev([taken])

    def truncate(self, size_bytes: int) -> None:
        self._owner.note("truncate", self._file.path)
        self._file.truncate(size_bytes)

    def fdatasync(self) -> None:
        self._owner.note("sync", self._file.path)
        self._file.fdatasync()


class WatchedFilesystem(RealFilesystem):
    """The real file system: every change is noted in ``calls``, and fails where ``faults`` say so.

    ``free_bytes``: how much may still be written before the disk is full; a write that does not fit is cut short.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.faults: dict[tuple[str, str], int] = {}
        self.free_bytes: int | None = None

    def fail(self, call: str, path_part: str, code: int = errno.EIO) -> None:
        """From now on this call fails for paths that contain ``path_part``."""
        self.faults[call, path_part] = code

    def note(self, call: str, path: str) -> None:
        """Keep what is done, unless it has to fail."""
        for (failing, part), code in list(self.faults.items()):
            if failing == call and part in path:
                raise OSError(code, os.strerror(code), path)
        self.calls.append((call, path))

    def open_append(self, path: str) -> WatchedFile:
        self.note("open", path)
        if self.free_bytes is not None and self.free_bytes <= 0 and not os.path.exists(path):  # noqa: PTH110
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return WatchedFile(super().open_append(path), self)

    def rename(self, source: str, target: str) -> None:
        self.note("rename", target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self.note("unlink", path)
        super().unlink(path)

    def sync_directory(self, path: str) -> None:
        self.note("sync", path)
        super().sync_directory(path)


@pytest.fixture
def watched_files() -> WatchedFilesystem:
    """The real file system, watched, and failing on demand."""
    return WatchedFilesystem()


class ServeProcess:
    """``stratalog serve`` as a process of its own, to be killed and started again on the same port and files."""

    def __init__(self, directory: str, settings: dict[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.directory = directory
        self.settings = settings
        self.process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """``HOST:PORT`` for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> ServeProcess:
        """Start and wait for the line that says it is ready."""
        serve = [sys.executable, "-m", "stratalog", "serve", "--listen", self.address, "--http", "127.0.0.1:0"]
        settings = {"stratalog.bucket.url": f"file://{self.directory}/bucket", **self.settings}
        data = [] if "log.dirs" in settings else ["--data", f"{self.directory}/data"]
        sets = (word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
        with open(f"{self.directory}/stderr", "a") as stderr:  # noqa: PTH123 - a path in a string
            self.process = subprocess.Popen([*serve, *data, *sets], stdout=subprocess.PIPE, stderr=stderr, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), self.errors()
        self.http = line.split("http=")[1].split()[0]
        return self

    def errors(self) -> str:
        """Its output on stderr so far."""
        return Path(f"{self.directory}/stderr").read_text()

    def end(self, number: int) -> int:
        """Send a signal and wait for the end; the exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(WAIT_SECONDS)
        process.stdout.close()
        return code


@pytest.fixture
def serve_process(tmp_path) -> Iterator[Callable[..., ServeProcess]]:
    """Start ``stratalog serve``; killed after the test."""
    processes: list[ServeProcess] = []

    def start(**settings: object) -> ServeProcess:
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        processes.append(ServeProcess(str(tmp_path), named))
        return processes[-1].start()

    yield start
    for process in processes:
        process.end(signal.SIGKILL)
