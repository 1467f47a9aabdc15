"""Tests of hot/storage/registration_mark.py; tests/broker/lifecycle/test_registration_marks.py has those of a broker."""

from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.hot.storage.registration_mark import (
    REGISTRATION,
    read_registration,
    remove_registration,
    write_registration,
)


def test_a_mark_is_there_until_it_is_taken_away(tmp_path):
    """It is replaced whole, and a directory without it has none."""
    files, path = RealFilesystem(), str(tmp_path)
    assert read_registration(files, path) == -1
    write_registration(files, path, 7)
    write_registration(files, path, 12)
    assert (read_registration(files, path), [one.name for one in tmp_path.iterdir()]) == (12, [REGISTRATION])
    remove_registration(files, path)
    assert (read_registration(files, path), list(tmp_path.iterdir())) == (-1, [])
    remove_registration(files, path)
