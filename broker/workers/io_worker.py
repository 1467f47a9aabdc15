"""The ``io`` worker's work: the archive's commands against the bucket, counted, throttled and probed first."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from stratalog.tier import open_store
from stratalog.tier.messages.commands import (
    BeginAgain,
    Claim,
    Command,
    Commit,
    EmptyTrash,
    FailedReport,
    FillChunks,
    MergeObjects,
    RemoveArchive,
    RemoveTopicDocument,
    Report,
    ScanCache,
    SetLogStart,
    SignBucket,
    TrashArchive,
    Upload,
    WriteProjection,
)
from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.read_only_store import open_to_read
from stratalog.tier.stores.retrying_store import RetryPolicy
from stratalog.tier.stores.source import source_length
from stratalog.tier.stores.store import UnsafeStore
from stratalog.tier.stores.throttled_store import ThrottledStore, TokenBucket
from stratalog.tier.stores.wrappers import CountedRequest, CountingStore
from stratalog.tier.work.work import Worker
from stratalog.wire.errors import Retriable, StratalogError

__all__ = [
    "WRITES",
    "Executed",
    "IoWorker",
    "RatedUpload",
    "Submit",
    "ask",
    "io_patience",
    "io_worker",
    "unanswered_seconds",
]

log = logging.getLogger(__name__)

Submit = Callable[[Command, Callable[[Report], None]], None]
"""Have the worker carry out a command; the report comes later, that of a lost worker as a `FailedReport`."""


async def ask(submit: Submit, command: Command) -> Report:
    """Have the worker carry out a command, and wait for its report."""
    done: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
    submit(command, lambda report: None if done.done() else done.set_result(report))
    return await done


WRITES: Final = (
    Claim,
    Upload,
    Commit,
    SetLogStart,
    MergeObjects,
    WriteProjection,
    EmptyTrash,
    TrashArchive,
    BeginAgain,
    RemoveArchive,
    RemoveTopicDocument,
    SignBucket,
)
"""Commands that change the bucket."""
_PAUSE_DOUBLINGS_MAX: Final = 10
"""So often the number of writes that are refused before the next probe doubles."""
_UNLIMITED: Final = (1 << 63) - 1
_TIMES: Final = ("now_ms", "expires_ms")
"""Fields of commands that say when they were made."""


class RatedUpload(Struct, frozen=True):
    """An upload or a merge, and how many bytes a second all of them together may take from now on."""

    upload: Upload | MergeObjects
    bytes_per_second: int


class Executed(Struct):
    """A report, and what it cost: requests by operation, bytes in both directions."""

    report: Report
    requests: dict[str, int] = field(default_factory=dict)
    received_bytes: int = 0
    sent_bytes: int = 0


_REQUEST_SECONDS_MAX: Final = 300.0
"""Without an answer of the store; its own retries end after less than three minutes."""
_FIRST_ANSWER_SECONDS_MAX: Final = 3.0
"""A store that has never answered is reported after so long; one that has is tried for a minute."""
_SLOWEST_BYTES_PER_SECOND: Final = 256 << 10
"""A store that sends or takes bytes more slowly than this is given up: a gigabyte takes up to 73 minutes."""


def io_patience(command: object) -> float:
    """How many seconds a command may go without a request to the store being answered.

    A request may carry all bytes of an upload, of a merged object or of the chunks that are fetched.
    """
    if isinstance(command, RatedUpload):
        # Eight commands at most are under way, and share the rate.
        slowest = min(_SLOWEST_BYTES_PER_SECOND, max(1, command.bytes_per_second // 8))
        return _REQUEST_SECONDS_MAX + _moved_bytes(command.upload) / slowest
    return _REQUEST_SECONDS_MAX + _moved_bytes(command) / _SLOWEST_BYTES_PER_SECOND


def unanswered_seconds(idle: Iterable[tuple[object, float]]) -> float:
    """For how long the store has answered none of the commands under way; 0.0 if none has to be answered soon.

    A command that moves many bytes, or looks at files beside the store, says nothing of the store by its silence.
    """
    quick = [
        seconds
        for command, seconds in idle
        if not isinstance(command, ScanCache) and io_patience(command) <= _REQUEST_SECONDS_MAX
    ]
    return min(quick, default=0.0)


def _moved_bytes(command: object) -> int:
    if isinstance(command, Upload):
        return source_length(command.request.source)
    if isinstance(command, MergeObjects):
        return command.bytes_max
    if isinstance(command, FillChunks):
        return sum(fill.chunk.length for fill in command.chunks)
    return 0


class _Costs(threading.local):
    """The cost of this thread's command so far."""

    def __init__(self) -> None:
        self.requests: dict[str, int] = {}
        self.received_bytes = 0
        self.sent_bytes = 0


