"""The page's facts about each partition and about the whole broker: offsets in, plain JSON out. Pure.

Every offset between log start and log end is in exactly one span:

.. code-block:: text

    log start ....... local start ....... remote end ....... active segment ....... log end
    |--- remote -----|------ both -------|----- waiting ----|------- local --------|

``waiting`` is frozen, due and not yet in the bucket; ``local`` is what has no reason to be there yet: the active segment,
what a copy lag holds back, a topic that is not tiered or no more. ``missing`` is in neither place, which is never right.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from stratalog.broker.workers.watch import WorkerState

__all__ = [
    "STATES",
    "BrokerFacts",
    "PartitionFacts",
    "RunningUpload",
    "Spans",
    "Totals",
    "Trash",
    "row",
    "spans",
    "summary",
]

Json = dict[str, Any]

STATES: Final = {
    "local": "not tiered",
    "unclaimed": "nothing to archive yet",
    "claiming": "taking over its archive",
    "checking": "comparing itself with its archive",
    "held": "archiving",
    "lost": "lost: the bucket does not hold its archive",
    "fenced": "fenced: another broker leads its archive",
    "quarantined": "stopped at damaged data",
    "mounted": "read from the bucket only",
    "copy": "a copy, which its leader archives",
}
"""The meaning of a state, in words."""

_NO_END: Final = (1 << 63) - 1
_STUCK: Final = frozenset({"fenced", "lost", "quarantined"})


class Trash(NamedTuple):
    """Objects that were taken out of an archive and are still in the bucket, how many of them only leases hold, and
    jobs under way.

    ``items`` are objects, or pages with all objects that they name.
    """

    items: int = 0
    size_bytes: int = 0
    leased_items: int = 0
    jobs: int = 0

    def plus(self, other: Trash) -> Trash:
        """Both together."""
        return Trash(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class PartitionFacts(NamedTuple):
    """One partition as it stands. Offsets; ``*_end`` exclusive; times in ms, None where there is none.

    Every frozen segment below ``due_end`` should be in the bucket by now; ``copying`` is whether anything should be.
    ``waiting_bytes`` counts the bytes of such segments beyond the remote end, ``waiting_since_ms`` is when the oldest of
    them was begun. ``risk_since_ms`` is when the oldest segment that is not in the bucket was begun, the active segment
    included. Objects up to ``read_back`` were read back and compared with the manifest since this leadership began.
    """

    topic: str
    partition: int
    tiered: bool
    state: str
    log_start: int
    local_start: int
    remote_start: int
    remote_end: int
    active_start: int
    log_end: int
    local_bytes: int
    remote_bytes: int
    objects: int
    waiting_bytes: int = 0
    waiting_since_ms: int | None = None
    risk_since_ms: int | None = None
    read_back: int = 0
    due_end: int = _NO_END
    copying: bool = True
    trouble: str = ""
    trash: Trash = Trash()
    leader: int = -1
    """The broker that leads; -1 where the partition is only read."""
    replicas: tuple[int, ...] = ()
    """All of them, and those that are in sync, where this broker leads."""
    in_sync: tuple[int, ...] = ()


class Spans(NamedTuple):
    """How many offsets are where."""

    remote: int
    both: int
    waiting: int
    local: int
    missing: int


def spans(facts: PartitionFacts) -> Spans:
    """Where the offsets between log start and log end are."""
    low, high = facts.log_start, max(facts.log_start, facts.log_end)
    borders = (facts.local_start, facts.remote_start, facts.remote_end, _due(facts))
    cuts = sorted({low, high, *(min(max(border, low), high) for border in borders)})
    counts = dict.fromkeys(Spans._fields, 0)
    for first, end in pairwise(cuts):
        counts[_place(facts, first)] += end - first
    return Spans(**counts)


def _place(facts: PartitionFacts, offset: int) -> str:
    remote = facts.remote_start <= offset < facts.remote_end
    if offset < facts.local_start:
        return "remote" if remote else "missing"
    if remote:
        return "both"
    return "waiting" if offset < _due(facts) else "local"


def _due(facts: PartitionFacts) -> int:
    """Below this offset nothing should be on this disk only."""
    return min(facts.active_start, facts.due_end) if facts.tiered and facts.copying else 0


def row(facts: PartitionFacts) -> Json:
    """One partition's row in ``GET /v1/tier``."""
    counts = spans(facts)
    at_risk = max(facts.remote_end, facts.log_start, facts.local_start)
    return {
        "topic": facts.topic,
        "partition": facts.partition,
        "tiered": facts.tiered,
        "state": facts.state,
        "state_text": _state_text(facts),
        "problem": _problem(facts, counts),
        "leader": facts.leader if facts.leader >= 0 else None,
        "replicas": list(facts.replicas),
        "in_sync": list(facts.in_sync),
        "log_start": facts.log_start,
        "local_start": facts.local_start,
        "remote_end": facts.remote_end,
        "active_start": facts.active_start,
        "log_end": facts.log_end,
        "read_back_end": facts.read_back if facts.tiered else None,
        "spans": counts._asdict(),
        "local_bytes": facts.local_bytes,
        "remote_bytes": facts.remote_bytes,
        "objects": facts.objects,
        "trash": facts.trash._asdict(),
        "lag": {
            "offsets": counts.waiting,
            "bytes": facts.waiting_bytes if counts.waiting else 0,
            "since_ms": facts.waiting_since_ms if counts.waiting else None,
        },
        "at_risk": {"offset": at_risk, "since_ms": facts.risk_since_ms}
        if facts.tiered and facts.copying and at_risk < facts.log_end
        else None,
    }


