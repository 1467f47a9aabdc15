"""Model checks of the shipped plan over the shipped manifest transitions (rules 1 to 4 and 6).

Two leaderships run their plans against one manifest: A under epoch 1, and B, elected at any moment, under epoch 2. A
is never told. Each request may be carried out with its reply lost, or be sent and land any time later. Where nothing
more can happen, everything must have been archived, read back and released for eviction by the last leader.

With ``deletes`` the records below offset 1 are deleted at any moment. A has a segment that ends there, B has none.
"""

from __future__ import annotations

import copy
import inspect
from itertools import pairwise
from typing import ClassVar, NamedTuple

import pytest

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.lifecycle import RangeEvent
from stratalog.tier.manifests.manifest import (
    Claimant,
    Manifest,
    NotAtRemoteEnd,
    Uploaded,
    check_claim,
    claim,
    commit,
    set_log_start,
)
from stratalog.tier.planning import plan, planned_range
from stratalog.tier.planning.plan import ArchivePlan, Phase, PlanSettings
from stratalog.tier.planning.plan_events import (
    Claimed,
    ClaimFailed,
    CommitDone,
    CommitFailed,
    EvictBelow,
    FencedOut,
    Progress,
    ReadBackDone,
    ReadBackFailed,
    RemoteEndMoved,
    Sealed,
    SendClaim,
    SendCommit,
    SendReadBack,
    SendUpload,
    StandDown,
    Tick,
    UploadDone,
    UploadFailed,
)
from stratalog.tier.stores.backoff import BackoffSettings
from stratalog.wire.errors import Fenced, Invalid

ROLLS = {"A": (0, 1, 2), "B": (0, 2)}
STABLE = 2
CLAIMANTS = {"A": Claimant(0, 1, bytes([1] * 16)), "B": Claimant(0, 2, bytes([2] * 16))}


class MoveLogStart(NamedTuple):
    """The request that follows deleted records: the archive goes on at ``resume_at`` if it has not come so far."""

    resume_at: int


class Leader:
    """A plan with the requests it has out; compared by what decides its future."""

    def __init__(self, plan, requests=(), evictable=0, limit=STABLE):
        self.plan, self.requests, self.evictable, self.limit = plan, requests, evictable, limit
        ranges = tuple((r.base, r.end, r.state, r.attempt) for r in (*plan._ranges, *plan._archived))
        steps = (plan._claim.busy, plan._commit.busy, plan._read_back.busy)
        where = (plan.phase, plan.remote_end, plan.verified_end, plan._attempts, plan._limit, plan._resume_at)
        self.key = (where, steps, ranges, requests, evictable, limit)

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def fed(self, event, answered=None):
        """The leader after an event, None if it tells the plan nothing; ``answered`` is the request no longer out."""
        plan = copy.deepcopy(self.plan)
        requests = tuple(r for r in self.requests if r is not answered)
        evictable = self.evictable
        for action in plan.step(event, 0) if event is not None else ():
            if isinstance(action, EvictBelow):
                evictable = action.offset
            elif not isinstance(action, StandDown):
                requests += (action,)
        return Leader(plan, requests, evictable, self.limit)

    def is_due(self, manifest):
        """Whether the manifest's log start has to be moved, as the leader's next look at its log tells."""
        behind = manifest.log_start_offset < 1 or self.plan.remote_end < self.plan._resume_at
        return self.plan.phase is Phase.HELD and behind and not any(isinstance(r, MoveLogStart) for r in self.requests)


class State(NamedTuple):
    manifest: int
    leaders: tuple  # A and B; B is None before its election
    flying: frozenset
    faults: int
    deleted: bool = False


class ForwardPlan(ArchivePlan):
    """Copies everything that is sealed, stable or not."""

    def _on_progress(self, event, _):
        self._limit = max(event.high_watermark, event.last_stable_offset, event.flushed_offset)
        return []

    _HANDLERS: ClassVar = {**ArchivePlan._HANDLERS, Progress: _on_progress}


class TrustingPlan(ArchivePlan):
    """Takes a commit whose reply was lost for done."""

    def _on_commit_failed(self, event, now_ms):
        end = max(r.end for r in self._ranges if r.state.value == "uploaded")
        return [*self._on_commit_done(CommitDone(end), now_ms), EvictBelow(end)]

    _HANDLERS: ClassVar = {**ArchivePlan._HANDLERS, CommitFailed: _on_commit_failed}


