from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stratalog.tier.manifests.running_maxima import RunningMaxima

NUMBERS = st.lists(st.integers(-3, 40), max_size=60)


class Compared(RuleBasedStateMachine):
    """The tree beside a plain list."""

    def __init__(self):
        super().__init__()
        self.tree, self.plain = RunningMaxima(), []

    @rule(values=NUMBERS)
    def extend(self, values):
        self.tree.extend(values)
        self.plain += values

    @rule(part=st.floats(0, 1))
    def drop_front(self, part):
        count = int(part * len(self.plain))
        self.tree.drop_front(count)
        del self.plain[:count]

    @rule(part=st.floats(0, 1))
    def truncate(self, part):
        count = int(part * len(self.plain))
        self.tree.truncate(count)
        del self.plain[count:]

    @rule(least=st.integers(-5, 45), part=st.floats(0, 1))
    def find(self, least, part):
        start = int(part * len(self.plain))
        found = [i for i in range(start, len(self.plain)) if self.plain[i] >= least]
        assert self.tree.find(least, start) == (found[0] if found else None)

    @invariant()
    def same_size_and_largest(self):
        assert len(self.tree) == len(self.plain)
        assert self.tree.largest() == max(self.plain, default=None)


Compared.TestCase.settings = settings(stateful_step_count=25)
TestCompared = Compared.TestCase


@given(st.integers(2, 5000), st.integers(0, 1 << 30))
@settings(max_examples=10, deadline=None)
def test_many_numbers_are_searched_as_a_walk_would(count, seed):
    """Several levels of the tree, from anywhere."""
    dice = random.Random(seed)
    plain = [dice.randrange(count) for _ in range(count)]
    tree = RunningMaxima(plain)
    for _ in range(20):
        least, start = dice.randrange(count + 1), dice.randrange(count)
        assert tree.find(least, start) == next((i for i in range(start, count) if plain[i] >= least), None)


def test_the_largest_is_found_behind_whole_blocks():
    """The largest is right after parts of a block, a block, several blocks or the largest itself were dropped."""
    plain = [*range(40), 99, *range(200, 100, -1)]
    for dropped in range(len(plain)):
        tree = RunningMaxima(plain)
        tree._dropped = dropped
        assert tree.largest() == max(plain[dropped:])
        assert tree.largest(3) == max(plain[dropped + 3 :], default=None)


def test_a_look_up_touches_few_numbers_however_many_there_are():
    """Counted, not timed: sixteen on each level, up and down."""

    class Counted(list):
        reads = 0

        def __getitem__(self, at):
            Counted.reads += isinstance(at, int)
            return super().__getitem__(at)

    costs = []
    for count in (1000, 100_000):
        tree = RunningMaxima([9] + [0] * (count - 2) + [5])
        tree._levels = [Counted(level) for level in tree._levels]
        Counted.reads = 0
        assert tree.find(5, 1) == count - 1
        costs.append(Counted.reads)
    assert all(after <= 2 * before for before, after in pairwise(costs))
