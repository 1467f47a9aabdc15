"""The search through every order of events, and the shipped manifest transitions over numbered manifests."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.json import from_bytes, to_bytes
from stratalog.wire.errors import Corrupt, Fenced, Invalid

SEARCHES: list[tuple[str, Search]] = []
"""By test: what each search of this run has found."""


@dataclass
class Search:
    """Result of a breadth-first search: ``trace`` is a shortest counterexample, ``None`` if there is none."""

    states: int
    trace: list | None
    whole: bool = True
    """False: the search was stopped at its limit, and holds for what lies less deep."""


class ModelTools:
    """Shared by the model checks: the search, and the shipped manifest transitions over numbered manifests.

    Manifests are interned, so that a state of a model is small and quick to compare, and each transition is computed
    once for equal arguments. Reductions: all changes happen at time 0, and the list of latest changes is dropped.
    """

    PARTITION = PartitionId("t", bytes(16), 0)

    def __init__(self, name):
        self._name = name
        self._manifests = []
        self._numbers = {}
        self._steps = {}

    def search(self, initial, successors, violation, limit=1_500_000, *, bounded=False):
        """Visit every state; stop at the first in which ``violation`` gives a reason, or, if bounded, at the limit."""
        found = self._search(initial, successors, violation, limit, bounded)
        SEARCHES.append((self._name, found))
        return found

    @staticmethod
    def _search(initial, successors, violation, limit, bounded):
        seen, queue = {initial: None}, deque([initial])
        while queue:
            state = queue.popleft()
            for label, after in successors(state):
                if after in seen:
                    continue
                seen[after] = (state, label)
                reason = violation(after)
                if reason:
                    trace = [reason]
                    while seen[after]:
                        after, label = seen[after]
                        trace.append(label)
                    return Search(len(seen), trace[::-1])
                queue.append(after)
            if bounded and len(seen) > limit:
                return Search(len(seen), None, whole=False)
            assert len(seen) <= limit, "the model is larger than was meant: check its bounds"
        return Search(len(seen), None)

    def number(self, manifest):
        """The number of a manifest; every new one is written to bytes and read back as the product does."""
        manifest = replace(manifest, commits=())
        number = self._numbers.get(manifest)
        if number is None:
            number = self._numbers[manifest] = len(self._manifests)
            try:
                assert from_bytes(to_bytes(manifest), "model") == manifest
            except Corrupt:
                self._manifests.append((manifest, "gap or overlap in the manifest"))
            else:
                self._manifests.append((manifest, None))
        return number

    def manifest(self, number):
        """The manifest of a number."""
        return self._manifests[number][0]

    def fault(self, number):
        """Why it cannot be read back from its bytes; None if it can."""
        return self._manifests[number][1]

    def step(self, transition, number, *args):
        """The successor's number; ``None`` if the transition refuses, or has nothing to do."""
        key = transition, number, args
        if key not in self._steps:
            manifest = self.manifest(number)
            try:
                after = transition(manifest, *args)
            except (Fenced, Invalid):
                after = manifest
            self._steps[key] = None if after is manifest else self.number(after)
        return self._steps[key]


@pytest.fixture
def model_tools(request):
    """A search and a numbering of manifests."""
    return ModelTools(request.node.name)


def pytest_terminal_summary(terminalreporter):
    """With ``-v``, as `make model` has it: how many states each model check has visited, and what it found."""
    if not SEARCHES or terminalreporter.config.option.verbose < 1:
        return
    terminalreporter.section("states of the models")
    for name, found in SEARCHES:
        end = (
            f"counterexample of {len(found.trace) - 1} steps: {found.trace[-1]}"
            if found.trace
            else "exhausted, it holds"
            if found.whole
            else "stopped at its limit, it holds so far"
        )
        terminalreporter.write_line(f"{found.states:>9,}  {name}: {end}")
    held = [found.states for _, found in SEARCHES if not found.trace]
    terminalreporter.write_line(
        f"{sum(held):,} states in {len(held)} searches without a violation; {len(SEARCHES) - len(held)} counterexamples"
    )