class Plans:
    """The model. ``kind`` is the plan that runs."""

    def __init__(self, tools, kind=ArchivePlan, *, faults=1, stable=STABLE, deletes=False):
        self.tools, self.kind, self.stable, self.deletes = tools, kind, stable, deletes
        empty = tools.number(Manifest(tools.PARTITION))
        self.initial = State(empty, (self.elected("A"), None), frozenset(), faults)
        self.answers = {}

    def check(self):
        """Search it."""
        return self.tools.search(self.initial, self.successors, self.violation)

    def elected(self, name, *, deleted=False):
        settings = PlanSettings(uploads_max=2, backoff=BackoffSettings(0, 0))
        leader = Leader(self.kind(settings, local_start=0))
        borders = ROLLS[name]
        for base, end in pairwise(borders):
            leader = leader.fed(Sealed(base, end))
        return leader.fed(self.progress(name, deleted=deleted))

    def progress(self, name, *, deleted):
        """The limits; B's only segment holds the log start, so that it goes on before it."""
        return Progress(STABLE, self.stable, STABLE, resume_at=int(deleted and name == "A"))

    def entry(self, name, ref):
        epoch = CLAIMANTS[name].leader_epoch
        uuid = bytes([epoch, ref.base, ref.end, ref.attempt] + [0] * 12)
        location = self.tools.PARTITION.segment_key(ref.base, ref.end, epoch, uuid)
        return Entry(uuid, ref.base, ref.end, epoch, location, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1)

    # The requests, by the shipped transitions.

    def answer(self, number, name, request):
        """``(manifest afterwards, event)`` of a request that is carried out now."""
        key = number, name, request
        if key not in self.answers:
            self.answers[key] = self._answer(self.tools.manifest(number), number, name, request)
        return self.answers[key]

    def _answer(self, manifest, number, name, request):
        us = CLAIMANTS[name]
        if isinstance(request, SendUpload):
            return number, UploadDone(request.ref)
        try:
            if isinstance(request, SendClaim):
                after = claim(manifest, us, now_ms=0)
                return self.numbered(manifest, after, number), Claimed(after.remote_end)
            if isinstance(request, SendCommit):
                uploads = [Uploaded(self.entry(name, ref), us) for ref in request.refs]
                after = commit(manifest, us, uploads, now_ms=0)
                return self.numbered(manifest, after, number), CommitDone(after.remote_end)
            if isinstance(request, MoveLogStart):
                after = set_log_start(manifest, us, 1, now_ms=0, resume_at=request.resume_at, reason="r")
                return self.numbered(manifest, after, number), RemoteEndMoved(after.remote_end)
            check_claim(manifest, us)
            return number, ReadBackDone(min(manifest.remote_end, request.end))
        except Fenced as error:
            return number, FencedOut(type(error).__name__)
        except NotAtRemoteEnd as error:
            return number, RemoteEndMoved(error.remote_end)
        except Invalid:
            return number, self.failure(request)

    def numbered(self, manifest, after, number):
        return number if after is manifest else self.tools.number(after)

    @staticmethod
    def failure(request):
        """The answer for a leader when no reply comes."""
        match request:
            case SendClaim():
                return ClaimFailed(0.0)
            case SendUpload():
                return UploadFailed(request.ref, 0.0)
            case SendCommit():
                return CommitFailed(0.0)
            case MoveLogStart():
                return None
        assert isinstance(request, SendReadBack)
        return ReadBackFailed(0.0)

    # Possible events.

    def successors(self, state):
        for before, after in state.flying:
            manifest = after if before == state.manifest else state.manifest
            yield "a delayed swap arrives", state._replace(manifest=manifest, flying=state.flying - {(before, after)})
        if state.leaders[1] is None:
            yield "B is elected", state._replace(leaders=(state.leaders[0], self.elected("B", deleted=state.deleted)))
        if self.deletes and not state.deleted:
            heard = [
                one and one.fed(self.progress(name, deleted=True))
                for name, one in zip("AB", state.leaders, strict=True)
            ]
            yield "the first record is deleted", state._replace(leaders=tuple(heard), deleted=True)
        for index, name in enumerate("AB"):
            leader = state.leaders[index]
            if leader and state.deleted and leader.is_due(self.tools.manifest(state.manifest)):
                request = MoveLogStart(leader.plan._resume_at)
                asking = Leader(leader.plan, (*leader.requests, request), leader.evictable, leader.limit)
                yield (
                    f"{name} looks",
                    state._replace(leaders=(state.leaders[0], asking) if index else (asking, state.leaders[1])),
                )
            for request in leader.requests if leader else ():
                yield from self.outcomes(state, index, name, leader, request)

    def outcomes(self, state, index, name, leader, request):
        after, event = self.answer(state.manifest, name, request)

        def told(what):
            if isinstance(request, MoveLogStart) and getattr(what, "remote_end", 0) <= leader.plan.remote_end:
                what = what if isinstance(what, FencedOut) else None
            changed = leader.fed(what, request)
            return (state.leaders[0], changed) if index else (changed, state.leaders[1])

        said = f"{name}: {type(request).__name__} {request}"
        yield f"{said}: {event}", state._replace(manifest=after, leaders=told(event))
        if state.faults:
            silence = told(self.failure(request))
            fewer = state._replace(faults=state.faults - 1, leaders=silence)
            yield f"{said}: done, reply lost", fewer._replace(manifest=after)
            if after != state.manifest:
                flying = state.flying | {(state.manifest, after)}
                yield f"{said}: no reply, in flight", fewer._replace(flying=flying)

    # Forbidden states.

    def violation(self, state):
        if self.tools.fault(state.manifest):
            return self.tools.fault(state.manifest)
        manifest = self.tools.manifest(state.manifest)
        if manifest.remote_end > self.stable:
            return f"offset {self.stable} was archived before it was stable"
        for name, leader in zip("AB", state.leaders, strict=True):
            if leader and leader.evictable > manifest.remote_end:
                return f"{name} may evict below {leader.evictable}, the archive ends at {manifest.remote_end}"
        if any(entry.end <= manifest.log_start_offset for entry in manifest.entries):
            return "an entry is live below the log start"
        if not state.leaders[1] or (state.deleted and state.leaders[1].is_due(manifest)):
            return None
        if not state.flying and not any(leader.requests for leader in state.leaders):
            done = max(border for border in ROLLS["B"] if border <= self.stable)
            if done and (manifest.remote_end, state.leaders[1].evictable) != (done, done):
                return f"all is quiet, but the archive ends at {manifest.remote_end}"
        return None


