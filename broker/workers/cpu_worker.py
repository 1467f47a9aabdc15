"""The ``cpu`` worker's work: whatever touches every record of a batch, or of a log that is compacted."""

from __future__ import annotations

from msgspec import Struct

from stratalog.broker.workers.cleaner_worker import BeginCleaning, CleanerSessions, CleanGroup, EndCleaning
from stratalog.hot.cleaner.cleaner import CleanedSegment, MapBuilt
from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Invalid
from stratalog.wire.record_rules import RecordRules
from stratalog.wire.rework import rework

__all__ = ["CpuWorker", "Rework", "cpu_worker"]


class Rework(Struct, frozen=True):
    """Bring a batch to a topic's codec and check its records (`stratalog.wire.rework`); answered by the new batch."""

    batch: bytes
    codec: Codec | None
    rules: RecordRules
    opened_bytes_max: int


class CpuWorker:
    """Executes commands; keeps nothing but the maps of cleanings under way."""

    def __init__(self, files: Filesystem | None = None) -> None:
        self._cleaner = CleanerSessions(files)

    def execute(self, command: object) -> bytearray | TimestampOffset | MapBuilt | CleanedSegment | None:
        """Do it. Raises what is wrong with the batch."""
        if isinstance(command, Rework):
            return rework(command.batch, command.codec, command.rules, command.opened_bytes_max)
        if isinstance(command, BatchSearch):
            return command.find()
        if isinstance(command, BeginCleaning | CleanGroup | EndCleaning):
            return self._cleaner.execute(command)
        raise Invalid(f"the cpu worker does not know {type(command).__name__}")


def cpu_worker(files: Filesystem | None = None) -> CpuWorker:
    """The factory that the worker process calls; ``files`` is the disk of a worker that is none."""
    return CpuWorker(files)
