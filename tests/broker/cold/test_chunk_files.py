"""Chunks on the local disk: asked for once, kept, removed; what an earlier run left, room, budgets, and who waits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from stratalog.broker.cold.fill_gate import FILLS_MAX
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.messages import commands
from stratalog.tier.reading.fetch_budgets import FetchRates


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


def test_a_chunk_is_asked_for_once(cache):
    """Readers that come while it is on its way wait for the same fill."""
    cache.want(ref(0), reader="a")
    cache.want(ref(0), reader="b")
    assert len(cache.submitted) == 1
    assert cache.files.get(ref(0).id, "a") is None
    cache.answer()
    assert cache.woken == ["a", "b"]
    chunk, file = cache.files.get(ref(0).id, "b")
    assert file.pread(chunk.length, 0) == b"c" * 10
    cache.want(ref(0), reader="c")
    assert not cache.submitted


def test_neighbours_come_by_one_request(cache):
    """Three at most, and of one object only."""
    cache.want(ref(0), ref(1), ref(2), ref(3), ref(4, uuid=b"o" * 16))
    assert [len(command.chunks) for command, _ in cache.submitted] == [3, 1, 1]


def test_a_damaged_chunk_hides_no_neighbour(cache):
    """After a common failure each is fetched by itself, and only the damaged one fails."""
    cache.want(ref(0), ref(1))
    _, answered = cache.submitted.pop()
    report = commands.CorruptReport(PARTITION, "key", 10, 10, "damaged")
    answered(report)
    assert [[fill.chunk for fill in command.chunks] for command, _ in cache.submitted] == [
        [ref(0).chunk],
        [ref(1).chunk],
    ]
    assert cache.failed == []
    cache.answer()
    cache.submitted.pop()[1](report)
    assert cache.failed == [(ref(1), report)]
    assert cache.files.get(ref(0).id, "r") is not None


def test_room_for_all_is_reported(cache):
    """A reader that asks for more than fits asks again later."""
    assert cache.want(ref(0), ref(1))
    assert not cache.want(*(ref(number) for number in range(2, 20)))


def test_a_failed_fill_is_reported_and_may_be_tried_again(cache):
    """Its space is free again."""
    cache.want(ref(0))
    _, answered = cache.submitted.pop()
    report = commands.MissingReport("key", "gone")
    answered(report)
    assert cache.failed == [(ref(0), report)]
    assert cache.files.books.used_bytes == 0
    cache.want(ref(0))
    assert len(cache.submitted) == 1


def test_evicted_chunks_leave_the_disk(cache):
    """The cache never holds more than its limit, on the disk neither."""
    for number in range(30):
        cache.want(ref(number))
        cache.answer()
        cache.files.leave("r")
    cache.want(ref(40))
    sizes = [path.stat().st_size for path in Path(cache.files.directory).iterdir()]
    assert sum(sizes) <= 100
    assert cache.files.books.used_bytes <= 100


def test_an_object_that_is_served_as_it_is_is_neither_removed_nor_held(cache, tmp_path):
    """Eviction and failed checks leave it alone; once it is deleted no descriptor keeps its disk in use."""
    path = tmp_path / "object"
    path.write_bytes(bytes(10) + b"c" * 10)
    cache.want(ref(1))
    cache.answer_in(path)
    chunk, file = cache.files.get(ref(1).id, "r")
    assert file.pread(chunk.length, chunk.start) == b"c" * 10
    cache.now_ms += 30_000
    cache.want(ref(1))
    cache.submitted.pop()[1](commands.FailedReport("down", retriable=True))
    cache.want(ref(1))
    cache.answer_in(path)
    cache.files.leave("r")
    for number in range(5, 30):
        cache.want(ref(number))
        cache.answer()
        cache.files.leave("r")
    assert path.exists()
    assert str(path) not in cache.files._open


def test_a_reader_keeps_the_file_of_an_evicted_chunk(cache):
    """Slices under way are sent whatever becomes of the cache."""
    cache.want(ref(0))
    cache.answer()
    chunk, file = cache.files.get(ref(0).id, "r")
    cache.files.leave("r")
    for number in range(1, 12):
        cache.want(ref(number))
        cache.answer()
        cache.files.leave("r")
    assert not Path(chunk.path).exists()
    assert file.pread(chunk.length, 0) == b"c" * 10


def test_a_file_that_is_gone_is_asked_for_again(cache, caplog):
    """It is said once, and the space is not counted twice."""
    cache.want(ref(0))
    cache.answer()
    (path,) = Path(cache.files.directory).iterdir()
    path.unlink()
    assert cache.files.get(ref(0).id, "r") is None
    assert "is gone" in caplog.text
    cache.want(ref(0))
    cache.answer()
    assert cache.files.get(ref(0).id, "r") is not None
    assert cache.files.books.used_bytes == 10


def test_a_chunk_checked_long_ago_is_checked_again(cache):
    """It is asked for like a missing one; others wait for the same check."""
    cache.want(ref(0))
    cache.answer()
    cache.now_ms += 29_999
    assert cache.files.get(ref(0).id, "r") is not None
    cache.now_ms += 1
    assert cache.files.get(ref(0).id, "r") is None
    cache.want(ref(0))
    cache.want(ref(0), reader="other")
    assert len(cache.submitted) == 1
    cache.answer()
    assert cache.files.get(ref(0).id, "r") is not None
    assert cache.files.books.used_bytes == 10


def test_a_check_that_fails_lets_the_file_go(cache):
    """Its bytes are neither counted nor kept."""
    cache.want(ref(0))
    cache.answer()
    cache.now_ms += 30_000
    cache.want(ref(0))
    cache.submitted.pop()[1](commands.FailedReport("down", retriable=True))
    cache.want(ref(5))
    assert cache.files.books.used_bytes == 10
    assert list(Path(cache.files.directory).iterdir()) == []


def test_a_directory_that_was_cleared_away_is_made_again(cache):
    """While the broker runs."""
    cache.want(ref(0))
    cache.answer()
    (path,) = Path(cache.files.directory).iterdir()
    path.unlink()
    path.parent.rmdir()
    cache.want(ref(1))
    cache.answer()
    assert cache.files.get(ref(1).id, "r") is not None


def test_files_are_removed_aside_and_their_names_not_used_again(tmp_path):
    """A removal that runs late takes away no file that was fetched meanwhile."""
    later = []
    leave(tmp_path / "cache", f"{OBJECT}.0.chunk", data=b"x")
    cache = Cache(tmp_path / "cache", aside=later.append)
    cache.want(ref(0))
    cache.answer()
    cache.files.leave("r")
    for number in range(1, 12):
        cache.want(ref(number))
        cache.answer()
        cache.files.leave("r")
    cache.want(ref(0))
    cache.answer()
    assert len(list((tmp_path / "cache").iterdir())) == 14
    for run in later:
        run()
    assert len(list((tmp_path / "cache").iterdir())) == 10
    chunk, file = cache.files.get(ref(0).id, "r")
    assert Path(chunk.path).exists()
    assert file.pread(10, 0) == b"c" * 10


def test_a_chunk_is_checked_where_it_is(cache):
    """The worker compares the file there is; only what it fetches anew gets a new name."""
    cache.want(ref(0))
    (first,) = (fill.path for fill in cache.submitted[0][0].chunks)
    cache.answer()
    cache.now_ms += 30_000
    cache.want(ref(0))
    (second,) = (fill.path for fill in cache.submitted[0][0].chunks)
    assert first == second


def test_a_file_that_cannot_be_removed_is_logged(cache, caplog, monkeypatch):
    """Readers go on."""
    for number in range(11):
        cache.want(ref(number))
        cache.answer()
        cache.files.leave("r")

    def refuse(files, path):
        raise PermissionError(13, "refused", path)

    monkeypatch.setattr(RealFilesystem, "unlink", refuse)
    cache.want(ref(11))
    assert "cannot be removed" in caplog.text
    assert len(cache.submitted) == 1


def test_files_of_an_earlier_run_are_served_once_checked(tmp_path):
    """No file is served before the directory was looked through; then the worker checks the file, and fetches nothing."""
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
    """No file is removed and no chunk fetched until the existing ones are known."""
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
    """Each fill reports the free room; files without readers go at once."""
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
    """Cached chunks cost nothing; the reader is woken when its budget owes nothing any more."""
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


def test_reading_ahead_over_budget_makes_no_reader_wait(cache):
    """The reader has what it asked for; ahead of it nothing is fetched."""
    cache.rates = FetchRates(topic=10)
    assert cache.want(ref(0), ref(1))
    assert not cache.want(ref(3), ahead=True)
    assert cache.admission.throttle_ms("r") == 0
    assert len(cache.submitted) == 1


def test_a_reader_without_room_is_woken_when_there_is_some(cache):
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


def come(cache, first, reader, number=5):
    """The chunk that came with its table, under the number it turned out to have."""
    path = str(number).join(first)
    Path(path).write_bytes(b"c" * 10)
    filled = commands.FilledChunk(path, 10, *RIG.INDEX, 60)
    cache.files.end_first(PARTITION, ref(number).id, filled, reader)
    return path


def test_a_chunk_that_came_with_its_table_is_one_like_any_other(cache):
    """Served, counted, found again by its name after a restart; who reads near it gets no second one."""
    first = cache.files.begin_first(PARTITION, bytes(16), 4, "a")
    path = come(cache, first, "a")
    assert cache.woken == ["a"]
    assert Path(path).name.startswith(f"{TOPIC}.{OBJECT}.5.chunk.")
    chunk, file = cache.files.get(ref(5).id, "b")
    assert file.pread(chunk.length, 0) == b"c" * 10
    assert not cache.submitted
    assert [cache.files.begin_first(PARTITION, bytes(16), near, "b") for near in (4, 5, 6)] == [None] * 3
    assert cache.files.begin_first(PARTITION, bytes(16), 7, "b") is not None


def test_a_chunk_that_was_fetched_meanwhile_is_not_kept_twice(cache):
    """The manifest's guess of its number was wrong, or another reader was faster: its file goes."""
    first = cache.files.begin_first(PARTITION, bytes(16), 1, "a")
    cache.want(ref(5), reader="b")
    cache.answer()
    path = come(cache, first, "a")
    assert not Path(path).exists()
    assert cache.files.get(ref(5).id, "a") is not None


def test_no_chunk_comes_with_a_table_out_of_turn(cache):
    """A first chunk is refused over budget and while all fetches are under way."""
    cache.rates = FetchRates(broker=1)
    cache.files.admission.take("a", bytes(16), 1000)
    assert cache.files.begin_first(PARTITION, bytes(16), 1, "a") is None
    cache.rates = FetchRates()
    begun = 0
    while cache.files.begin_first(PARTITION, bytes(16), 10 * begun, "a") is not None:
        begun += 1
    assert begun == FILLS_MAX
    cache.want(ref(90), reader="b")
    assert not cache.submitted
    cache.files.end_first(PARTITION, ref(1).id, None, "a")
    assert len(cache.submitted) == 1
    assert cache.files.get(ref(1).id, "a") is None


def test_before_the_directory_was_looked_through_no_chunk_comes_with_a_table(tmp_path):
    """It may lie there."""
    cache = Cache(tmp_path / "cache", scanned=False)
    assert cache.files.begin_first(PARTITION, bytes(16), 1, "a") is None
