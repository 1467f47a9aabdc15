"""Model checks of the archive: objects, claims, delayed writes, lost replies, takeovers (rules 1, 2, 4).
And of restores and open transactions (rules 1 and 3).

The manifest's transitions are the shipped ones. Each rule is then dropped, one at a time, and the search must find how
the archive breaks without it; the traces printed on failure read like an incident report.

The log is fixed: offsets 0 and 1, all committed. Leaders differ in where they rolled: A at 1 and 2, B at 2 only. A
leads epoch 1, B epoch 2 and then 3 without a restart, C is a second cluster restored from the bucket. No broker is ever
told that he is fenced. A garbage collector, by the shipped judgement, works against them.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.garbage import Verdict, judge
from stratalog.tier.manifests.leases import SKEW_MS
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, check_claim, claim, commit, take_over
from stratalog.tier.stores.store import ObjectInfo
from stratalog.wire.errors import Fenced, Invalid

ROLLS = {"A": ((0, 1), (1, 2)), "B": ((0, 2), (1, 2)), "C": ((0, 2), (1, 2))}
NAMES = "ABC"


class Key(NamedTuple):
    """One upload attempt."""

    base: int
    end: int
    rank: tuple
    attempt: int
    name: str


class Stored(NamedTuple):
    """An object. ``content``: who wrote these offsets, "" for a torn object. ``old``: past the grace of the GC."""

    key: Key
    content: str
    old: bool = False


class State(NamedTuple):
    manifest: int
    objects: frozenset
    ranks: tuple  # claims of A, B, C; C has none before its takeover
    held: tuple  # per writer: attempts it knows as uploaded and not as committed
    gone: tuple  # per writer: local log start
    collecting: tuple  # () or what the GC has listed
    flying: frozenset  # requests without a reply, which may land at any time or never
    uploads: int
    delays: int
    collections: int
    elections: int
    torn: int


class Objects:
    """The sub-model. ``dropped`` is the rule left out."""

    def __init__(self, tools, dropped="", *, names="AB", uploads=2, delays=1, collections=1, elections=1, torn=0):
        self.tools, self.dropped, self.names = tools, dropped, names
        empty = tools.number(Manifest(tools.PARTITION))
        self.initial = State(
            empty, frozenset(), ((0, 1), (0, 2), None), ((), (), ()), (0, 0, 0), (), frozenset(), uploads, delays,
            collections, elections, torn,
        )  # fmt: skip
        self.keys = {}

    def check(self):
        """Search it."""
        return self.tools.search(self.initial, self.successors, self.violation)

    # The shipped transitions, and what is left of them without a rule.

    @staticmethod
    def claimant(rank, name):
        return Claimant(*rank, bytes([*rank, ord(name)] + [0] * 13))

    def entry(self, key):
        uuid = bytes([key.base, key.end, *key.rank, key.attempt, ord(key.name)] + [0] * 10)
        self.keys[uuid] = key
        location = self.tools.PARTITION.segment_key(key.base, key.end, key.rank[1], uuid)
        return Entry(
            uuid, key.base, key.end, key.rank[1], location, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1,
            epochs=(LeaderEpoch(key.rank[1], key.base),),
        )  # fmt: skip

    def claimed(self, number, rank, name):
        return self.tools.step(self._claim, number, self.claimant(rank, name))

    @staticmethod
    def _claim(manifest, claimant):
        return claim(manifest, claimant, now_ms=0)

    @staticmethod
    def _take_over(manifest, claimant):
        return take_over(manifest, claimant, now_ms=0)

    def _commit(self, manifest, claimant, keys):
        uploads = [Uploaded(self.entry(key), self.claimant(key.rank, key.name)) for key in keys]
        held = manifest.claimant
        if self.dropped == "own uploads":
            uploads = [Uploaded(replace(u.entry, epoch=claimant.leader_epoch), claimant) for u in uploads]
        if self.dropped == "refuse lower claims" and held.rank > claimant.rank:
            after = commit(replace(manifest, claimant=claimant), claimant, uploads, now_ms=0)
            return replace(after, claimant=held)
        if self.dropped == "at the remote end":
            after = commit(replace(manifest, remote_end=keys[0].base), claimant, uploads, now_ms=0)
            return after if after.entries != manifest.entries else manifest
        return commit(manifest, claimant, uploads, now_ms=0)

    def holds(self, number, rank, name):
        """Whether the manifest carries this claim, by the shipped check."""
        try:
            check_claim(self.tools.manifest(number), self.claimant(rank, name))
        except (Fenced, Invalid):
            return False
        return True

    # Possible events.

    def successors(self, state):
        yield from self.landings(state)
        if any(not stored.old for stored in state.objects) and state.collections:
            yield "the grace passes", state._replace(objects=frozenset(s._replace(old=True) for s in state.objects))
        if "C" in self.names and state.ranks[2] is None:
            yield from self.takeover(state)
        if state.elections and "B" in self.names:
            ranks = (state.ranks[0], (0, 3), state.ranks[2])
            yield "B re-elected, epoch 3", state._replace(ranks=ranks, elections=0)
        for index, name in enumerate(NAMES):
            if name in self.names and state.ranks[index] is not None:
                yield from self.writer(state, index, name)
        yield from self.collector(state)

    def landings(self, state):
        for request in state.flying:
            rest = state.flying - {request}
            kind, *what = request
            if kind == "swap":
                before, after = what
                lands = before == state.manifest or self.dropped == "compare and swap"
                manifest = after if lands else state.manifest
                yield (
                    f"a delayed swap {'lands' if lands else 'is refused'}",
                    state._replace(flying=rest, manifest=manifest),
                )
            elif kind == "put":
                yield f"a delayed PUT of {what[0].key} lands", self.stored(state._replace(flying=rest), what[0])
            else:
                left = frozenset(s for s in state.objects if s.key != what[0])
                yield f"DELETE {what[0]} lands", state._replace(flying=rest, objects=left)

    def takeover(self, state):
        incarnation = self.tools.manifest(state.manifest).claimant.incarnation + 1
        after = self.tools.step(self._take_over, state.manifest, self.claimant((incarnation, 1), "C"))
        ranks = (*state.ranks[:2], (incarnation, 1))
        gone = (*state.gone[:2], self.tools.manifest(after).remote_end)
        yield "C takes over", state._replace(manifest=after, ranks=ranks, gone=gone)

    def swap(self, state, label, after, **learnt):
        """A compare-and-swap that succeeds, or that is sent without a reply."""
        if after is None:
            return
        yield label, state._replace(manifest=after, **learnt)
        if state.delays:
            flying = state.flying | {("swap", state.manifest, after)}
            yield f"{label}, no reply, in flight", state._replace(flying=flying, delays=state.delays - 1)

    def address(self, key):
        return key[:2] if self.dropped == "own keys" else key

    def stored(self, state, new):
        kept = frozenset(s for s in state.objects if self.address(s.key) != self.address(new.key))
        return state._replace(objects=kept | {new})

    def writer(self, state, index, name):
        rank = state.ranks[index]
        yield from self.swap(state, f"{name} claims {rank}", self.claimed(state.manifest, rank, name))
        if state.uploads and self.holds(state.manifest, rank, name):
            yield from self.puts(state, index, name, rank)
        yield from self.commits(state, index, name, rank)
        if self.holds(state.manifest, rank, name):
            for entry in self.tools.manifest(state.manifest).entries:
                whole = {self.address(s.key) for s in state.objects if s.content}
                seen = self.dropped == "HEAD before eviction" or self.address(self.keys[entry.uuid]) in whole
                if entry.base == state.gone[index] and seen:
                    yield f"{name} evicts below {entry.end}", self.with_(state, "gone", index, entry.end)

    @staticmethod
    def with_(state, column, index, value):
        values = getattr(state, column)
        return state._replace(**{column: (*values[:index], value, *values[index + 1 :])})

    def puts(self, state, index, name, rank):
        end = self.tools.manifest(state.manifest).remote_end
        for base, to in ROLLS[name]:
            if base < max(state.gone[index], end) or any(key.base == base for key in state.held[index]):
                continue
            new = Stored(Key(base, to, rank, state.uploads, name), "new" if name == "C" else "old")
            spent = state._replace(uploads=state.uploads - 1)
            done = self.with_(self.stored(spent, new), "held", index, (*state.held[index], new.key))
            yield f"{name} PUTs {new.key}", done
            if state.delays:
                late = {"flying": state.flying | {("put", new)}, "delays": state.delays - 1}
                yield f"{name} PUTs {new.key}, a duplicate in flight", done._replace(**late)
                yield f"{name} PUTs {new.key}, no reply", spent._replace(**late)
            if state.torn:
                torn = self.stored(done, new._replace(content=""))
                yield f"{name} PUTs {new.key}, the store keeps half", torn._replace(torn=0)

    def commits(self, state, index, name, rank):
        held = state.held[index]
        for key in held:
            for keys in [(key,)] + [(key, later) for later in held if later.base == key.end]:
                after = self.tools.step(self._commit, state.manifest, self.claimant(rank, name), keys)
                left = tuple(other for other in held if other not in keys)
                columns = self.with_(state, "held", index, left).held
                yield from self.swap(state, f"{name} commits {keys}", after, held=columns)

    def collector(self, state):
        """Lists, then reads the manifest, then sends a DELETE that lands any time later."""
        if state.collections and not state.collecting:
            old = tuple(sorted(s.key for s in state.objects if s.old))
            if old:
                yield "GC lists", state._replace(collecting=old, collections=0)
        manifest = self.tools.manifest(state.manifest)
        named = {entry.key for entry in manifest.entries}
        if self.dropped == "GC: named by no manifest":
            named = set()
        if self.dropped == "GC: epochs below the claim":
            manifest = replace(manifest, claimant=manifest.claimant._replace(leader_epoch=99))
        for key in state.collecting:
            info = ObjectInfo(self.entry(key).key, 1, "", 0)
            if judge(manifest, named, info, now_ms=SKEW_MS + 2, grace_ms=1) is Verdict.GARBAGE:
                yield f"GC sends DELETE {key}", state._replace(collecting=(), flying=state.flying | {("delete", key)})

    # Forbidden states.

    def violation(self, state):
        if self.tools.fault(state.manifest):
            return self.tools.fault(state.manifest)
        manifest = self.tools.manifest(state.manifest)
        stored = {self.address(s.key): s.content for s in state.objects}
        readable = set()
        for entry in manifest.entries:
            key = self.keys[entry.uuid]
            content = stored.get(self.address(key))
            if content is None:
                return f"{key} has no object"
            if content not in {"", "new" if key.name == "C" else "old"}:
                return f"the object of {key} was overwritten by another attempt"
            if content:
                readable |= set(range(entry.base, entry.end))
        lost = [o for i, name in enumerate("AB") for o in range(state.gone[i]) if o not in readable]
        return f"offset {lost[0]} was evicted and is unreadable" if lost else None


BOUNDS = {
    "two leaders and garbage collection": {},
    "two delayed requests": {"delays": 2, "collections": 0, "uploads": 2},
    "a takeover against the old leader": {"names": "AC", "elections": 0, "delays": 1},
    "a takeover against the new leader": {"names": "BC", "delays": 1},
    "a store that keeps half": {"torn": 1, "delays": 0},
}
BY_DEFAULT = "two leaders and garbage collection"
"""The bound of the default run; ``make model`` checks all."""
WITHOUT = {
    "compare and swap": {},
    "refuse lower claims": {},
    "at the remote end": {},
    "own uploads": {"names": "B", "delays": 0},
    "own keys": {"names": "AC", "elections": 0, "uploads": 3},
    "HEAD before eviction": {"torn": 1, "delays": 0},
    "GC: named by no manifest": {},
    "GC: epochs below the claim": {},
}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == BY_DEFAULT else pytest.mark.slow) for one in BOUNDS]
)
def test_the_protocol_holds(model_tools, name):
    """Every reachable state within these bounds: no hole, no overlap, no lost or foreign object."""
    found = Objects(model_tools, **BOUNDS[name]).check()
    assert found.trace is None, "\n".join(found.trace)
    assert found.states > 1000


@pytest.mark.parametrize("rule", WITHOUT)
def test_each_rule_is_needed(model_tools, rule):
    """Without it there is a shortest story of how data is lost."""
    found = Objects(model_tools, rule, **WITHOUT[rule]).check()
    assert found.trace, f"the archive is safe without {rule!r}: the model does not see what the rule prevents"


class Restores(NamedTuple):
    manifest: int
    phases: tuple  # per cluster: "" before, "asked", "owns"
    flying: frozenset


@pytest.mark.parametrize("by_uuid", [True, False])
def test_two_restores_never_own_one_incarnation(model_tools, by_uuid):
    """A takeover is its own only if the manifest read back carries its uuid; by the number alone two would own it."""

    def take(manifest, claimant):
        return take_over(manifest, claimant, now_ms=0)

    def successors(state):
        for index, mark in enumerate((1, 2)):
            found = model_tools.manifest(state.manifest).claimant
            asking = Claimant(0, 0, bytes([mark] * 16))
            phases = list(state.phases)
            if not phases[index]:
                phases[index] = "asked"
                after = model_tools.step(take, state.manifest, asking)
                request = set() if after is None else {(state.manifest, after)}
                yield f"{mark} sends its takeover", state._replace(phases=tuple(phases), flying=state.flying | request)
            elif phases[index] == "asked" and found.incarnation == 0 and (found.uuid == asking.uuid or not by_uuid):
                phases[index] = "owns"
                yield f"{mark} reads incarnation 0 back", state._replace(phases=tuple(phases))
        for before, after in state.flying:
            manifest = after if before == state.manifest else state.manifest
            yield "a takeover arrives", state._replace(manifest=manifest, flying=state.flying - {(before, after)})

    empty = model_tools.number(Manifest(model_tools.PARTITION))
    found = model_tools.search(
        Restores(empty, ("", ""), frozenset()),
        successors,
        lambda state: "two clusters own one incarnation" if state.phases == ("owns", "owns") else None,
    )
    assert (found.trace is None) == by_uuid


class Transaction(NamedTuple):
    log: int = 0  # 0 nothing, 1 data of a transaction, 2 other data, 3 the abort marker
    entries: tuple = ()  # (base, end, knows of the abort)


@pytest.mark.parametrize("stable_only", [True, False])
def test_an_object_never_hides_an_abort(model_tools, stable_only):
    """Archived only below the last stable offset, each object knows every abort of its data; without that, not."""

    def successors(state):
        if state.log < 3:
            yield f"append {state.log}", state._replace(log=state.log + 1)
        base = state.entries[-1][1] if state.entries else 0
        limit = state.log if state.log == 3 or not stable_only else 0
        for end in range(base + 1, limit + 1):
            entries = (*state.entries, (base, end, state.log == 3))
            yield f"archive [{base}, {end})", state._replace(entries=entries)

    def violation(state):
        hidden = [e for e in state.entries if e[0] == 0 and not e[2]]
        return "a reader of the object alone sees aborted data" if state.log == 3 and hidden else None

    assert (model_tools.search(Transaction(), successors, violation).trace is None) == stable_only
