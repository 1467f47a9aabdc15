"""Tests of hot/storage/filesystem.py."""

import fcntl
import os

import pytest

from stratalog.hot.storage.filesystem import append_all


class Grudging:
    """A file that takes at most ``most`` bytes at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.data = b""

    def writev(self, buffers):
        taken = b"".join(buffers)[: self.most]
        self.data += taken
        return len(taken)


@pytest.mark.parametrize("most", [1, 3, 7, 1000])
def test_short_writes_are_continued_where_they_stopped(most):
    """All bytes arrive once and in order when a single write takes only some of them."""
    file = Grudging(most)
    assert append_all(file, [b"abc", bytearray(b""), memoryview(b"defghij")]) == 10
    assert file.data == b"abcdefghij"


def test_a_write_that_takes_nothing_is_an_error():
    """A write that takes no byte raises `OSError` instead of looping for ever."""
    with pytest.raises(OSError, match="took none"):
        append_all(Grudging(0), [b"abc"])


def test_more_buffers_than_one_call_may_carry_are_written(files, tmp_path):
    """The system's limit of 1,024 is not the caller's concern."""
    file = files.open_append(f"{tmp_path}/x")
    assert append_all(file, [bytes([number % 256]) for number in range(3000)]) == 3000
    assert file.pread(5000, 0) == bytes(number % 256 for number in range(3000))


def test_appends_go_to_the_end_also_after_a_truncation(files, tmp_path):
    """The position is the file's size, not the descriptor's."""
    file = files.open_append(f"{tmp_path}/x")
    file.writev([b"0123456789"])
    file.truncate(4)
    file.writev([b"ab"])
    file.fdatasync()
    file.drop_cache()
    assert files.read_bytes(f"{tmp_path}/x") == b"0123ab"
    assert file.size_bytes() == 6


def test_an_unlinked_file_stays_readable_while_it_is_held(files, tmp_path):
    """A slice in flight outlives the segment."""
    file = files.open_append(f"{tmp_path}/x")
    file.writev([b"data"])
    files.unlink(f"{tmp_path}/x")
    files.unlink(f"{tmp_path}/x")
    assert os.pread(file.fileno(), 4, 0) == b"data"


def test_a_file_closes_with_its_last_reference(files, tmp_path):
    """Descriptors do not leak, and a closed file says so."""
    file = files.open_append(f"{tmp_path}/x")
    descriptor = file.fileno()
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    file = files.open_read(f"{tmp_path}/x")
    file.close()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.fileno()


def test_files_are_renamed_and_unlinked_by_name(files, tmp_path):
    """Directories, renames over existing names, a sorted listing."""
    root = f"{tmp_path}/a/b"
    files.make_directory(root)
    files.make_directory(root)
    files.open_append(f"{root}/y").writev([b"new"])
    files.open_append(f"{root}/x").writev([b"oldest"])
    files.rename(f"{root}/y", f"{root}/x")
    files.make_directory(f"{root}/c")
    files.sync_directory(root)
    assert [(entry.name, entry.is_directory) for entry in files.scan(root)] == [("c", True), ("x", False)]
    assert files.scan(root)[1].size_bytes == 3
    files.remove_directory(f"{root}/c")
    files.remove_directory(f"{root}/c")
    with pytest.raises(FileNotFoundError):
        files.open_read(f"{root}/y")


@pytest.fixture
def cuts(monkeypatch):
    """The sizes to which files were cut."""
    sizes, ftruncate = [], os.ftruncate

    def cut(fd: int, size_bytes: int) -> None:
        sizes.append(size_bytes)
        ftruncate(fd, size_bytes)

    monkeypatch.setattr(os, "ftruncate", cut)
    return sizes


def _grants_leases(path) -> bool:
    with path.open("r+b") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            return False
    return True


def test_a_large_file_shrinks_before_it_goes(files, tmp_path, cuts):
    """Each step gives back a mebibyte; a small file goes at once, an absent one is fine."""
    (tmp_path / "large").write_bytes(bytes((3 << 20) + 5))
    (tmp_path / "small").write_bytes(bytes(1 << 20))
    if not _grants_leases(tmp_path / "large"):
        pytest.skip("this file system grants no leases: whether a file is open cannot be known")
    for name in ("large", "small", "absent"):
        files.unlink_gradually(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []
    assert cuts == [(2 << 20) + 5, (1 << 20) + 5, 5]


def test_files_with_readers_or_hard_links_do_not_shrink(files, tmp_path, cuts):
    """A reader keeps every byte, and so does a hard link, of a backup say."""
    data = os.urandom(3 << 20)
    for name in ("read", "linked"):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "backup").hardlink_to(tmp_path / "linked")
    reader = files.open_read(f"{tmp_path}/read")
    for name in ("read", "linked"):
        files.unlink_gradually(f"{tmp_path}/{name}")
    assert reader.pread(3 << 20, 0) == data
    assert (tmp_path / "backup").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]
    assert cuts == []


def test_unlinking_removes_links_and_refuses_directories(files, tmp_path):
    """A symbolic link goes, what it points to stays; a directory is no file."""
    target = tmp_path / "target"
    target.write_bytes(bytes(3 << 20))
    (tmp_path / "link").symlink_to(target)
    files.unlink_gradually(f"{tmp_path}/link")
    assert target.stat().st_size == 3 << 20
    with pytest.raises(OSError, match=r"directory|permitted"):
        files.unlink_gradually(str(tmp_path))


def test_only_wanted_suffixes_are_sized(files, tmp_path):
    """A listing of thousands of directories is mostly sizes."""
    for name in ("a.log", "b.index"):
        (tmp_path / name).write_bytes(b"1234")
    (tmp_path / "c").mkdir()
    every, some = files.scan(str(tmp_path)), files.scan(str(tmp_path), sized=(".log",))
    assert [(entry.name, entry.is_directory) for entry in every] == [("a.log", False), ("b.index", False), ("c", True)]
    assert [entry[:3] for entry in some] == [every[0][:3], ("b.index", 0, 0), ("c", 0, 0)]
    assert [entry.is_directory for entry in some] == [False, False, True]
    assert every[1].size_bytes == 4


def test_the_status_differs_after_each_kind_of_change(files, tmp_path):
    """A change of content, another file, other times: each shows."""
    path = tmp_path / "x"
    path.write_bytes(b"1")
    before = files.status(str(path))
    assert files.status(str(path)) == before
    assert before.size_bytes == 1
    os.utime(path, ns=(before.modified_ns, before.modified_ns))
    assert files.status(str(path)).changed_ns > before.changed_ns
    with pytest.raises(FileNotFoundError):
        files.status(f"{tmp_path}/y")
