"""`stratalog.hot.storage.removal`: what was renamed for deletion goes, and nothing else."""

from pathlib import Path

import pytest

from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.hot.storage.removal import DirectoryRemoval, FileRemoval


def test_only_the_doomed_files_are_removed(tmp_path):
    """Running it again, after a failure say, is fine."""
    for name in "abc":
        (tmp_path / name).write_text(name)
    removal = FileRemoval(RealFilesystem(), [f"{tmp_path}/a", f"{tmp_path}/gone", f"{tmp_path}/b"])
    removal.run()
    removal.run()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_directory_goes_with_its_files(tmp_path):
    """Running it again is fine."""
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    (doomed / "a").write_text("a")
    (tmp_path / "kept").write_text("b")
    removal = DirectoryRemoval(RealFilesystem(), str(doomed))
    assert removal.path == str(doomed)
    removal.run()
    removal.run()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_file_that_cannot_be_removed_raises(tmp_path):
    """A directory is no file of ours."""
    Path(tmp_path, "d").mkdir()
    with pytest.raises(OSError, match=r"directory|permitted"):
        FileRemoval(RealFilesystem(), [f"{tmp_path}/d"]).run()


def test_names_are_durable_before_a_file_is_touched(tmp_path, watched_files):
    """A file that comes back under its old name after a crash may not have shrunk."""
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    for name in "ab":
        (doomed / name).write_text(name)
    FileRemoval(watched_files, [f"{doomed}/a"]).run()
    DirectoryRemoval(watched_files, str(doomed)).run()
    assert watched_files.calls == [
        ("sync", str(doomed)),
        ("unlink", f"{doomed}/a"),
        ("sync", str(tmp_path)),
        ("unlink", f"{doomed}/b"),
    ]


def test_removal_from_a_vanished_directory_succeeds(tmp_path):
    """Its partition was deleted between the decision and the removal."""
    FileRemoval(RealFilesystem(), [f"{tmp_path}/deleted/a"]).run()
