"""The ledger in the target: read, committed by compare-and-swap, and its runs published.

Each step may be the last one before a kill, and each may be done twice: the next backfill finishes what is committed
and forgets what is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec.structs import replace

from stratalog.spark.ledger.lake_table import Table
from stratalog.spark.ledger.layout import checkpoint_key, head_key, run_key, run_seq, staging_prefix
from stratalog.spark.ledger.ledger import (
    CHECKPOINT_RUNS,
    Head,
    Ledger,
    LedgerConflict,
    Run,
    committed,
    published,
    visible,
)
from stratalog.spark.ledger.ledger_json import head_from_bytes, head_to_bytes, run_from_bytes, run_to_bytes
from stratalog.spark.ledger.target import Target
from stratalog.tier.stores.store import AlreadyExists, NotFound, PreconditionFailed, Version

__all__ = ["LedgerStore", "discard_staged"]

_THREADS: Final = 16


class LedgerStore:
    """The ledger of one topic in ``target``, as it was when it was last read or written here."""

    def __init__(self, target: Target, topic: str, topic_id: str, table: Table | None = None) -> None:
        """``table`` is what published files are added to, if they are not to be found by a listing alone."""
        self._target = target
        self._table = table
        self._topic = topic
        self._version: Version | None = None
        self._runs: list[Run] = []
        self.head = Head(topic, topic_id)
        self.read()

    @property
    def ledger(self) -> Ledger:
        """The head and the live spans."""
        return Ledger(self.head, visible(self._runs))

    def read(self) -> None:
        """Look again. Raises `Corrupt` for a damaged ledger."""
        key = head_key(self._topic)
        if not self._target.is_there():
            return
        try:
            data, self._version = self._target.store.get(key)
        except NotFound:
            return
        self.head = head_from_bytes(data, f"{self._target.url}/{key}")
        keys = [checkpoint_key(self._topic, self.head.checkpoint)] if self.head.checkpoint else []
        keys += [run_key(self._topic, name) for name in self.head.runs]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-ledger") as pool:
            self._runs = list(pool.map(self._record, keys))

    def _record(self, key: str) -> Run:
        data, _ = self._target.store.get(key)
        return run_from_bytes(data, f"{self._target.url}/{key}")

    def commit(self, run: Run, layout: tuple[tuple[str, str], ...], shortened: Mapping[int, int] | None = None) -> None:
        """Make ``run`` part of the ledger; its files are still to be published.

        ``shortened`` is what the head is to say of the partitions in it, see `Head`. Raises `LedgerConflict` if another
        backfill has committed meanwhile.
        """
        head = replace(committed(self.head, run), layout=layout, shortened={**self.head.shortened, **(shortened or {})})
        self._create(run_key(self._topic, run.name), run)
        self._swap(head)
        self._runs.append(run)

    def publish(self) -> None:
        """Bring the files of a run that was committed and not published to where readers see them.

        First those that it supersedes go, so that no row is ever there twice; and before them all that earlier runs have
        staged: a process that was stopped while it published one of these would bring them back.
        """
        if not self.head.publishing:
            return
        run = self._runs[-1]
        staging = staging_prefix(self._topic, run.name)
        if self._table is None and run.removed:
            _remove_staged(self._target, self._topic, run.seq - 1)
            self._target.remove(run.removed)
        paths = [file.path for span in run.spans for file in span.files]
        try:
            with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-publish") as pool:
                list(pool.map(lambda path: self._target.publish(staging + path, path), paths))
        except NotFound:
            self.read()
            if self.head.publishing and self.head.seq == run.seq:
                raise
            self._retract(paths)
            return  # another process has published this run and gone on
        if self._table is not None:
            self._table.add(self.head, run)
        joined = None
        if len(self.head.runs) >= CHECKPOINT_RUNS:
            joined = replace(run, spans=tuple(visible(self._runs).values()), rewritten=(), removed=(), abandoned=())
            self._create(checkpoint_key(self._topic, run.name), joined)
        try:
            self._swap(published(self.head, run.name if joined else None))
        except LedgerConflict:
            self.read()  # another process has published this run, and may have gone on from there
            self._retract(paths)
        else:
            self._runs = [joined] if joined else self._runs
        self._target.remove_folder(staging)

    def _retract(self, paths: Iterable[str]) -> None:
        """Remove those of the files just published that a later run has superseded meanwhile."""
        live = {file.path for span in self.ledger.spans.values() for file in span.files}
        self._target.remove([path for path in paths if path not in live])

    def _create(self, key: str, run: Run) -> None:
        try:
            self._target.store.put_if_absent(key, run_to_bytes(run))
        except AlreadyExists:
            if self._target.store.get(key)[0] != run_to_bytes(run):
                raise

    def _swap(self, head: Head) -> None:
        key, data = head_key(self._topic), head_to_bytes(head)
        try:
            if self._version is None:
                self._version = self._target.store.put_if_absent(key, data)
            else:
                self._version = self._target.store.compare_and_swap(key, data, self._version)
        except (AlreadyExists, PreconditionFailed) as error:
            found, version = self._target.store.get(key)
            if found != data:  # else an answer was lost: it was us
                raise LedgerConflict(
                    f"topic {self._topic}: another backfill to {self._target.url} has committed in the meantime. "
                    f"Nothing of this run is visible; run again, it goes on from there"
                ) from error
            self._version = version
        self.head = head


def discard_staged(target: Target, topic: str, head: Head) -> int:
    """Remove what runs have staged that can never be committed, since their number is taken; how many runs.

    Those with the next number are left alone: another backfill may be writing them.
    """
    if head.publishing:
        return 0
    return _remove_staged(target, topic, head.seq)


def _remove_staged(target: Target, topic: str, seq: int) -> int:
    """Remove what runs up to number ``seq`` have staged; how many runs."""
    prefix = staging_prefix(topic)
    dead = [name for name in target.folders(prefix) if 0 < run_seq(name) <= seq]
    for name in dead:
        target.remove_folder(f"{prefix}{name}/")
    return len(dead)