def _state_text(facts: PartitionFacts) -> str:
    if facts.tiered and not facts.copying and facts.state not in _STUCK and facts.state != "mounted":
        return "copying to the bucket is switched off"
    return STATES.get(facts.state, facts.state)


def _problem(facts: PartitionFacts, counts: Spans) -> str | None:
    """The worst thing to know, in a sentence; None if there is nothing to do."""
    if facts.trouble:
        return facts.trouble
    if counts.missing and facts.state != "checking":
        return (
            f"{counts.missing} offsets below {facts.local_start} are neither on this disk nor in the bucket as far as "
            f"this broker knows: see its log, and run stratalog tier status {facts.topic}"
        )
    if facts.state in _STUCK:
        return f"{STATES[facts.state]}: nothing more is archived; see the log of this broker"
    return None


class Totals(Struct):
    """Sums over partitions, added one by one."""

    partitions: int = 0
    tiered_partitions: int = 0
    tiered_topics: set[str] = field(default_factory=set)
    problems: int = 0
    offsets: int = 0
    waiting_bytes: int = 0
    waiting_since_ms: int | None = None
    local_bytes: int = 0
    remote_bytes: int = 0
    at_risk: Json | None = None
    trash: Trash = Trash()

    def add(self, one: Json) -> None:
        """Count a row of `row` in. Sizes and lags count tiered partitions only."""
        self.partitions += 1
        self.problems += one["problem"] is not None
        if not one["tiered"]:
            return
        self.tiered_partitions += 1
        self.tiered_topics.add(one["topic"])
        self.local_bytes += one["local_bytes"]
        self.remote_bytes += one["remote_bytes"]
        self.offsets += one["lag"]["offsets"]
        self.waiting_bytes += one["lag"]["bytes"]
        self.trash = self.trash.plus(Trash(**one["trash"]))
        self.waiting_since_ms = _earlier(self.waiting_since_ms, one["lag"]["since_ms"])
        risk = one["at_risk"]
        if risk is not None and risk["since_ms"] is not None:
            known = self.at_risk
            if known is None or risk["since_ms"] < known["since_ms"]:
                self.at_risk = {"topic": one["topic"], "partition": one["partition"], **risk}


class RunningUpload(NamedTuple):
    """Offsets ``[base, end)`` on their way into the bucket, since when (ms)."""

    topic: str
    partition: int
    base: int
    end: int
    size_bytes: int
    since_ms: int


class BrokerFacts(NamedTuple):
    """The facts that concern no single partition. Counts since the broker started; times in ms, None for never."""

    now_ms: int
    bucket_url: str
    failing_since_ms: int | None
    answered_ms: int | None
    last_error: str
    cache_used_bytes: int
    cache_limit_bytes: int
    cache_hits: int
    cache_misses: int
    copy_errors: int
    fetch_errors: int
    delete_errors: int
    read_back_ms: int | None
    uploads: tuple[RunningUpload, ...]
    uploads_waiting: int
    verification: Json | None = None
    read_only: bool = False
    worker: WorkerState = WorkerState("io", 0.0, 0, "")


def summary(facts: BrokerFacts, totals: Totals) -> Json:
    """The head of ``GET /v1/tier``, before its rows."""
    bucket_state = "unused" if facts.answered_ms is None else "ok"
    asked = facts.cache_hits + facts.cache_misses
    return {
        "now_ms": facts.now_ms,
        "bucket": {
            "url": facts.bucket_url,
            "read_only": facts.read_only,
            "state": bucket_state if facts.failing_since_ms is None else "failing",
            "failing_since_ms": facts.failing_since_ms,
            "answered_ms": facts.answered_ms,
            "last_error": facts.last_error,
        },
        "worker": {
            "oldest_command_seconds": round(facts.worker.oldest_command_seconds, 1),
            "hangs": facts.worker.hangs,
            "problem": facts.worker.problem,
        },
        "partitions": totals.partitions,
        "tiered_partitions": totals.tiered_partitions,
        "tiered_topics": len(totals.tiered_topics),
        "problems": totals.problems + bool(facts.worker.problem),
        "local_bytes": totals.local_bytes,
        "remote_bytes": totals.remote_bytes,
        "lag": {"offsets": totals.offsets, "bytes": totals.waiting_bytes, "since_ms": totals.waiting_since_ms},
        "at_risk": totals.at_risk,
        "trash": totals.trash._asdict(),
        "cache": {
            "used_bytes": facts.cache_used_bytes,
            "limit_bytes": facts.cache_limit_bytes,
            "hits": facts.cache_hits,
            "misses": facts.cache_misses,
            "hit_rate": facts.cache_hits / asked if asked else None,
        },
        "errors": {"copy": facts.copy_errors, "fetch": facts.fetch_errors, "delete": facts.delete_errors},
        "uploads": {"running": [one._asdict() for one in facts.uploads], "waiting": facts.uploads_waiting},
        "read_back_ms": facts.read_back_ms,
        "verification": facts.verification,
    }


def _earlier(one: int | None, other: int | None) -> int | None:
    """The smaller of two times, either of them possibly unknown."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
