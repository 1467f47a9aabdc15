"""Model checks of two brokers' logs against the archive (rules 1, 3, 4 and 8), and of a takeover by a second cluster.

The model is ``replica_model.py``, over the shipped transitions. Each rule is then dropped, one at a time, and the
search must find how data is lost or forked without it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def replicas():
    """The model's class, loaded by its path: the directory of the tests is no package."""
    loaded = [load(name) for name in ("rollback_model", "takeover_model", "replica_model")]
    yield loaded[-1].Replicas
    for module in loaded:
        del sys.modules[module.__name__]


def load(name):
    """One file of the model, as a module that the next one can import."""
    spec = importlib.util.spec_from_file_location(f"stratalog_{name}", Path(__file__).with_name(f"{name}.py"))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SYNC = {"lazy": False, "wipe": False, "unclean": False}
DIRTY = {"wipe": False, "unclean": False, "elections": 1}
UNCLEAN = {"lazy": False, "delays": 0}
BACK = {
    "lazy": False,
    "wipe": False,
    "unclean": False,
    "alone": True,
    "rollbacks": 1,
    "elections": 1,
    "records": 2,
    "delays": 0,
}
TAKEOVER = SYNC | {"takeovers": 1, "crashes": 0, "elections": 1}
BOUNDS = {
    "sync on ack, clean elections": SYNC,
    "page cache, power loss": DIRTY,
    "unclean elections and lost disks": UNCLEAN,
    "a takeover": TAKEOVER,
    "a disk that goes back": BACK,
}
BY_DEFAULT = "sync on ack, clean elections"
"""The bound of the default run; ``make model`` checks all."""
WITHOUT = {
    "compare and swap": SYNC,
    "refuse lower claims": SYNC,
    "own incarnation": TAKEOVER,
    "below the high watermark": SYNC,
    "read back": SYNC,
    "my claim": TAKEOVER | {"records": 2},
    "own cluster": TAKEOVER | {"records": 2},
    "the archive wins": UNCLEAN,
    "whenever something may be missing": DIRTY,
    "remembered by the controller": UNCLEAN,
    "claim before the check": DIRTY,
    "compare the epochs": UNCLEAN,
    "compare what the checkpoint does not know": BACK,
    "compare the last common batch": BACK,
}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == BY_DEFAULT else pytest.mark.slow) for one in BOUNDS]
)
def test_logs_and_archive_agree(model_tools, replicas, name):
    """Every reachable state within these bounds: nothing acknowledged is lost, archive and log never differ."""
    found = replicas(model_tools, **BOUNDS[name]).check()
    assert found.trace is None, "\n".join(found.trace)
    assert found.states > 1000


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", BOUNDS)
def test_logs_and_archive_agree_with_two_records(model_tools, replicas, name):
    """The same with a second record, which makes partly archived logs: some minutes."""
    found = replicas(model_tools, **(BOUNDS[name] | {"records": 2})).check()
    assert found.trace is None, "\n".join(found.trace)


@pytest.mark.parametrize("rule", WITHOUT)
def test_each_rule_is_needed(model_tools, replicas, rule):
    """Without it there is a shortest story of how data is lost or forked."""
    found = replicas(model_tools, rule, **WITHOUT[rule]).check()
    assert found.trace, f"all is safe without {rule!r}: the model does not see what the rule prevents"
