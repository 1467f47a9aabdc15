"""Takes chunks from the files of the cache, whose disk may fail: that says nothing about the disk of a log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from errno import EMFILE, ENFILE, ENOMEM
from typing import Final, TypeVar

from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.chunk_slices import ChunkSlices
from stratalog.broker.cold.remembered_errors import RememberedErrors
from stratalog.tier.messages import reports
from stratalog.tier.reading.chunk_pins import Reader
from stratalog.tier.reading.remote_log import ChunkId, ChunkRef
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError

__all__ = ["AGAIN_MS", "CachedReads"]

T = TypeVar("T")

AGAIN_MS: Final = 60_000
"""A file that cannot be read so soon after its chunk was fetched again is an error for readers."""
_FAILURES_KEPT: Final = 256
_OF_THE_PROCESS: Final = frozenset({EMFILE, ENFILE, ENOMEM})
"""Errors that are none of the file, which stays."""

log = logging.getLogger(__name__)


class CachedReads:
    """The readers of one partition at the chunk cache. ``errors`` are those of the partition's archive."""

    def __init__(self, chunks: ChunkFiles, errors: RememberedErrors) -> None:
        self._chunks = chunks
        self._errors = errors
        # Chunks whose files could not be read, and when.
        self._failures: dict[ChunkId, int] = {}

    def take(self, refs: Sequence[ChunkRef], reader: Reader, out: ChunkSlices) -> list[ChunkRef]:
        """Add to ``out`` what is cached of ``refs``, up to the first that is not; returns those that were taken.

        A chunk whose file cannot be read counts as not cached: it is dropped, so that it is fetched again. If that
        does not help, the failure is remembered for the readers of the next seconds. Raises neither `OSError` nor
        `Corrupt`.
        """
        held: list[ChunkRef] = []
        for ref in refs:
            path = ""
            try:
                cached = self._chunks.get(ref.id, reader)
                if cached is None:
                    break
                path = cached[0].path
                goes_on = out.add(*cached, ref.end_offset)
            except (OSError, Corrupt) as error:
                self._failed(ref.id, path or str(getattr(error, "filename", "")), error)
                break
            held.append(ref)
            if not goes_on:
                break
        return held

    def _failed(self, chunk_id: ChunkId, path: str, error: OSError | Corrupt) -> None:
        reason = error.strerror if isinstance(error, OSError) else error
        words = f"the file {path} of the chunk cache cannot be read: {reason}"
        now_ms, is_of_file = self._chunks.now_ms(), getattr(error, "errno", None) not in _OF_THE_PROCESS
        before_ms = self._failures.pop(chunk_id, None)
        if is_of_file:
            self._chunks.drop(chunk_id)
            self._failures[chunk_id] = now_ms
            if len(self._failures) > _FAILURES_KEPT:
                del self._failures[next(iter(self._failures))]
        if is_of_file and (before_ms is None or now_ms - before_ms >= AGAIN_MS):
            log.warning("%s; the chunk is fetched again", words)
        else:
            advice = "check its disk, or set stratalog.cache.dir to another one"
            self._errors.remember(chunk_id, reports.FailedReport(f"{words}; {advice}", retriable=False))

    def ask(self, ask: Callable[[], T]) -> T:
        """Have the cache fetch something. Raises `KafkaError` KAFKA_STORAGE_ERROR where its directory cannot be used."""
        try:
            return ask()
        except OSError as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the chunk cache {self._chunks.directory} cannot be used: {error}; check stratalog.cache.dir",
            ) from error
