"""A log directory's writer with logs made of counters."""

import asyncio

from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.runtime.tick import Tick


class Owner:
    """A log and its owner in one, made of counters; fails as told."""

    def __init__(self, name="o", sync_on_ack=True) -> None:
        self.log = self
        self.name = name
        self.sync_on_ack = sync_on_ack
        self.queued_bytes = 100
        self.heard = []
        self.write_error = self.begin_error = self.sync_error = self.discard_error = None
        self.dirty = False

    # as a log
    def write_queued(self):
        if self.write_error is not None:
            raise self.write_error
        self.dirty = True
        self.heard.append("write")

    def begin_sync(self):
        if self.begin_error is not None:
            raise self.begin_error
        dirty, self.dirty = self.dirty, False
        return self if dirty else None

    def run(self):
        if self.sync_error is not None:
            raise self.sync_error

    def finish_sync(self, ticket):
        assert ticket is self

    def discard_unwritten(self):
        if self.discard_error is not None:
            raise self.discard_error
        self.heard.append("discarded")

    # as its owner
    def on_written(self):
        self.heard.append("written")

    def flush_due(self):
        return self.sync_on_ack

    def on_flushed(self):
        self.heard.append("flushed")

    def on_write_refused(self, error):
        self.heard.append("refused")

    def on_storage_failed(self, error):
        self.heard.append("failed")


class Bench:
    """A writer whose threads run when the test says so; ``more`` goes to the writer."""

    def __init__(self, threads, **more) -> None:
        loop = asyncio.get_running_loop()
        self.threads = threads
        self.failures = []
        self.writer = DirectoryWriter(
            "/data",
            loop=loop,
            tick=Tick(loop),
            sync_threads=self.threads,
            on_failed=lambda writer, error: self.failures.append(error),
            **more,
        )

    def owner(self, name="o", **options) -> Owner:
        return self.added(Owner(name, **options))

    def added(self, owner):
        self.writer.add(owner)
        return owner

    async def turn(self) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def written(self, owner) -> None:
        self.writer.enqueue(owner)
        await self.turn()
