"""Tests of hot/cleaner/swap.py: each of its steps by name. Power cuts between them are in tests/crash."""

import re

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.recovery.interrupted import finish_interrupted

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}))


@pytest.fixture
def log(bench):
    log = bench.open(CONFIG)
    bench.fill(log, 2)
    log.sync()
    return log


@pytest.fixture
def swap(bench, log, compactor):
    cleaning = compactor.cleaning(log, now_ms=bench.now_ms)
    cleaning.build_map()
    return log.compaction.begin_replace(cleaning.clean_group(0))


def names(bench, suffix: str) -> list[str]:
    found = [entry.name for entry in bench.files.scan(bench.directory)]
    return sorted(name.lstrip("0") for name in found if name.endswith(suffix))


def test_each_step_of_a_swap_leaves_its_names(bench, log, swap, carry_out_steps):
    """Cleaned, swap, the old ones deleted, final."""
    assert names(bench, ".cleaned") == [".index.cleaned", ".log.cleaned", ".timeindex.cleaned"]
    carry_out_steps(swap, swap.stage())
    assert names(bench, ".swap") == [".index.swap", ".log.swap", ".timeindex.swap"]
    log.compaction.put_in(swap)
    carry_out_steps(swap, swap.retire())
    logs = [name for name in names(bench, ".deleted") if ".log" in name]
    assert [re.sub(r"\d+\.deleted", "N.deleted", name) for name in logs] == [".log.N.deleted", "10.log.N.deleted"]
    list(log.compaction.retire(swap))
    assert names(bench, ".log") == [".log", "20.log"]
    assert names(bench, ".swap") == names(bench, ".cleaned") == []


@pytest.mark.parametrize("staged", [False, True])
def test_a_withdrawn_swap_leaves_no_file(bench, log, swap, staged, carry_out_steps):
    """Whether or not it counted already."""
    if staged:
        carry_out_steps(swap, swap.stage())
    carry_out_steps(swap, swap.withdraw())
    assert names(bench, ".swap") == names(bench, ".cleaned") == []
    assert names(bench, ".log") == [".log", "10.log", "20.log"]


def test_a_stage_that_fails_half_way_does_not_count(bench, log, swap, monkeypatch, carry_out_steps):
    """A full disk while the directory is synced: the old segments stay, also when the log is opened again."""
    real = bench.files.rename

    def rename(source: str, target: str) -> None:
        if ".log" in source:
            raise OSError("no")
        real(source, target)

    monkeypatch.setattr(type(bench.files), "rename", lambda _, source, target: rename(source, target))
    with pytest.raises(OSError, match="no"):
        carry_out_steps(swap, swap.stage())
    assert finish_interrupted(bench.files, bench.directory, bench.files.scan(bench.directory))
    assert names(bench, ".swap") == names(bench, ".cleaned") == []
    assert names(bench, ".log") == [".log", "10.log", "20.log"]


def test_a_file_that_waits_for_its_removal_is_not_replaced(bench, log, compactor):
    """Freeing it takes long, so the caller does it later, with other files."""
    compactor.clean(log, now_ms=bench.now_ms)
    bench.append(log)
    log.roll()
    compactor.cleaned_offset = None
    compactor.clean(log, now_ms=bench.now_ms)
    assert len([name for name in names(bench, ".deleted") if ".log" in name]) == 4
