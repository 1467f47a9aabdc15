"""``stratalog tier repair``: make manifests right again from what the bucket still holds. No broker is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from click.core import ParameterSource

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.bucket import bucket_options, open_bucket
from stratalog.cli.command import command
from stratalog.cli.output import ExitCode, json_option, note, reports_errors, write_rows
from stratalog.cli.quantities import DURATION_MS
from stratalog.wire.errors import Invalid, Retriable

if TYPE_CHECKING:
    from stratalog.tier.bucket.walk import PartitionFolder
    from stratalog.tier.care.repair_plan import RepairPlan
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["repair"]

EXAMPLES: Final = """
stratalog tier repair --bucket s3://archive/prod --plan
stratalog tier repair --bucket s3://archive/prod --topic orders --apply
"""
COLUMNS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "kinds": "WRONG",
    "source": "REBUILT FROM",
    "start": "START",
    "end": "END",
    "objects": "OBJECTS",
    "added": "FOUND AGAIN",
    "left_out": "LEFT OUT",
    "lost": "NOT READABLE",
    "outcome": "OUTCOME",
}


_ATTEMPTS: Final = 5
"""So often a partition is planned at most: a busy leader changes its manifest meanwhile."""


class _Looked(NamedTuple):
    """A plan, and how to make it anew."""

    plan: RepairPlan
    again: Callable[[], RepairPlan | None]


class _How(NamedTuple):
    apply: bool
    takeover: bool
    accept_loss: bool


@command("repair", EXAMPLES)
@bucket_options
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--plan/--apply", "plan_only", default=True, help="Show what would be done (the default), or do it.")
@click.option(
    "--release", is_flag=True, help="Let garbage collection have what earlier repairs left out; nothing else."
)
@click.option("--deep", is_flag=True, help="Read every object before it is trusted.")
@click.option("--grace", type=DURATION_MS, default="1h", show_default=True, metavar="TIME", help="As of tier verify.")
@click.option("--takeover", is_flag=True, help="Raise the incarnation: earlier writers never write again.")
@click.option(
    "--accept-loss", is_flag=True, help="Also where offsets go out of reach whose objects are sound; these are kept."
)
@click.option("--threads", type=click.IntRange(1, 64), default=8, show_default=True, help="Requests side by side.")
@json_option
@reports_errors
def repair(
    *,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    topics: Sequence[str],
    plan_only: bool,
    release: bool,
    deep: bool,
    grace: int,
    takeover: bool,
    accept_loss: bool,
    threads: int,
    as_json: bool,
) -> None:
    """Rebuild manifests that are damaged, missing or wrong: from themselves, their copies and the objects' footers.

    A manifest is replaced only if it is still what was looked at. The command deletes no object: what the new manifest
    leaves out stays, protected from garbage collection by a job of the kind quarantine. The claim stays as it is, so
    that a live leader goes on; --takeover fences it. Running it again changes nothing. A partition that changes meanwhile is
    planned again, a few times.

    Exit code 0: nothing is left to repair; 4: there is (with --plan), or a repair was refused or overtaken by changes.
    """
    store = open_bucket(bucket, endpoint_url, region)
    if release:
        if click.get_current_context().get_parameter_source("plan_only") is ParameterSource.COMMANDLINE and plan_only:
            raise Invalid("--release strikes the quarantine off at once and has no plan: leave --plan out to do it")
        note(f"Released the quarantine of {_release(store, topics)} partitions.")
        return
    how = _How(not plan_only, takeover, accept_loss)
    rows: list[dict[str, Any]] = []
    try:
        with ThreadPoolExecutor(threads, "repair") as readers:
            plans = _plans(store, topics, grace, readers, deep=deep)
            rows.extend(_row(*_carry_out(store, looked, how)) for looked in plans)
    finally:  # an error in one partition does not hide the changes that were made in others
        if rows:
            write_rows(rows if as_json else [_as_text(row) for row in rows], COLUMNS, as_json=as_json)
    left = sum(row["outcome"] != "repaired" for row in rows)
    note(f"{len(rows) - left} partitions repaired, {left} to be repaired." if rows else "Nothing to repair.")
    if left:
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _release(store: ObjectStore, topics: Sequence[str]) -> int:
    """Release every partition that needs it; returns their number."""
    from stratalog.tier.care.repair import release_quarantine

    now_ms = SystemClock().wall_ms()
    return sum(
        release_quarantine(store, folder.identity(name), now_ms=now_ms) for folder, name in _folders(store, topics)
    )


def _folders(store: ObjectStore, topics: Sequence[str]) -> Iterator[tuple[PartitionFolder, str]]:
    """Every partition of the topics, of all if none is named, with its topic's whole name."""
    from stratalog.tier.care.verify import iter_folders

    return iter_folders(store, topics)


