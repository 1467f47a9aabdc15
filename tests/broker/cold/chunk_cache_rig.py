"""A chunk cache whose worker is the test: loaded by the files that test `ChunkFiles`."""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from types import SimpleNamespace

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages import commands
from stratalog.tier.objects.chunk_table import Chunk
from stratalog.tier.reading.cache import CacheLimits
from stratalog.tier.reading.cache_files import scan_cache
from stratalog.tier.reading.fetch_budgets import FetchRates
from stratalog.tier.reading.remote_log import ChunkId, ChunkRef

PARTITION = PartitionId("t", bytes(16), 0)
TOPIC, OBJECT = "00" * 16, "00" * 16
INDEX = array("q", [0]).tobytes(), array("i", [0]).tobytes()


def ref(number, length=10, uuid=bytes(16)):
    """The ``number``-th chunk of one object."""
    chunk = Chunk(10 * number, length * number, length, 0, 0)
    return ChunkRef(ChunkId(uuid, number), "key", chunk, 10 * number + 10)


class Cache:
    """A cache whose fills the test answers; what an earlier run left is looked through at once, unless told otherwise."""

    def __init__(self, directory, limit_bytes=100, *, share_percent=100, free_bytes_min=0, scanned=True, **options):
        self.now_ms = 0
        self.submitted = []
        self.rates = FetchRates()
        self.timers = []
        self.woken = []
        self.admission = ColdAdmission(
            lambda: self.rates,
            client_of=lambda reader: reader,
            wake=self.woken.append,
            now_ms=lambda: self.now_ms,
            later=self.later,
        )
        limits = CacheLimits(limit_bytes, share_percent, free_bytes_min)
        self.files = ChunkFiles(
            str(directory), limits, self.submit, lambda: self.now_ms, admission=self.admission, **options
        )
        self.failed = []
        if scanned:
            self.want(ref(0))
            self.scan()
            self.woken.clear()

    def later(self, seconds, call):
        timer = SimpleNamespace(seconds=seconds, call=call, cancel=lambda: self.timers.remove(timer))
        self.timers.append(timer)
        return timer

    def run_timers(self):
        """Let all timers that are set go off."""
        timers, self.timers = self.timers, []
        for timer in timers:
            timer.call()

    def scan(self):
        """Answer the first command: what lies in the directory."""
        command, answered = self.submitted.pop(0)
        answered(scan_cache(None, command))

    def submit(self, command, answered):
        self.submitted.append((command, answered))

    def want(self, *refs, reader="r", **options):
        failed = lambda *args: self.failed.append(args)  # noqa: E731
        return self.files.want(PARTITION, refs, reader, failed=failed, **options)

    def answer(self, free_bytes=-1):
        """Fill what was asked for longest."""
        command, answered = self.submitted.pop(0)
        for fill in command.chunks:
            Path(fill.path).write_bytes(b"c" * fill.chunk.length)
        chunks = tuple(
            commands.FilledChunk(fill.path, fill.chunk.length, *INDEX, fill.chunk.first_offset + 10)
            for fill in command.chunks
        )
        answered(commands.ChunksFilled(command.key, chunks, free_bytes))

    def answer_in(self, path):
        """As `answer`, with a file that holds the whole object."""
        command, answered = self.submitted.pop(0)
        chunks = tuple(
            commands.FilledChunk(str(path), one.length, *INDEX, one.first_offset + 10, start=one.position, shared=True)
            for one in (fill.chunk for fill in command.chunks)
        )
        answered(commands.ChunksFilled(command.key, chunks))


def leave(directory, *names, data=b"c" * 10):
    """Files of an earlier run, oldest first."""
    directory.mkdir(exist_ok=True)
    for age, name in enumerate(reversed(names)):
        (directory / name).write_bytes(data)
        os.utime(directory / name, (1000 - age, 1000 - age))
