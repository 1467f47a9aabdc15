"""A data directory's memory of its bucket."""

import pytest

from stratalog.broker.archive.known_bucket import STARTS_MAX, KnownBucket, read_known_bucket, write_known_bucket
from stratalog.hot.storage.checkpoint import KNOWN_BUCKET
from stratalog.hot.storage.filesystem import RealFilesystem

FILES = RealFilesystem()


def test_the_remembered_bucket_is_read_again(tmp_path):
    """None before anything was."""
    assert read_known_bucket(FILES, str(tmp_path)) is None
    known = KnownBucket("id", "s3://b/p", incarnation=2).with_start("a", 10).with_start("b", 20).with_start("b", 30)
    assert (known.since_ms, known.starts) == (10, ("a", "b"))
    write_known_bucket(FILES, str(tmp_path), known)
    assert read_known_bucket(FILES, str(tmp_path)) == known


def test_a_file_of_an_earlier_release_names_no_incarnation(tmp_path):
    """It is read all the same."""
    (tmp_path / KNOWN_BUCKET).write_text('{"bucket_id": "id", "url": "", "starts": [], "since_ms": 0}')
    assert read_known_bucket(FILES, str(tmp_path)) == KnownBucket("id", "", 0)


def test_the_latest_starts_are_remembered():
    """A directory that is started for years keeps a small file."""
    known = KnownBucket()
    for number in range(STARTS_MAX + 5):
        known = known.with_start(str(number), number)
    assert (len(known.starts), known.starts[0], known.since_ms) == (STARTS_MAX, "5", 0)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"bucket_id": 1, "url": "", "starts": [], "since_ms": 0}'])
def test_a_damaged_file_is_an_error(tmp_path, text):
    """The caller decides."""
    (tmp_path / KNOWN_BUCKET).write_text(text)
    with pytest.raises(ValueError, match=r"."):
        read_known_bucket(FILES, str(tmp_path))