def _plans(
    store: ObjectStore, topics: Sequence[str], grace_ms: int, readers: ThreadPoolExecutor, *, deep: bool
) -> Iterator[_Looked]:
    from stratalog.tier.bucket.walk import iter_clusters, read_topic_document
    from stratalog.tier.care.repair_plan import plan_repair
    from stratalog.tier.care.verify_partition import VerifyOptions

    incarnations = {cluster.cluster_id: cluster.incarnation for cluster in iter_clusters(store)}
    highest = max(incarnations.values(), default=0)
    options = VerifyOptions(SystemClock().wall_ms(), grace_ms, deep)
    for topic, folders in groupby(_folders(store, topics), lambda found: found[0].topic):
        # That of another cluster in this bucket would fence the leaders of this one for good.
        incarnation = max(incarnations.get(read_topic_document(store, topic).cluster_id, highest), 0)
        for folder, name in folders:
            again = partial(plan_repair, store, folder, name, options, readers=readers, incarnation=incarnation)
            if (plan := again()) is not None:
                yield _Looked(plan, again)


def _carry_out(store: ObjectStore, looked: _Looked, how: _How) -> tuple[RepairPlan, str]:
    """The last plan, and its outcome in words: one partition that changes all the time holds up no other."""
    from stratalog.tier.care.repair import RepairRefused, apply_repair, check_repair
    from stratalog.tier.stores.store import StoreError

    plan, again = looked
    overtaken = ""
    for _ in range(_ATTEMPTS):
        try:
            if not how.apply:
                check_repair(plan, takeover=how.takeover, accept_loss=how.accept_loss)
                return plan, "planned"
            now_ms = SystemClock().wall_ms()
            apply_repair(
                store, plan, uuid=os.urandom(16), now_ms=now_ms, takeover=how.takeover, accept_loss=how.accept_loss
            )
        except RepairRefused as error:
            note(str(error))
            return plan, "refused"
        except Retriable as error:
            if isinstance(error, StoreError):
                raise
            overtaken = str(error)
        else:
            return plan, "repaired"
        if (anew := again()) is None:  # the other writer has repaired it
            return plan, "repaired"
        plan = anew
    note(overtaken)
    return plan, "overtaken"


def _row(plan: RepairPlan, outcome: str) -> dict[str, Any]:
    entries = plan.chain.entries
    return {
        "topic": plan.partition.topic,
        "partition": plan.partition.partition,
        "kinds": sorted({str(one.kind) for one in plan.anomalies}),
        "source": plan.source,
        "start": entries[0].base if entries else None,
        "end": entries[-1].end if entries else None,
        "objects": len(entries),
        "added": len(plan.added),
        "left_out": len(plan.dropped),
        "lost": [list(each) for each in plan.lost],
        "outcome": outcome,
    }


def _as_text(row: dict[str, Any]) -> dict[str, Any]:
    lost = ",".join(f"[{start},{end})" for start, end in row["lost"])
    return {**row, "lost": lost or None}
