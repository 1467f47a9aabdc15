"""Directories that may take a restored one, and those that may not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stratalog.broker.restore.restorer import check_target
from stratalog.wire.errors import Invalid


def test_a_directory_with_something_in_it_is_not_touched(tmp_path):
    """A directory with a file in it is refused; an empty or absent one is taken."""
    (tmp_path / "kept").mkdir()
    check_target(str(tmp_path / "kept"))
    check_target(str(tmp_path / "new"))
    (tmp_path / "kept" / "file").write_text("x")
    with pytest.raises(Invalid, match="not empty"):
        check_target(str(tmp_path / "kept"))


def test_other_directories_that_cannot_be_written_to_are_refused(tmp_path, monkeypatch):
    """They are formatted at the end, when the archives are taken over: be they there, or still to be made."""
    (tmp_path / "shut").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path / "shut")
    check_target(str(tmp_path / "data"), str(tmp_path / "data"), str(tmp_path / "other"))
    for other in ("shut", "shut/new"):
        with pytest.raises(Invalid, match=f"shut cannot be written to, which .*/{other} needs"):
            check_target(str(tmp_path / "data"), str(tmp_path / other))


def test_a_volume_is_named_as_one_though_its_file_system_has_put_a_folder_there(tmp_path, monkeypatch):
    """To be told that it is not empty would be no help."""
    (tmp_path / "volume" / "lost+found").mkdir(parents=True)
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "volume")
    with pytest.raises(Invalid, match=r"is a mount point.* below it, as .*volume/data"):
        check_target(str(tmp_path / "volume"))
