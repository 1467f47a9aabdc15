"""A disk that loses power: what was synced stays, the rest may be anything between nothing and all of it."""

import errno
import random

import pytest

from sim.under.disk import Disk, SimFilesystem
from sim.under.process import Killed, Process

SEEDS = 200


@pytest.fixture
def new_disk(tmp_path):
    """Makes disks: one more directory each, and the files of a process on it."""

    def new(seed: int = 0):
        root = tmp_path / f"disk{seed}"
        root.mkdir()
        disk = Disk(str(root), random.Random(seed), lambda: 1_700_000_000_000)
        process = Process("writer")
        return disk, SimFilesystem(disk, process), process

    return new


def content_after_power_cuts(new_disk, work):
    """Contents that the file ``root/f`` may have after ``work`` and a power cut; None if it has no name any more."""
    found = set()
    for seed in range(SEEDS):
        disk, files, _ = new_disk(seed)
        work(files, disk.root)
        disk.cut_power()
        try:
            found.add(files.read_bytes(f"{disk.root}/f"))
        except FileNotFoundError:
            found.add(None)
    return found


def test_synced_bytes_survive_a_power_cut(new_disk):
    """Bytes with their file, the name with its directory."""

    def work(files, root):
        file = files.open_append(f"{root}/f")
        file.writev([b"ab", b"c"])
        file.fdatasync()
        files.sync_directory(root)

    assert content_after_power_cuts(new_disk, work) == {b"abc"}


def test_unsynced_bytes_may_be_lost_or_torn(new_disk):
    """No bytes, all, a part, or zeros where bytes should be; earlier bytes stay."""

    def work(files, root):
        file = files.open_append(f"{root}/f")
        file.writev([b"abc"])
        file.fdatasync()
        files.sync_directory(root)
        file.writev([b"defg"])

    found = content_after_power_cuts(new_disk, work)
    assert {b"abc", b"abcdefg", b"abcd", b"abc\0\0\0\0"} <= found
    assert all(content.startswith(b"abc") for content in found)


def test_a_name_may_be_lost_while_its_bytes_are_safe(new_disk):
    """Its directory was not synced."""

    def work(files, root):
        file = files.open_append(f"{root}/f")
        file.writev([b"abc"])
        file.fdatasync()

    assert content_after_power_cuts(new_disk, work) == {None, b"abc"}


def test_a_renaming_happens_or_does_not(new_disk):
    """The file has its old or its new name, never none."""

    def work(files, root):
        for name, data in (("f", b"old"), ("new", b"new")):
            file = files.open_append(f"{root}/{name}")
            file.writev([data])
            file.fdatasync()
        files.sync_directory(root)
        files.rename(f"{root}/new", f"{root}/f")

    assert content_after_power_cuts(new_disk, work) == {b"old", b"new"}


def test_directories_are_renamed_with_what_is_in_them(new_disk):
    """Durable with the sync of their parent, whatever their name is then."""
    for seed in range(SEEDS):
        disk, files, _ = new_disk(seed)
        root = disk.root
        files.make_directory(f"{root}/d/e")
        file = files.open_append(f"{root}/d/e/f")
        file.writev([b"abc"])
        file.fdatasync()
        for directory in (f"{root}/d/e", f"{root}/d", root):
            files.sync_directory(directory)
        files.rename(f"{root}/d/e", f"{root}/d/x")
        disk.cut_power()
        (entry,) = files.scan(f"{root}/d")
        assert files.read_bytes(f"{root}/d/{entry.name}/f") == b"abc"
        assert entry.is_directory


def test_a_kill_leaves_the_page_cache(new_disk):
    """And the dead write nothing more."""
    disk, files, process = new_disk()
    file = files.open_append(f"{disk.root}/f")
    file.writev([b"abc"])
    process.kill()
    for change in (lambda: file.writev([b"d"]), file.fdatasync, lambda: files.unlink(f"{disk.root}/f")):
        with pytest.raises(Killed):
            change()
    assert SimFilesystem(disk, Process("heir")).read_bytes(f"{disk.root}/f") == b"abc"


def test_a_death_in_the_middle(new_disk):
    """The third change from now on is not done any more."""
    disk, files, process = new_disk()
    disk.crash_in, disk.crashed = 3, lambda one: one.kill()
    file = files.open_append(f"{disk.root}/f")
    file.writev([b"a"])
    with pytest.raises(Killed):
        file.writev([b"b"])
    assert not process.alive
    assert SimFilesystem(disk, Process("heir")).read_bytes(f"{disk.root}/f") == b"a"


def test_a_failed_sync_loses_what_it_should_have_kept(new_disk):
    """The page cache goes on showing it, and the next sync says that all is well."""
    disk, files, _ = new_disk()
    file = files.open_append(f"{disk.root}/f")
    file.writev([b"abc"])
    file.fdatasync()
    file.writev([b"def"])
    disk.failing_syncs = 1
    with pytest.raises(OSError, match="does not answer"):
        file.fdatasync()
    file.fdatasync()
    assert file.pread(10, 0) == b"abcdef"
    file.drop_cache()
    assert (file.pread(10, 0), file.size_bytes()) == (b"abc", 3)


def test_a_full_disk_takes_what_it_has_room_for(new_disk):
    """Then nothing, not even a new file."""
    disk, files, _ = new_disk()
    file = files.open_append(f"{disk.root}/f")
    disk.free_bytes = 2
    assert file.writev([b"abc"]) == 2
    for change in (lambda: file.writev([b"c"]), lambda: files.open_append(f"{disk.root}/g")):
        with pytest.raises(OSError, match="no space") as failure:
            change()
        assert failure.value.errno == errno.ENOSPC
    assert file.size_bytes() == 2


def test_files_that_were_there_before_are_durable(new_disk):
    """A directory that was formatted; an empty disk in its place has none of them."""
    disk, files, _ = new_disk()
    files.make_directory(f"{disk.root}/log")
    with open(f"{disk.root}/log/f", "wb") as file:  # noqa: PTH123 - paths are strings here
        file.write(b"formatted")
    disk.take_up()
    disk.cut_power()
    assert files.read_bytes(f"{disk.root}/log/f") == b"formatted"
    assert [entry.name for entry in files.scan(f"{disk.root}/log")] == ["f"]
    disk.wipe()
    assert files.scan(disk.root) == []
    with pytest.raises(FileNotFoundError):
        files.read_bytes(f"{disk.root}/log/f")
