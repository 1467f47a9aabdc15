import asyncio
import errno
import os

import pytest

from stratalog.broker.network import page_cache
from stratalog.broker.network.page_cache import PROBE_STEP_BYTES, PageCache, pages_resident, read_resident


@pytest.fixture
def file(tmp_path):
    """A file of 1 MiB, just written and so in memory."""
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    with path.open("rb") as opened:
        yield opened


def test_written_pages_are_resident(file):
    """A range that is in the page cache is reported as such, single bytes and borders included."""
    for position, length in ((0, 1 << 20), (0, 1), ((1 << 20) - 1, 1), (12345, 700_000)):
        assert pages_resident(file.fileno(), position, length)


def test_probes_cover_the_range_in_steps_and_its_last_byte(monkeypatch):
    """One byte every 128 KiB and the last one are looked at, no more."""
    seen = []
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, position, flags: seen.append((position, flags)) or 1)
    assert pages_resident(3, 1000, 300_000)
    positions = [position for position, _ in seen]
    assert positions == [1000, 1000 + PROBE_STEP_BYTES, 1000 + 2 * PROBE_STEP_BYTES, 300_999]
    assert {flags for _, flags in seen} == {os.RWF_NOWAIT}


@pytest.mark.parametrize(
    ("error", "answer"), [(errno.EAGAIN, False), (errno.EOPNOTSUPP, True), (errno.EINVAL, True), (errno.ENOSYS, True)]
)
def test_a_miss_is_not_resident_and_a_file_system_that_cannot_tell_is(monkeypatch, error, answer):
    """EAGAIN is a miss; a kernel or file system without the flag counts as memory."""

    def preadv(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "preadv", preadv)
    assert pages_resident(3, 0, 10) is answer


def test_other_errors_are_raised(monkeypatch):
    """A disk error is no cache miss."""

    def preadv(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "preadv", preadv)
    for ask in (pages_resident, read_resident):
        with pytest.raises(OSError, match="broken"):
            ask(3, 0, 10)


def test_bytes_in_memory_are_read_at_once(file):
    """Exactly the range; nothing if the file ends before it does."""
    content = os.pread(file.fileno(), 1 << 20, 0)
    for position, length in ((0, 1), (4000, 2000), ((1 << 20) - 1, 1)):
        assert read_resident(file.fileno(), position, length) == content[position : position + length]
    assert read_resident(file.fileno(), (1 << 20) - 1, 2) is None


@pytest.mark.parametrize(
    ("error", "readable"), [(errno.EAGAIN, False), (errno.EOPNOTSUPP, True), (errno.EINVAL, True), (errno.ENOSYS, True)]
)
def test_bytes_that_may_be_on_the_disk_only_are_not_read(file, monkeypatch, error, readable):
    """Unless that cannot be found out."""

    def preadv(*_):
        raise OSError(error, os.strerror(error))

    content = os.pread(file.fileno(), 10, 5)
    monkeypatch.setattr(os, "preadv", preadv)
    assert read_resident(file.fileno(), 5, 10) == (content if readable else None)
    assert read_resident(file.fileno(), 1 << 20, 10) is None


async def test_reading_ahead_reads_the_range_and_reports_on_the_loop(file, monkeypatch):
    """Exactly the range is read, in a thread; the callback comes on the loop."""
    ranges = []
    preadv = os.preadv

    def record(descriptor, buffers, position):
        count = preadv(descriptor, buffers, position)
        ranges.append((position, count))
        return count

    monkeypatch.setattr(page_cache.os, "preadv", record)
    cache = PageCache(asyncio.get_running_loop())
    done = asyncio.get_running_loop().create_future()
    cache.read_ahead(file, 1000, 600_000, done.set_result)
    assert await asyncio.wait_for(done, 10) is None
    cache.close()
    assert ranges[0][0] == 1000
    assert sum(count for _, count in ranges) >= 600_000


async def test_reading_beyond_the_end_ends_and_errors_are_reported(file):
    """A range past the end of the file is no error here; a closed file is one."""
    loop = asyncio.get_running_loop()
    cache = PageCache(loop)
    done = loop.create_future()
    cache.read_ahead(file, 1 << 20, 10, done.set_result)
    assert await asyncio.wait_for(done, 10) is None

    class Closed:
        def fileno(self):
            return 1 << 20

    done = loop.create_future()
    cache.read_ahead(Closed(), 0, 10, done.set_result)
    assert isinstance(await asyncio.wait_for(done, 10), OSError)
    cache.close()
