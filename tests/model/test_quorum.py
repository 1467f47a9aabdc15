"""Model checks of the metadata quorum over the shipped machine: votes, commits, restarts, lost disks, removals.

The model is ``quorum_model.py``. Each rule is then dropped, one at a time, in the shipped code, and the search must
find a history in which two leaders share an epoch or a committed record is lost.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.metadata.raft import elections, following, leadership, reconfiguration
from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.replica_progress import ReplicaProgress
from stratalog.metadata.raft.states import Follower, Leader, Prospective, Resigned, Unattached


@pytest.fixture(scope="module")
def quorum_model():
    """The model's class, loaded by its path: the directory of the tests is no package."""
    name = "stratalog_quorum_model"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("quorum_model.py"))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.QuorumModel
    del sys.modules[name]


def no_vote_sync(patch):
    store = RaftCore.store

    def forgetful(self):
        if not isinstance(self.role, Unattached | Prospective) or self.role.voted is None:
            store(self)

    patch.setattr(RaftCore, "store", forgetful)


def no_fetch_sync(patch):
    patch.setattr(following, "may_fetch", lambda _: True)


def leader_counts_written(patch):
    append = RaftCore.append

    def optimistic(self, batches):
        flushed = self.log.flushed_offset
        append(self, batches)
        if isinstance(self.role, Leader):
            self.log = self.log.flushed(self.log.end_offset)
            leadership.advance(self)
            self.log = replace(self.log, flushed_offset=flushed)

    patch.setattr(RaftCore, "append", optimistic)


def no_log_check(patch):
    patch.setattr(LogView, "is_covered_by", lambda *_: True)


def leader_resumes(patch):
    start = Raft.start

    def resume(self, **now):
        actions, core = start(self, **now), self._core
        if isinstance(core.role, Resigned):
            core.role = Leader(core.epoch, core.me.id, core.log.end_offset - 1, 3000, 0)
        return actions

    patch.setattr(Raft, "start", resume)


def vote_of_any_disk(patch):
    vote = elections.on_vote
    patch.setattr(elections, "on_vote", lambda core, token, request: vote(core, token, replace(request, voter=core.me)))


def fetch_of_any_disk(patch):
    def of(self, key):
        known = [each for each in self.replicas if each.key.id == key.id]
        return max(known, key=lambda each: each.end_offset, default=real(self, key))

    real = ReplicaProgress.of
    patch.setattr(ReplicaProgress, "of", of)


def acts_above(patch):
    commit = RaftCore.commit

    def eager(self, high_watermark):
        commit(self, self.log.end_offset if isinstance(self.role, Follower) else high_watermark)

    patch.setattr(RaftCore, "commit", eager)


def changes_do_not_wait(patch):
    patch.setattr(reconfiguration, "check_change", lambda *_: None)


BOUNDS = {
    "power": {"epochs": 3, "powers": 1},
    "late": {"epochs": 3, "delays": 1},
    "wipe": {"epochs": 2, "wipes": 1, "delays": 1},
    "removals": {"epochs": 3, "writes": 0, "removals": 2},
    "upgrade": {"epochs": 3, "powers": 1, "upgrades": 1, "removals": 1},
    "one voter": {"epochs": 4, "powers": 2, "writes": 2, "voters": 1},
}
WITHOUT = {
    no_vote_sync: {"epochs": 2, "powers": 1, "writes": 0},
    no_fetch_sync: {"epochs": 2, "powers": 1},
    leader_counts_written: {"epochs": 2, "powers": 1, "voters": 1},
    no_log_check: {"epochs": 2},
    leader_resumes: {"epochs": 1, "powers": 1, "writes": 2},
    vote_of_any_disk: {"epochs": 2, "wipes": 1, "writes": 0},
    fetch_of_any_disk: {"epochs": 2, "wipes": 1, "delays": 1},
    acts_above: {"epochs": 2},
    changes_do_not_wait: {"epochs": 2, "writes": 0, "removals": 2},
}
BY_DEFAULT = frozenset({no_vote_sync, leader_counts_written, no_log_check, vote_of_any_disk, acts_above})
"""Those whose counterexamples lie least deep; ``make model`` drops all."""
SAMPLE = 1_000
"""States of the default run; ``make model`` visits `LIMIT`."""
LIMIT = 60_000


@pytest.mark.parametrize("name", BOUNDS)
def test_the_quorum_holds_so_far(model_tools, quorum_model, name):
    """No order of the first events breaks a promise."""
    found = quorum_model(model_tools, **BOUNDS[name]).check(SAMPLE)
    assert found.trace is None, "\n".join(found.trace)
    assert found.states > SAMPLE


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", BOUNDS)
def test_the_quorum_holds(model_tools, quorum_model, name):
    """No order of events within the bound breaks a promise: no second leader, no committed record lost."""
    found = quorum_model(model_tools, **BOUNDS[name]).check(LIMIT)
    assert found.trace is None, "\n".join(found.trace)


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=() if rule in BY_DEFAULT else pytest.mark.slow) for rule in WITHOUT],
    ids=lambda rule: rule.__name__,
)
def test_each_rule_is_needed(model_tools, quorum_model, monkeypatch, rule):
    """Without it there is a shortest story of two leaders, or of a committed record that is lost."""
    rule(monkeypatch)
    found = quorum_model(model_tools, **WITHOUT[rule]).check(LIMIT)
    assert found.trace, f"all is safe with {rule.__name__}: the model does not see what the rule prevents"
