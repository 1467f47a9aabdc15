"""Model check of compactions of an archive against each other, merges, retention and the local cleaner (rule 9).

The transitions (`tier.manifests.runs`, `tier.manifests.jobs`, `tier.manifests.manifest`) are the shipped ones; rules are then dropped
and the search must find how a deleted key comes back.

Entry e0 holds the value v of a key, e1 its tombstone T; every horizon is over. A run looks at what is there, rewrites
object by object in any order, and ends; another one may take over at any time. The local log begins with T: it is whole,
cleaned of T, or evicted. A reader takes from the archive what is not local.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.jobs import list_job, swap
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit, set_log_start
from stratalog.tier.manifests.parts import Job
from stratalog.tier.manifests.runs import begin_run, end_run, is_run_listed, list_part, swap_part

LEADER = Claimant(0, 1, bytes([1] * 16))
END = 2
TOMBSTONE_OFFSET = 1


class Group(NamedTuple):
    """One object of a run: ``records`` as its keys were read, ``done`` is the object that came of it."""

    base: int
    end: int
    records: str
    kept: str
    done: bytes = b""


class Run(NamedTuple):
    """One run, before it begins, while it works (``groups``), or when it is over."""

    phase: str = "idle"
    groups: tuple[Group, ...] = ()


class State(NamedTuple):
    manifest: int
    contents: frozenset  # (uuid, records)
    runs: tuple
    local: str = "whole"
    merges: int = 1
    retentions: int = 1


class Compacting:
    """The sub-model. ``dropped`` is the rule left out."""

    def __init__(self, tools, dropped="", *, runs=3):
        self.tools, self.dropped = tools, dropped
        entries = [self.made(number, number + 1, bytes([number] * 16)) for number in (0, 1)]
        manifest = claim(Manifest(tools.PARTITION), LEADER, now_ms=0)
        manifest = commit(manifest, LEADER, [Uploaded(entry, LEADER) for entry in entries], now_ms=0)
        contents = frozenset({(entries[0].uuid, "v"), (entries[1].uuid, "T")})
        self.initial = State(tools.number(manifest), contents, tuple(Run() for _ in range(runs)))

    def made(self, base, end, uuid):
        key = self.tools.PARTITION.segment_key(base, end, LEADER.leader_epoch, uuid)
        return Entry(uuid, base, end, 1, key, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, epochs=(LeaderEpoch(1, base),))

    def check(self):
        """Search it."""
        return self.tools.search(self.initial, self.successors, self.violation)

    # The shipped transitions.

    @staticmethod
    def _begin(manifest, uuid):
        return begin_run(manifest, Job(uuid, "compact", 0, 0), now_ms=0, take_over=True)

    def _rewrite(self, manifest, run_uuid, uuid, base, end):
        inputs = [one for one in manifest.entries if one.base >= base and one.end <= end]
        part = Job(uuid, "compact", 0, 0, tuple(one.uuid for one in inputs))
        listed = list_part(manifest, run_uuid, part, now_ms=0)
        return swap_part(listed, uuid, inputs, self.made(base, end, uuid), run_uuid=run_uuid, now_ms=0)

    @staticmethod
    def _end(manifest, uuid, clean):
        return end_run(manifest, uuid, now_ms=0, clean_offset=END, live=manifest.entries, clean=clean)

    def _merge(self, manifest):
        if is_run_listed(manifest) or len(manifest.entries) < 2:
            return manifest
        job = Job(b"M" * 16, "merge", 0, 0, tuple(one.uuid for one in manifest.entries))
        output = self.made(0, END, job.uuid)
        return swap(list_job(manifest, job, now_ms=0), job.uuid, manifest.entries, output, now_ms=0)

    @staticmethod
    def _retain(manifest):
        return set_log_start(manifest, LEADER, 1, now_ms=0, reason="retention")

    # Possible events.

    def successors(self, state):
        manifest = self.tools.manifest(state.manifest)
        if state.local == "whole" and (manifest.archive_clean_offset >= END or self.dropped == "the cleaner asks"):
            yield "the cleaner drops T", state._replace(local="cleaned")
        if state.local != "evicted":
            yield "the local log is evicted", state._replace(local="evicted")
        if state.retentions and (after := self.tools.step(self._retain, state.manifest)) is not None:
            yield "retention", state._replace(manifest=after, retentions=0)
        if state.merges and (after := self.tools.step(self._merge, state.manifest)) is not None:
            held = "".join(record for _, record in self.live(state))
            contents = state.contents | {(b"M" * 16, held)}
            yield "a merge", state._replace(manifest=after, contents=contents, merges=0)
        for number, run in enumerate(state.runs):
            yield from self.run(state, number, run)

    def live(self, state):
        """Each live entry and its records."""
        stored = dict(state.contents)
        return [(entry, stored[entry.uuid]) for entry in self.tools.manifest(state.manifest).entries]

    def run(self, state, number, run):
        uuid = bytes([100 + number] * 16)
        if run.phase == "idle":
            after = self.tools.step(self._begin, state.manifest, uuid)
            if after is not None:
                yield f"run {number} begins", self.at(state._replace(manifest=after), number, self.planned(state))
        elif run.phase == "working":
            for index, group in enumerate(run.groups):
                if not group.done:
                    yield from self.rewriting(state, number, index, group, uuid)
            clean = frozenset(group.done for group in run.groups)
            if all(clean) or self.dropped == "every group is done":
                if self.dropped == "every group is done":
                    clean = frozenset(entry.uuid for entry, _ in self.live(state))
                after = self.tools.step(self._end, state.manifest, uuid, clean)
                if after is not None:
                    yield f"run {number} ends", self.at(state._replace(manifest=after), number, Run("over"))

    def planned(self, state):
        """A run's read when it is listed: only the newest of two records stays, and T only until it may go."""
        live = self.live(state)
        newest = "T" if any("T" in records for _, records in live) else "v"
        below = self.tools.manifest(state.manifest).archive_clean_offset
        if self.dropped == "below an earlier end":
            below = END
        if newest == "T" and below > TOMBSTONE_OFFSET:
            newest = ""
        return Run(
            "working",
            tuple(
                Group(entry.base, entry.end, records, "".join(set(records) & set(newest))) for entry, records in live
            ),
        )

    def rewriting(self, state, number, index, group, uuid):
        there = [(entry, records) for entry, records in self.live(state) if (entry.base, entry.end) == group[:2]]
        if not there or there[0][1] != group.records:
            return  # it finds other records than were read, or other objects: it fails
        if group.kept == group.records:
            after, done, contents = state.manifest, there[0][0].uuid, state.contents
        else:
            done = bytes([100 + number, 1 + index] * 8)
            after = self.tools.step(self._rewrite, state.manifest, uuid, done, group.base, group.end)
            if after is None:
                return
            contents = state.contents | {(done, group.kept)}
        groups = (
            *state.runs[number].groups[:index],
            group._replace(done=done),
            *state.runs[number].groups[index + 1 :],
        )
        changed = state._replace(manifest=after, contents=contents)
        yield f"run {number} is done with [{group.base}, {group.end})", self.at(changed, number, Run("working", groups))

    @staticmethod
    def at(state, number, run):
        return state._replace(runs=(*state.runs[:number], run, *state.runs[number + 1 :]))

    # Forbidden states.

    def violation(self, state):
        if self.tools.fault(state.manifest):
            return self.tools.fault(state.manifest)
        start = self.tools.manifest(state.manifest).log_start_offset
        archived = "".join(records for _, records in self.live(state))
        if "v" not in archived or start > 0:
            return None
        if state.local == "cleaned":
            return "a reader takes v from the archive, and T is gone from the local log"
        if state.local == "evicted" and "T" not in archived:
            return "the archive holds v, and T is gone"
        return None


WITHOUT = ("below an earlier end", "the cleaner asks", "every group is done")


@pytest.mark.slow
def test_no_deleted_key_comes_back(model_tools):
    """Three runs that take over from each other, a merge, retention, eviction and the local cleaner, in every order."""
    found = Compacting(model_tools).check()
    assert found.trace is None, "\n".join(found.trace)
    assert found.states > 1000


@pytest.mark.parametrize("rule", WITHOUT)
def test_each_rule_of_compaction_is_needed(model_tools, rule):
    """Without it there is a shortest story of what goes wrong."""
    found = Compacting(model_tools, rule).check()
    assert found.trace, f"nothing goes wrong without {rule!r}: the model does not see what the rule prevents"
