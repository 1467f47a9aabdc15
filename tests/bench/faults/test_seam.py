"""A node's disk and clock obey the page; a power cut drops what was not synced."""

import subprocess
import sys
import time

import pytest

from bench.faults.seam import DiskMode, SeamPage, cut_power

PROGRAM = """
import sys
from bench.faults.seam import plant
plant(sys.argv[1])
from stratalog.broker.runtime.clock import SystemClock
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.hot.storage.kernel_sync import KernelSync
files, folder = RealFilesystem(), sys.argv[2]
exec(sys.argv[3])
"""


@pytest.fixture
def page(tmp_path):
    (tmp_path / "data").mkdir()
    return SeamPage(str(tmp_path / "node-1.seam"))


@pytest.fixture
def in_node(page, tmp_path):
    """Runs a program in a process with the seam; what it prints."""

    def run(program):
        command = [sys.executable, "-c", PROGRAM, page.path, str(tmp_path / "data"), program]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    return run


def sizes(folder):
    return {path.name: path.stat().st_size for path in sorted((folder / "data").iterdir())}


WRITE = """
file = files.open_append(folder + "/log")
file.writev([b"12345"])
file.fdatasync()
file.writev([b"678"])
"""


def test_bytes_that_were_not_synced_go_with_the_power(in_node, page, tmp_path):
    """Also those of a file that was never synced; its name stays."""
    in_node(WRITE + 'files.open_append(folder + "/other").writev([b"x"])')
    assert sizes(tmp_path) == {"log": 8, "other": 1}
    assert cut_power(page, tmp_path / "data") == 4
    assert sizes(tmp_path) == {"log": 5, "other": 0}


def test_a_kill_keeps_what_the_page_cache_has_and_a_later_cut_drops_it(in_node, page, tmp_path):
    """The next process has to sync what it found."""
    in_node(WRITE)
    in_node('files.open_append(folder + "/log").writev([b"9"])')
    assert sizes(tmp_path) == {"log": 9}
    assert cut_power(page, tmp_path / "data") == 4
    assert sizes(tmp_path) == {"log": 5}
    assert cut_power(page, tmp_path / "data") == 0


def test_the_next_process_can_sync_bytes_of_the_one_before(in_node, page, tmp_path):
    """Then they stay."""
    in_node(WRITE)
    in_node('files.open_read(folder + "/log").fdatasync()')
    assert cut_power(page, tmp_path / "data") == 0
    assert sizes(tmp_path) == {"log": 8}


def test_bytes_behind_a_cut_of_the_file_are_new(in_node, page, tmp_path):
    """They were not synced, though as many bytes once were."""
    in_node(WRITE + 'file.fdatasync(); file.truncate(2); file.writev([b"abc"])')
    assert cut_power(page, tmp_path / "data") == 3
    assert sizes(tmp_path) == {"log": 2}


def test_a_renamed_file_has_what_was_synced_of_it(in_node, page, tmp_path):
    """A file that takes the place of another one has nothing of that."""
    in_node(
        WRITE + 'files.open_append(folder + "/new").writev([b"xy"]); files.rename(folder + "/new", folder + "/log")'
    )
    assert cut_power(page, tmp_path / "data") == 2
    assert sizes(tmp_path) == {"log": 0}


@pytest.mark.parametrize(("mode", "fails"), [("BROKEN", {"write", "sync"}), ("FULL", {"write"}), ("WHOLE", set())])
def test_a_disk_that_is_broken_or_full_fails(in_node, page, mode, fails):
    """A full one still syncs."""
    page.set(DiskMode[mode])
    program = """
failed = []
import os
from stratalog.hot.storage.filesystem import RealFile
file = RealFile(os.open(folder + "/log", os.O_RDWR | os.O_APPEND | os.O_CREAT), folder + "/log")
for name, call in (("write", lambda: file.writev([b"1"])), ("sync", file.fdatasync)):
    try:
        call()
    except OSError:
        failed.append(name)
print(*failed)
"""
    assert set(in_node(program).split()) == fails


def test_a_slow_disk_takes_its_time(in_node, page):
    """For each sync."""
    page.set(DiskMode.SLOW, delay_ms=200)
    program = WRITE + "import time; at = time.monotonic(); file.fdatasync(); print(time.monotonic() - at)"
    assert float(in_node(program)) >= 0.2


def test_the_clock_of_a_node_is_ahead(in_node, page):
    """The mode of the disk stays."""
    page.set(DiskMode.SLOW, delay_ms=1)
    page.set_clock(-300_000)
    assert abs(int(in_node("print(SystemClock().wall_ms())")) - time.time() * 1000 + 300_000) < 60_000
    assert page.mode == DiskMode.SLOW


def test_threads_sync_so_that_each_sync_is_noted(in_node):
    """The kernel's own queue would pass by the port."""
    assert in_node("print(KernelSync.open(folder))") == "None"
