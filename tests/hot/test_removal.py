"""`stratalog.hot.removal`: what was renamed for deletion goes, and nothing else."""

from pathlib import Path

import pytest

from stratalog.hot.filesystem import RealFilesystem
from stratalog.hot.removal import DirectoryRemoval, FileRemoval


def test_the_files_go_and_those_beside_them_stay(tmp_path):
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


def test_what_cannot_be_removed_is_heard(tmp_path):
    """A directory is no file of ours."""
    Path(tmp_path, "d").mkdir()
    with pytest.raises(OSError, match=r"directory|permitted"):
        FileRemoval(RealFilesystem(), [f"{tmp_path}/d"]).run()
