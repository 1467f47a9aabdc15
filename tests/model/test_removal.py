"""Model check of removal: retention, trash, leases with skewed clocks, short readers, cuts, jobs (rules 6 and 9).

The transitions and the questions asked before an object goes are the shipped ones (`tier.bucket.trash`, `tier.manifests.leases`,
`tier.manifests.pins`, `tier.manifests.jobs`). Each rule is then dropped and the search must find what goes wrong.

Two entries, k0 and k1. The configuration expires k0 until it is changed to keep everything. A is a leader that may
have lost the controller, and with it the news; B has not. Time passes in ticks as long as clocks may lie apart; the
grace is one tick, a lease two or three, a session one.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from stratalog.tier.bucket.trash import RETENTION, Retention, date_trash, forget, leaving, unleased
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.jobs import list_job
from stratalog.tier.manifests.leases import SKEW_MS, Lease, LeaseExpired, renewed
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit, set_log_start
from stratalog.tier.manifests.parts import Job, Pin
from stratalog.tier.manifests.pins import pin

TICK = SKEW_MS
GRACE = TICK
LEADER = Claimant(0, 1, bytes([1] * 16))
KEEPING = Retention(-1, -1, 0)
EXPIRING = Retention(0, -1, 0)


class State(NamedTuple):
    time: int
    manifest: int
    objects: frozenset
    keep_since: int  # when the configuration became "keep"; -1: not yet
    lost_at: int  # when A lost the controller; -1: in contact
    lease: Lease | None
    reader: tuple  # () ("leased", until) ("read", keys) ("reading", keys, until)
    short: tuple  # () or (keys, when): a read without a lease, shorter than the grace
    cut: tuple  # () or keys
    job: tuple  # () or keys
    deleter: tuple  # () ("trash", manifest, retention, time) ("leases", lease)
    flying: frozenset
    renewals: int
    delays: int
    wrong: str = ""


class Removal:
    """The sub-model. ``dropped`` is the rule left out."""

    def __init__(self, tools, dropped="", *, users=("reader", "short", "cut", "job"), ticks=5, lease=2, skew=0,
                 configured=True, delays=1):  # fmt: skip
        self.tools, self.dropped, self.users = tools, dropped, users
        self.ticks, self.lease, self.skew, self.configured = ticks, lease, skew, configured
        entries = [self.entry(0), self.entry(1)]
        manifest = claim(Manifest(tools.PARTITION), LEADER, now_ms=0)
        manifest = commit(manifest, LEADER, [Uploaded(entry, LEADER) for entry in entries], now_ms=0)
        self.keys = tuple(entry.key for entry in entries)
        self.initial = State(
            0, tools.number(manifest), frozenset(self.keys), -1, -1, None, (), (), (), (), (), frozenset(), 1, delays
        )

    def entry(self, number):
        uuid = bytes([number] * 16)
        key = self.tools.PARTITION.segment_key(number, number + 1, 1, uuid)
        return Entry(
            uuid, number, number + 1, 1, key, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, epochs=(LeaderEpoch(1, number),)
        )  # fmt: skip

    def check(self):
        """Search it."""
        return self.tools.search(self.initial, self.successors, self.violation)

    # The shipped transitions, and what is left of them without a rule.

    def _trash(self, manifest, now_ms):
        after = set_log_start(manifest, LEADER, 1, now_ms=now_ms, reason=RETENTION)
        if self.dropped == "dated by a later change" and after is not manifest:
            after = replace(after, trash=tuple(replace(item, since_ms=now_ms) for item in after.trash))
        return after

    @staticmethod
    def _date(manifest, now_ms):
        return date_trash(manifest, LEADER, now_ms=now_ms)

    @staticmethod
    def _forget(manifest, key):
        return forget(manifest, LEADER, [key], now_ms=0)

    @staticmethod
    def _pin(manifest):
        return pin(manifest, Pin("cut", 0, manifest.remote_end, manifest.log_start_offset), now_ms=0)

    @staticmethod
    def _list_job(manifest):
        inputs = tuple(entry.uuid for entry in manifest.entries)
        return list_job(manifest, Job(bytes([9] * 16), "merge", 0, 0, inputs), now_ms=0)

    def ripe(self, number, retention, lease, time):
        """Keys that a deleter may send a DELETE for: the shipped questions, in the shipped order."""
        manifest = self.tools.manifest(number)
        if self.dropped == "pins":
            manifest = replace(manifest, pins=())
        if self.dropped == "jobs":
            manifest = replace(manifest, jobs=())
        grace = -1 if self.dropped == "the grace" else GRACE
        judged = None if self.dropped == "judged again" else retention
        found = leaving(manifest, now_ms=time * TICK, grace_ms=grace, retention=judged)
        leases = [] if lease is None or self.dropped == "leases" else [lease]
        if self.dropped == "clock skew":
            leases = [
                replace(one, created_ms=one.created_ms + TICK, expires_ms=one.expires_ms - TICK) for one in leases
            ]
        return [item.key for item in unleased(found, leases, time * TICK)]

    # Possible events.

    def knows_keep(self, state, name):
        known = name == "B" or state.lost_at < 0 or state.lost_at >= state.keep_since
        return state.keep_since >= 0 and known

    def may_write(self, state, name):
        """Rule 6: out of contact for longer than a session, nothing is written."""
        return name == "B" or state.lost_at < 0 or state.time - state.lost_at <= 1 or self.dropped == "contact"

    def live(self, state):
        return tuple(entry.key for entry in self.tools.manifest(state.manifest).entries)

    def successors(self, state):
        yield from self.surroundings(state)
        for request in state.flying:
            yield from self.landing(state._replace(flying=state.flying - {request}), request)
        for name in "AB":
            if self.may_write(state, name):
                yield from self.leader(state, name)
        if "reader" in self.users:
            for clock in range(-self.skew, self.skew + 1):
                yield from self.reader(state, clock)
        yield from self.others(state)

    def surroundings(self, state):
        if state.time < self.ticks:
            yield f"time {state.time + 1}", state._replace(time=state.time + 1)
        if self.configured and state.keep_since < 0:
            yield "configured to keep all", state._replace(keep_since=state.time)
        if self.configured and state.lost_at < 0:
            yield "A loses the controller", state._replace(lost_at=state.time)

    def others(self, state):
        """A read without a lease, a cut, a job."""
        if "short" in self.users and not state.short:
            yield "a short read begins", state._replace(short=(self.live(state), state.time))
        if "cut" in self.users and not state.cut:
            after = self.tools.step(self._pin, state.manifest)
            if self.dropped == "cuts pin first":
                yield "a cut is written", state._replace(cut=self.live(state))
            elif after is not None:
                yield "a cut pins", state._replace(manifest=after, cut=self.live(state))
        if "job" in self.users and not state.job:
            after = self.tools.step(self._list_job, state.manifest)
            if after is not None:
                yield "a job is listed and reads", state._replace(manifest=after, job=self.live(state))

    def landing(self, state, request):
        kind, *what = request
        if kind == "delete":
            yield f"DELETE {what[0]} lands", state._replace(objects=state.objects - set(what))
            return
        before, after = what
        yield "a delayed change arrives", state._replace(manifest=after if state.manifest == before else state.manifest)

    def leader(self, state, name):
        now_ms = state.time * TICK
        if not self.knows_keep(state, name):
            yield from self.change(state, f"{name} trashes k0", self.tools.step(self._trash, state.manifest, now_ms))
        yield from self.change(state, f"{name} dates the trash", self.tools.step(self._date, state.manifest, now_ms))
        manifest = self.tools.manifest(state.manifest)
        for item in manifest.trash:
            if item.key not in state.objects:
                yield (
                    f"{name} forgets",
                    state._replace(manifest=self.tools.step(self._forget, state.manifest, item.key)),
                )
        retention = KEEPING if self.knows_keep(state, name) else EXPIRING
        if not state.deleter and self.dropped == "leases last":
            yield "the deleter lists the leases", state._replace(deleter=("leases", state.lease))
        elif not state.deleter and manifest.trash:
            yield f"{name} reads the trash", state._replace(deleter=("trash", state.manifest, retention, state.time))
        if not state.deleter:
            return
        if state.deleter[0] == "trash":
            _, number, judged, time = state.deleter
            keys = self.ripe(number, judged, state.lease, time)
        else:
            time = state.time
            keys = self.ripe(state.manifest, retention, state.deleter[1], time)
        for key in keys:
            late = 0 <= state.keep_since < time - 1
            wrong = "an object is deleted although the configuration keeps it" if late else ""
            flying = state.flying | {("delete", key)}
            yield f"{name} sends DELETE", state._replace(flying=flying, deleter=(), wrong=wrong)

    def change(self, state, label, after):
        if after is not None:
            yield label, state._replace(manifest=after)
            if state.delays:
                flying = state.flying | {("change", state.manifest, after)}
                yield f"{label}, no answer", state._replace(flying=flying, delays=state.delays - 1)

    def reader(self, state, clock):
        """A reader whose clock is ``clock`` ticks ahead; its own stop is counted from its start."""
        now, phase = (state.time + clock) * TICK, state.reader[0] if state.reader else ""
        fresh = Lease(bytes(16), now, now + self.lease * TICK)
        until = state.time + self.lease
        if not phase and self.dropped != "lease first":
            yield "the reader writes its lease", state._replace(lease=fresh, reader=("leased", until))
        if not phase and self.dropped == "lease first":
            yield "the reader reads the manifest", state._replace(reader=("read", self.live(state)))
        if phase == "read":
            yield "the reader writes its lease", state._replace(lease=fresh, reader=("reading", state.reader[1], until))
        if phase == "leased" and state.time < state.reader[1]:
            reader = ("reading", self.live(state), state.reader[1])
            yield "the reader reads the manifest", state._replace(reader=reader)
        if phase == "reading" and state.time < state.reader[2] and state.renewals:
            yield from self.renewal(state, now, until)

    def renewal(self, state, now, until):
        try:
            lease = renewed(state.lease, self.lease * TICK, now)
        except LeaseExpired:
            return
        if self.dropped == "renewing keeps the creation":
            lease = replace(lease, created_ms=now)
        reader = ("reading", state.reader[1], until)
        yield "the reader renews", state._replace(renewals=0, reader=reader, lease=lease)

    # Forbidden states.

    def violation(self, state):
        if state.wrong:
            return state.wrong
        if self.tools.fault(state.manifest):
            return self.tools.fault(state.manifest)
        needed = [("a live entry", self.live(state)), ("a cut", state.cut), ("a job", state.job)]
        if state.reader and state.reader[0] == "reading" and state.time < state.reader[2]:
            needed.append(("a reader with a lease", state.reader[1]))
        if state.short and state.time <= state.short[1] + 1:
            needed.append(("a short reader", state.short[0]))
        for who, keys in needed:
            if not state.objects.issuperset(keys):
                return f"{who} needs an object that is gone"
        return None


LEASES = {"users": ("reader",), "ticks": 6, "lease": 3, "configured": False}
BOUNDS = {
    "leases": LEASES,
    "leases, clocks apart": LEASES | {"skew": 1},
    "short readers": {"users": ("short",), "ticks": 4},
    "cuts": {"users": ("cut",), "ticks": 4},
    "jobs": {"users": ("job",), "ticks": 4},
    "a configuration that changes": {"users": ()},
}
BY_DEFAULT = "leases"
"""The bound of the default run; ``make model`` checks all."""
WITHOUT = {
    "lease first": LEASES,
    "leases": LEASES,
    "dated by a later change": LEASES,
    "leases last": LEASES,
    "renewing keeps the creation": LEASES,
    "clock skew": LEASES | {"skew": 1},
    "the grace": {"users": ("short",)},
    "pins": {"users": ("cut",)},
    "cuts pin first": {"users": ("cut",)},
    "jobs": {"users": ("job",)},
    "contact": {"users": ()},
    "judged again": {"users": ()},
}


@pytest.mark.story
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == BY_DEFAULT else pytest.mark.slow) for one in BOUNDS]
)
def test_no_object_goes_that_a_reader_may_need(model_tools, name):
    """Every reachable state within these bounds: no reader, cut or job misses an object, no kept record goes."""
    found = Removal(model_tools, **BOUNDS[name]).check()
    assert found.trace is None, "\n".join(found.trace)
    assert found.states > 100


@pytest.mark.parametrize("rule", WITHOUT)
def test_each_rule_of_removal_is_needed(model_tools, rule):
    """Without it there is a shortest story in which a reader misses an object."""
    found = Removal(model_tools, rule, **WITHOUT[rule]).check()
    assert found.trace, f"nothing is missed without {rule!r}: the model does not see what the rule prevents"
