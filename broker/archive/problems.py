"""Problems of archives while the broker serves: sentences for ``/readyz?verbose``, counts for ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP, FreshFigures
from stratalog.broker.runtime.metrics import Metrics

if TYPE_CHECKING:
    from stratalog.broker.archive.bucket_health import BucketState
    from stratalog.broker.archive.partition_archive import Archive
    from stratalog.broker.archive.reconciling import Reconciling
    from stratalog.broker.replicas.unified_log import UnifiedLog
    from stratalog.broker.runtime.clock import Clock
    from stratalog.broker.workers.watch import WorkerState

__all__ = ["add_problem_metrics", "archive_problems", "bucket_problems", "first_of"]

_TOLD_MAX: Final = 20
"""Most sentences of one kind: without its bucket every partition has one."""


def first_of(problems: Sequence[str]) -> list[str]:
    """The first few, and how many more there are."""
    more = len(problems) - _TOLD_MAX
    return [*problems[:_TOLD_MAX], f"and {more} more like the last"] if more > 0 else list(problems)


def _unarchived(one: Archive) -> int:
    """How many offsets of a fenced archive's log are in no archive; this broker will not archive them."""
    return max(0, one.unified.log.log_end_offset - one.archived_end) if one.fenced else 0


def archive_problems(
    archives: Iterable[Archive], checks: Iterable[tuple[UnifiedLog, Reconciling]]
) -> Generator[None, None, list[str]]:
    """A sentence for each archive that its bucket does not hold, each partition that waits for its archive, and each that
    goes on acknowledging although its archive has another owner. It yields where it may pause.
    """
    lost, fenced = [], []
    for number, one in enumerate(list(archives)):
        if number % LOOKS_A_STEP == 0:
            yield
        if one.lost:
            lost.append(f"the archive is lost: {one.lost_reason}")
        if count := _unarchived(one):
            fenced.append(
                f"{one.unified.topic_partition}: another owner has its archive: {count} offsets from "
                f"{one.archived_end} on are acknowledged here and archived nowhere. Stop this broker, or have its "
                "clients write to the new owner"
            )
    waiting = [
        f"{unified.topic_partition} waits for its archive before it serves: {one.waits_for}" for unified, one in checks
    ]
    return first_of(lost) + first_of(waiting) + first_of(fenced)


def bucket_problems(bucket: BucketState, worker: WorkerState, now_ms: int) -> list[str]:
    """A sentence if the bucket does not answer, and one if the worker that asks it hangs."""
    problems = []
    if bucket.failing_since_ms is not None:
        seconds = max(0, now_ms - bucket.failing_since_ms) // 1000
        problems.append(f"the bucket has not answered for {seconds} s: {bucket.error}")
    return [*problems, worker.problem] if worker.problem else problems


class _Counts(NamedTuple):
    lost: int
    fenced_offsets: int


def _counted(archives: Iterable[Archive]) -> Generator[None, None, _Counts]:
    lost = fenced_offsets = 0
    for number, one in enumerate(list(archives)):
        if number % LOOKS_A_STEP == 0:
            yield
        lost += one.lost
        fenced_offsets += _unarchived(one)
    return _Counts(lost, fenced_offsets)


def add_problem_metrics(
    metrics: Metrics, archives: Collection[Archive], bucket_state: Callable[[], BucketState], clock: Clock
) -> None:
    """Counts over ``archives``, a view that follows what is led, and whether the bucket answers."""
    counts = FreshFigures(metrics, partial(_counted, archives), clock).get
    metrics.add_gauge(
        "stratalog_tier_bucket_up",
        "1 while the bucket answers, 0 while it does not; no sample before it was first asked.",
        lambda: [({}, float(state == "ok"))] if (state := bucket_state().state) != "unused" else [],
    )
    metrics.add_gauge(
        "stratalog_tier_lost_partitions",
        "Partitions whose archive is known to exist and is not in the bucket.",
        lambda: [({}, counts().lost)],
    )
    metrics.add_gauge(
        "stratalog_tier_fenced_offsets",
        "Offsets that are acknowledged here and archived nowhere, because another owner has the archive.",
        lambda: [({}, counts().fenced_offsets)],
    )