def check_plans(model_tools, **options):
    """No counterexample."""
    found = Plans(model_tools, **options).check()
    assert found.trace is None, "\n".join(found.trace)
    assert found.states > 20


@pytest.mark.parametrize(
    ("faults", "stable"),
    [pytest.param(0, 2, marks=pytest.mark.slow), (1, 2), pytest.param(1, 1, marks=pytest.mark.slow)],
)
def test_two_leaders_plans_archive_everything_and_lose_nothing(model_tools, faults, stable):
    """Every order of their requests, lost replies and late swaps is tried; at the end everything is done."""
    check_plans(model_tools, faults=faults, stable=stable)


@pytest.mark.parametrize("stable", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_records_that_are_deleted_meanwhile_hold_no_plan_up(model_tools, stable):
    """Whenever that happens: what lies below the log start is not live, and all that is left is archived in the end."""
    check_plans(model_tools, faults=1, stable=stable, deletes=True)


@pytest.mark.slow
@pytest.mark.parametrize("faults", [2, 3])
def test_two_leaders_plans_survive_more_faults(model_tools, faults):
    """The same with more lost replies."""
    check_plans(model_tools, faults=faults)


@pytest.mark.parametrize(("kind", "options"), [(TrustingPlan, {}), (ForwardPlan, {"stable": 1})])
def test_a_plan_without_a_rule_is_found_out(model_tools, kind, options):
    """Evicting on a commit without reading it back, and copying what is not stable, both end in a counterexample."""
    assert Plans(model_tools, kind, **options).check().trace


def test_every_range_event_is_used_by_the_plan_or_reserved():
    """The table has no event without a sender: those of removal belong to a later release."""
    source = inspect.getsource(plan) + inspect.getsource(planned_range)
    unused = {event for event in RangeEvent if f"RangeEvent.{event.name}" not in source}
    assert unused == {RangeEvent.DISCARD, RangeEvent.DELETE}


def test_a_tick_alone_changes_nothing(model_tools):
    """Time by itself neither claims nor evicts."""
    leader = Plans(model_tools).elected("A")
    assert leader.fed(Tick()) == leader
