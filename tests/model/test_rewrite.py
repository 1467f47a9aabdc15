"""Model check of rewriting jobs against retention, other jobs, expiry, claims and garbage collection (rules 5 and 9).

The transitions (`tier.manifests.jobs`, `tier.manifests.manifest`) and the collector's judgement (`tier.manifests.garbage`) are the shipped
ones; each rule is then dropped and the search must find what goes wrong.

Entry e0 holds the record x, e1 holds y. The job M merges both, E erases x from e0; retention may trash e0, a new leader
may claim, another job may strike a job off because it seems dead, and tiering may be switched off, which trashes all. Every object is older than the grace once it has passed.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from stratalog.tier.bucket.trash import TIERING_OFF, trash_archive
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.garbage import Verdict, judge
from stratalog.tier.manifests.jobs import MERGE_KIND, end_job, list_job, swap
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit, set_log_start
from stratalog.tier.manifests.parts import Job
from stratalog.tier.stores.store import ObjectInfo

LEADER = Claimant(0, 1, bytes([1] * 16))
NEXT = Claimant(0, 2, bytes([2] * 16))
RANGES = {"M": (0, 2, ""), "E": (0, 1, "x")}
RECORDS = "xy"
OLD_MS, YOUNG_MS, NOW_MS = 0, 10**12, 10**12


class Progress(NamedTuple):
    """One job: ``phase`` idle, listed, put, done; ``inputs`` are live entries that it has read."""

    phase: str = "idle"
    inputs: tuple = ()
    output: Entry | None = None


class State(NamedTuple):
    manifest: int
    objects: frozenset  # (key, records)
    old: bool  # the grace has passed for everything there is
    jobs: tuple
    dead: frozenset  # records that retention or an erasure removed for good
    collecting: tuple  # () ("keys", keys) or ("manifest", number)
    flying: frozenset
    delays: int
    collections: int
    retentions: int
    expiries: int
    claims: int
    switches: int


class Rewriting:
    """The sub-model. ``dropped`` is the rule left out."""

    def __init__(
        self, tools, dropped="", *, names="ME", delays=1, collections=1, retentions=1, expiries=1, claims=1, switches=1
    ):
        self.tools, self.dropped, self.names = tools, dropped, names
        entries = [self.made(number, number + 1, bytes([number] * 16)) for number in (0, 1)]
        manifest = claim(Manifest(tools.PARTITION), LEADER, now_ms=0)
        manifest = commit(manifest, LEADER, [Uploaded(entry, LEADER) for entry in entries], now_ms=0)
        objects = frozenset((entry.key, record) for entry, record in zip(entries, RECORDS, strict=True))
        self.initial = State(
            tools.number(manifest), objects, False, tuple(Progress() for _ in names), frozenset(), (), frozenset(),
            delays, collections, retentions, expiries, claims, switches,
        )  # fmt: skip

    def made(self, base, end, uuid):
        key = self.tools.PARTITION.segment_key(base, end, LEADER.leader_epoch, uuid)
        return Entry(uuid, base, end, 1, key, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, epochs=(LeaderEpoch(1, base),))

    def check(self):
        """Search it."""
        return self.tools.search(self.initial, self.successors, self.violation)

    # The shipped transitions, and what is left of them without a rule.

    @staticmethod
    def job(name, inputs):
        return Job(name.encode() * 16, MERGE_KIND if name == "M" else "erase", 0, 0, tuple(one.uuid for one in inputs))

    def _list(self, manifest, name, inputs):
        return list_job(manifest, self.job(name, inputs), now_ms=0)

    def _swap(self, manifest, name, inputs, output):
        if self.dropped == "a swap needs its listing":
            others = tuple(job for job in manifest.jobs if job.uuid != output.uuid)
            manifest = replace(manifest, jobs=(*others, self.job(name, inputs)))
        if self.dropped == "its inputs are live" and any(job.uuid == output.uuid for job in manifest.jobs):
            kept = tuple(one for one in manifest.entries if one.base >= output.end)
            start = min(manifest.log_start_offset, output.base)
            jobs = tuple(job for job in manifest.jobs if job.uuid != output.uuid)
            return replace(manifest, seq=manifest.seq + 1, entries=(output, *kept), log_start_offset=start, jobs=jobs)
        return swap(manifest, output.uuid, inputs, output, now_ms=0)

    @staticmethod
    def _end(manifest, uuid):
        return end_job(manifest, uuid, now_ms=0)

    @staticmethod
    def _claim(manifest):
        return claim(manifest, NEXT, now_ms=0)

    @staticmethod
    def _retain(manifest):
        return set_log_start(manifest, manifest.claimant, 1, now_ms=0, reason="retention")

    def _switch_off(self, manifest):
        off = trash_archive(manifest, manifest.claimant, now_ms=0, reason=TIERING_OFF)
        return replace(off, jobs=manifest.jobs) if self.dropped == "merges end with the archive" else off

    def garbage(self, number, keys, *, old, ignored=b""):
        """Those ``keys`` that the shipped collector would remove."""
        manifest = self.tools.manifest(number)
        jobs = () if self.dropped == "GC knows jobs" else tuple(job for job in manifest.jobs if job.uuid != ignored)
        named = {entry.key for entry in manifest.entries} | {item.key for item in manifest.trash}
        for key in keys:
            info = ObjectInfo(key, 1, "", OLD_MS if old else YOUNG_MS)
            verdict = judge(replace(manifest, jobs=jobs), named, info, now_ms=NOW_MS, grace_ms=1)
            if verdict is Verdict.GARBAGE:
                yield key

    # Possible events.

    def successors(self, state):
        for request in state.flying:
            yield from self.landing(state._replace(flying=state.flying - {request}), request)
        if not state.old:
            yield "the grace passes", state._replace(old=True)
        if state.claims:
            yield (
                "a new leader claims",
                state._replace(manifest=self.tools.step(self._claim, state.manifest), claims=state.claims - 1),
            )
        if state.retentions and (after := self.tools.step(self._retain, state.manifest)) is not None:
            yield "retention trashes e0", state._replace(manifest=after, retentions=0, dead=state.dead | {"x"})
        if state.switches:
            off = self.tools.step(self._switch_off, state.manifest)
            yield "tiering is switched off", state._replace(manifest=off, switches=0, dead=frozenset(RECORDS))
        for index, name in enumerate(self.names):
            yield from self.worker(state, index, name)
        if state.expiries:
            yield from self.expiry(state)
        yield from self.collector(state)

    def landing(self, state, request):
        kind, *what = request
        if kind == "delete":
            kept = frozenset(one for one in state.objects if one[0] != what[0])
            yield f"DELETE {what[0]} lands", state._replace(objects=kept)
            return
        before, after, index = what
        if state.manifest == before or self.dropped == "compare and swap":
            yield "a delayed swap lands", self.swapped(state, index, after)
        else:
            yield "a delayed swap is refused", state

    def swapped(self, state, index, after):
        erased = set(RANGES[self.names[index]][2])
        return state._replace(manifest=after, dead=state.dead | erased)

    def expiry(self, state):
        for job in self.tools.manifest(state.manifest).jobs:
            if self.dropped != "a job ends by a change":
                after = self.tools.step(self._end, state.manifest, job.uuid)
                yield "a job is struck off", state._replace(manifest=after, expiries=state.expiries - 1)
            elif not state.collecting:
                yield (
                    "a job expires by the clock",
                    state._replace(collecting=("expired", job.uuid), expiries=state.expiries - 1),
                )

    def worker(self, state, index, name):
        base, end, erased = RANGES[name]
        progress = state.jobs[index]
        if progress.phase == "idle":
            live = self.tools.manifest(state.manifest).entries
            inputs = tuple(one for one in live if one.base >= base and one.end <= end)
            if inputs and (inputs[0].base, inputs[-1].end) == (base, end):
                listed = self.tools.step(self._list, state.manifest, name, inputs)
                if self.dropped == "listed before it writes":
                    listed = state.manifest
                if listed is not None:
                    going = self.at(state, index, Progress("listed", inputs))
                    yield f"{name} lists itself and reads", going._replace(manifest=listed)
        elif progress.phase == "listed":
            read = dict(state.objects)
            kept = "".join(c for one in progress.inputs for c in read.get(one.key, "") if c not in erased)
            output = self.made(base, end, name.encode() * 16)
            written = state._replace(objects=state.objects | {(output.key, kept)}, old=False)
            yield f"{name} writes its object", self.at(written, index, Progress("put", progress.inputs, output))
        elif progress.phase == "put":
            yield from self.swapping(state, index, name)

    def swapping(self, state, index, name):
        progress = state.jobs[index]
        if self.dropped == "listed before it writes":
            listed = self.tools.step(self._list, state.manifest, name, progress.inputs)
            if listed is not None:
                yield f"{name} lists itself late", state._replace(manifest=listed)
        after = self.tools.step(self._swap, state.manifest, name, progress.inputs, progress.output)
        if after is None:
            return
        yield f"{name} swaps", self.swapped(self.at(state, index, Progress("done")), index, after)
        if state.delays:
            request = ("swap", state.manifest, after, index)
            yield f"{name} swaps, no answer", state._replace(flying=state.flying | {request}, delays=state.delays - 1)

    @staticmethod
    def at(state, index, progress):
        return state._replace(jobs=(*state.jobs[:index], progress, *state.jobs[index + 1 :]))

    def collector(self, state):
        """Lists, reads the manifest, then sends a DELETE that lands any time later."""
        keys = tuple(sorted(key for key, _ in state.objects))
        if state.collections and not state.collecting:
            if self.dropped == "GC lists first":
                found = ("manifest", state.manifest)
                yield "GC reads the manifest", state._replace(collecting=found, collections=0)
            elif state.old:
                yield "GC lists", state._replace(collecting=("keys", keys), collections=0)
        if not state.collecting:
            return
        kind, what = state.collecting
        number = what if kind == "manifest" else state.manifest
        listed = what if kind == "keys" else keys
        old = kind == "keys" or state.old or self.dropped == "the grace"
        for key in self.garbage(number, listed, old=old, ignored=what if kind == "expired" else b""):
            yield f"GC sends DELETE {key}", state._replace(collecting=(), flying=state.flying | {("delete", key)})

    # Forbidden states.

    def violation(self, state):
        if self.tools.fault(state.manifest):
            return self.tools.fault(state.manifest)
        stored = dict(state.objects)
        manifest = self.tools.manifest(state.manifest)
        if manifest.deleted_ms >= 0 and any(job.kind == MERGE_KIND for job in manifest.jobs):
            return "a merge that cannot be swapped in holds the trash of an archive that was switched off"
        live = ""
        for entry in manifest.entries:
            if entry.key not in stored:
                return f"the live entry {entry.key} has no object"
            live += "".join(one for one in stored[entry.key] if RECORDS.index(one) >= manifest.log_start_offset)
        if state.dead & set(live):
            return "a record is back from the dead"
        if set(RECORDS) - state.dead - set(live):
            return "a record is lost"
        return "a record is there twice" if len(live) != len(set(live)) else None


BOUNDS = {"two jobs": {}, "two delayed requests": {"delays": 2}}
BY_DEFAULT = "two jobs"
"""The bound of the default run; ``make model`` checks all."""
WITHOUT = {
    "compare and swap": {},
    "a swap needs its listing": {},
    "its inputs are live": {},
    "listed before it writes": {},
    "a job ends by a change": {},
    "merges end with the archive": {},
    "GC knows jobs": {},
    "GC lists first": {},
}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == BY_DEFAULT else pytest.mark.slow) for one in BOUNDS]
)
def test_a_rewrite_loses_doubles_and_revives_nothing(model_tools, name):
    """Every reachable state within these bounds: live entries have objects, each live record is there once."""
    found = Rewriting(model_tools, **BOUNDS[name]).check()
    assert found.trace is None, "\n".join(found.trace)
    assert found.states > 1000


@pytest.mark.parametrize("rule", WITHOUT)
def test_each_rule_of_rewriting_is_needed(model_tools, rule):
    """Without it there is a shortest story of what goes wrong."""
    found = Rewriting(model_tools, rule, **WITHOUT[rule]).check()
    assert found.trace, f"nothing goes wrong without {rule!r}: the model does not see what the rule prevents"
