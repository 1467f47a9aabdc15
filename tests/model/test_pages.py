"""Model check of pages: written before the change that names them, collected when no change can name them (rule 5).

Two leaders commit one range at a time and spill all but the newest entry, by the shipped transitions; answers are lost
and changes arrive late. The shipped collector works against them. Every object that a manifest names must be there, unharmed.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.garbage import Verdict, judge
from stratalog.tier.manifests.leases import SKEW_MS
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.manifests.pages import Spill, page_ref, page_to_bytes, spill
from stratalog.tier.stores.store import ObjectInfo

LEADERS = {"A": Claimant(0, 1, bytes([1] * 16)), "B": Claimant(0, 2, bytes([2] * 16))}


class State(NamedTuple):
    manifest: int
    pages: frozenset  # (key, content)
    collecting: tuple
    flying: frozenset
    uploads: int
    delays: int
    collections: int


class Pages:
    """The sub-model. ``dropped`` is the rule left out."""

    def __init__(self, tools, dropped="", *, uploads=3, delays=1, collections=2):
        self.tools, self.dropped = tools, dropped
        empty = claim(Manifest(tools.PARTITION), LEADERS["A"], now_ms=0)
        self.initial = State(tools.number(empty), frozenset(), (), frozenset(), uploads, delays, collections)

    def check(self):
        """Search it."""
        return self.tools.search(self.initial, self.successors, self.violation)

    @staticmethod
    def _claim(manifest):
        return claim(manifest, LEADERS["B"], now_ms=0)

    def _commit(self, manifest, name, attempt):
        """The shipped commit, and the shipped spill of all but its own entry."""
        base, leader = manifest.remote_end, LEADERS[name]
        uuid = bytes([base, attempt, ord(name)] + [0] * 13)
        key = manifest.partition.segment_key(base, base + 1, leader.leader_epoch, uuid)
        entry = Entry(
            uuid, base, base + 1, leader.leader_epoch, key, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1,
            epochs=(LeaderEpoch(leader.leader_epoch, base),),
        )  # fmt: skip
        grown = commit(manifest, leader, [Uploaded(entry, leader)], now_ms=0)
        if len(grown.entries) < 2:
            return grown
        page = self.page_of(grown)
        return spill(grown, Spill((), len(grown.entries) - 1), page)

    @staticmethod
    def page_of(grown):
        entries = grown.entries[:-1]
        return page_ref(grown.partition, entries, page_to_bytes(grown.partition, entries), grown.seq)

    def successors(self, state):
        for request in state.flying:
            kind, *what = request
            landed = state._replace(flying=state.flying - {request})
            if kind == "delete":
                kept = frozenset(page for page in state.pages if page[0] != what[0])
                yield f"DELETE {what[0]} lands", landed._replace(pages=kept)
            elif state.manifest == what[0]:
                yield "a delayed change arrives", landed._replace(manifest=what[1])
            else:
                yield "a delayed change is refused", landed
        after = self.tools.step(self._claim, state.manifest)
        if after is not None:
            yield "B claims", state._replace(manifest=after)
        for name in LEADERS:
            yield from self.writer(state, name)
        yield from self.collector(state)

    def writer(self, state, name):
        if not state.uploads:
            return
        after = self.tools.step(self._commit, state.manifest, name, state.uploads)
        if after is None:
            return
        manifest = self.tools.manifest(after)
        fresh = set(manifest.pages) - set(self.tools.manifest(state.manifest).pages)
        written = state._replace(uploads=state.uploads - 1)
        for page in fresh:
            if any(key == page.key and crc != page.crc32c for key, crc in state.pages):
                return  # something else lies under the key: the change goes on without a page, another time
            written = written._replace(pages=written.pages | {(page.key, page.crc32c)})
        yield f"{name} commits", written._replace(manifest=after)
        if state.delays:
            flying = state.flying | {("change", state.manifest, after)}
            yield f"{name} commits, no answer", written._replace(flying=flying, delays=state.delays - 1)

    def collector(self, state):
        if state.collections and not state.collecting and state.pages:
            keys = tuple(sorted(key for key, _ in state.pages))
            yield "GC lists", state._replace(collecting=keys, collections=state.collections - 1)
        if not state.collecting:
            return
        manifest = self.tools.manifest(state.manifest)
        if self.dropped == "pages not above the manifest":
            manifest = replace(manifest, seq=1000)
        named = set() if self.dropped == "pages in no manifest" else {page.key for page in manifest.pages}
        for key in state.collecting:
            info = ObjectInfo(key, 1, "", 0)
            if judge(manifest, named, info, now_ms=SKEW_MS + 2, grace_ms=1) is Verdict.GARBAGE:
                yield f"GC sends DELETE {key}", state._replace(collecting=(), flying=state.flying | {("delete", key)})

    def violation(self, state):
        if self.tools.fault(state.manifest):
            return self.tools.fault(state.manifest)
        stored = dict(state.pages)
        for page in self.tools.manifest(state.manifest).pages:
            if stored.get(page.key) != page.crc32c:
                return f"the page {page.key} is gone" if page.key not in stored else f"{page.key} is another page"
        return None


def test_a_page_that_is_named_is_there(model_tools):
    """Every reachable state within the bounds."""
    found = Pages(model_tools, uploads=4, delays=2).check()
    assert found.trace is None, "\n".join(found.trace)
    assert found.states > 1000


@pytest.mark.parametrize("rule", ["pages in no manifest", "pages not above the manifest"])
def test_each_rule_of_pages_is_needed(model_tools, rule):
    """Without it there is a shortest story of how a page goes that a manifest names."""
    found = Pages(model_tools, rule, uploads=4, delays=2).check()
    assert found.trace, f"nothing goes wrong without {rule!r}: the model does not see what the rule prevents"
