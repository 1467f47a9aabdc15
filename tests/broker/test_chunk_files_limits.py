"""The chunk cache within its bounds: what an earlier run left, room on the disk, budgets, and who waits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from stratalog.tier import commands
from stratalog.tier.fetch_budgets import FetchRates


def load_rig():
    """The module beside this one; tests are no package."""
    spec = importlib.util.spec_from_file_location("chunk_cache_rig", Path(__file__).with_name("chunk_cache_rig.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RIG = load_rig()
PARTITION, TOPIC, OBJECT, Cache, ref, leave = RIG.PARTITION, RIG.TOPIC, RIG.OBJECT, RIG.Cache, RIG.ref, RIG.leave


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def test_what_an_earlier_run_left_is_served_when_it_was_checked(tmp_path):
    """Not before anybody has looked through it; then the worker is given the file to check, and fetches nothing."""
    leave(tmp_path / "cache", f"{TOPIC}.{OBJECT}.0.chunk.old-0", f"{TOPIC}.{OBJECT}.1.chunk.old-1")
    cache = Cache(tmp_path / "cache", scanned=False)
    assert not cache.want(ref(0), reader="a")
    assert not cache.want(ref(0), reader="b")
    assert len(cache.submitted) == 1
    cache.scan()
    assert cache.woken == ["a", "b"]
    assert cache.files.books.used_bytes == 20
    assert cache.files.get(ref(0).id, "a") is None
    cache.want(ref(0), ref(1))
    assert [Path(fill.path).name for fill in cache.submitted[0][0].chunks] == [
        f"{TOPIC}.{OBJECT}.0.chunk.old-0",
        f"{TOPIC}.{OBJECT}.1.chunk.old-1",
    ]
    cache.answer()
    assert cache.files.get(ref(0).id, "a") is not None
    assert cache.files.books.misses == 0


def test_half_written_and_older_files_go_and_nothing_else(tmp_path):
    """A stranger's file stays; of what is kept the oldest goes if there is no room for all."""
    directory = tmp_path / "cache"
    chunks = [f"{TOPIC}.{OBJECT}.{number}.chunk.old-{number}" for number in range(12)]
    leave(directory, *chunks, f"{'0' * 32}.3.chunk", f"{TOPIC}.{OBJECT}.4.chunk.old-99.tmp", "notes.txt")
    cache = Cache(directory, scanned=False)
    cache.want(ref(0))
    cache.scan()
    assert {path.name for path in directory.iterdir()} == {"notes.txt", *chunks[2:]}
    cache.want(ref(40))
    assert not (directory / chunks[2]).exists()
    assert (directory / chunks[3]).exists()


def test_a_scan_that_fails_is_done_again_with_the_next_fetch(tmp_path, caplog):
    """Nothing is removed and nothing fetched until what is there is known."""
    leave(tmp_path / "cache", f"{TOPIC}.{OBJECT}.0.chunk.old-0")
    cache = Cache(tmp_path / "cache", scanned=False)
    cache.want(ref(0))
    cache.submitted.pop()[1](commands.FailedReport("the worker ended", retriable=True))
    assert "the worker ended" in caplog.text
    assert cache.woken == []
    cache.want(ref(0))
    cache.scan()
    assert cache.woken == ["r"]
    assert len(cache.files.books) == 1


def test_a_disk_that_fills_up_shrinks_the_cache(tmp_path):
    """As told with each fill; files that nobody reads go at once."""
    cache = Cache(tmp_path / "cache", free_bytes_min=1000)
    for number in range(9):
        cache.want(ref(number))
        cache.answer(free_bytes=10**6)
        cache.files.leave("r")
    cache.want(ref(9))
    cache.answer(free_bytes=950)
    assert cache.files.books.limit_bytes == 50
    assert len(list(Path(cache.files.directory).iterdir())) == 5


def test_a_full_disk_fails_the_fill_and_frees_what_it_can(cache):
    """The reader tries again; it is not told of an error of the archive."""
    for number in range(3):
        cache.want(ref(number))
        cache.answer()
        cache.files.leave("r")
    cache.want(ref(9))
    command, answered = cache.submitted.pop()
    answered(commands.ChunksFilled(command.key, (), 0))
    ((failed, report),) = cache.failed
    assert failed == ref(9)
    assert report.retriable
    assert "is full" in report.message
    assert cache.files.books.used_bytes == 20


def test_a_fetch_over_budget_waits_for_its_turn(cache):
    """What is in the cache costs nothing; the reader is woken when its budget owes nothing any more."""
    cache.rates = FetchRates(client=10)
    assert cache.want(ref(0), ref(1))
    assert len(cache.submitted) == 1
    assert not cache.want(ref(2))
    assert 1000 <= cache.admission.throttle_ms("r") <= 1001
    assert cache.want(ref(1))
    assert cache.admission.throttle_ms("r") == 0
    assert cache.want(ref(3), reader="other")
    assert not cache.want(ref(2))
    cache.now_ms += 1001
    cache.run_timers()
    assert cache.woken == ["r"]
    assert cache.want(ref(2))
    assert cache.admission.throttle_ms("r") == 0


def test_reading_ahead_over_budget_makes_nobody_wait(cache):
    """The reader has what it asked for; ahead of it nothing is fetched."""
    cache.rates = FetchRates(topic=10)
    assert cache.want(ref(0), ref(1))
    assert not cache.want(ref(3), ahead=True)
    assert cache.admission.throttle_ms("r") == 0
    assert len(cache.submitted) == 1


def test_who_finds_no_room_is_woken_when_there_is_some(cache):
    """One after the other, until one of them finds none."""
    for number in range(9):
        assert cache.want(ref(number), reader=f"old-{number}")
        cache.answer()
    cache.woken.clear()
    for reader in ("a", "b", "c"):
        assert not cache.want(ref(20), reader=reader)
    assert cache.admission.throttle_ms("a") == 1000
    cache.files.read_past(ref(0).id, "old-0")
    assert cache.woken == []
    cache.admission.wake = lambda reader: (
        cache.woken.append(reader) or cache.want(ref(20 + len(cache.woken)), reader=reader)
    )
    cache.run_timers()
    assert cache.woken == ["a", "b"]
    assert cache.admission.throttle_ms("a") == 0
    assert cache.admission.throttle_ms("c") == 1000