class IoWorker:
    """Executes commands for one bucket.

    Before the first write it tries the store out: several look-alikes of S3 ignore conditions silently, and on them
    two leaders would both believe to have committed. A store that is refused is tried out again, less and less often:
    what was read wrong once may have been damaged on its way.
    """

    def __init__(self, url: str, options: Mapping[str, Any], *, read_only: bool = False) -> None:
        self.on_progress: Callable[[], object] = bool
        """Called on the thread of a command whenever the store has answered it."""
        self._costs = _Costs()
        self._single_writer = bool(options.get("single_writer"))
        if url.startswith("s3:"):
            options = {"retry": RetryPolicy(first_deadline_s=_FIRST_ANSWER_SECONDS_MAX), **options}
        opened = (open_to_read if read_only else open_store)(url, **options)
        self._store = CountingStore(opened, log_count=1, on_request=self._count)
        self._worker = Worker(self._store)
        self._rated: tuple[int, Worker] | None = None
        self._probing = threading.Lock()
        self._rating = threading.Lock()
        self._refusal: str | None = None
        self._probed = False
        self._failed_probes = 0
        self._refused_before_probe = 0

    def execute(self, command: Command | RatedUpload) -> Executed:
        """Carry the command out and say what it cost."""
        costs = self._costs
        costs.requests, costs.received_bytes, costs.sent_bytes = {}, 0, 0
        worker = self._worker
        if isinstance(command, RatedUpload):
            worker, command = self._at_rate(command.bytes_per_second), command.upload
        report = self._refuse(command) or worker.execute(command)
        return Executed(report, costs.requests, costs.received_bytes, costs.sent_bytes)

    def aged(self, command: Command | RatedUpload, waited_ms: int) -> Command | RatedUpload:
        """The command with the time as it is now, after it has waited behind others, which may take hours in an outage.

        A change that dates the trash by an hour ago takes it from readers whose leases are younger than that.
        """
        if isinstance(command, RatedUpload):
            return replace(command, upload=self.aged(command.upload, waited_ms))
        times = {name: getattr(command, name) + waited_ms for name in _TIMES if hasattr(command, name)}
        return replace(command, **times) if times else command

    def _at_rate(self, bytes_per_second: int) -> Worker:
        """The worker whose uploads share this rate; under a new rate a new account is opened."""
        if bytes_per_second >= _UNLIMITED:
            return self._worker
        with self._rating:
            if self._rated is None or self._rated[0] != bytes_per_second:
                throttled = ThrottledStore(self._store, writes=TokenBucket(bytes_per_second))
                self._rated = bytes_per_second, Worker(self._store, uploads=throttled)
            return self._rated[1]

    def _refuse(self, command: Command) -> FailedReport | None:
        if not isinstance(command, WRITES):
            return None
        with self._probing:
            if not self._probed:
                if self._refused_before_probe:
                    self._refused_before_probe -= 1
                    return FailedReport(self._refusal or "", retriable=False)
                return self._probe()
        return None

    def _probe(self) -> FailedReport | None:
        """Try the store out; why nothing may be written to it, if so."""
        try:
            report = probe(self._store, racing=not self._store.url.startswith("memory:"))
            report.require(multi_writer=not self._single_writer)
        except UnsafeStore as error:
            self._refusal = str(error)
            self._refused_before_probe = 1 << min(self._failed_probes, _PAUSE_DOUBLINGS_MAX)
            self._failed_probes += 1
            return FailedReport(self._refusal, retriable=False)
        except StratalogError as error:
            return FailedReport(str(error), retriable=isinstance(error, Retriable))
        for problem in report.problems:
            log.warning("the store %s may be used, but: %s", report.url, problem)
        self._probed = True
        return None

    def _count(self, request: CountedRequest) -> None:
        self.on_progress()
        costs = self._costs
        costs.requests[request.operation] = costs.requests.get(request.operation, 0) + 1
        costs.received_bytes += request.received_bytes
        costs.sent_bytes += request.sent_bytes


def io_worker(url: str, options: Mapping[str, Any], *, read_only: bool = False) -> IoWorker:
    """The factory that the worker process calls."""
    return IoWorker(url, options, read_only=read_only)
