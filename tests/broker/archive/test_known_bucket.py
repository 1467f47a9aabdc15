"""A data directory's memory of its bucket."""

import pytest
from msgspec.structs import replace

from stratalog.broker.archive.known_bucket import STARTS_MAX, KnownBucket, read_known_bucket, write_known_bucket
from stratalog.hot.storage.checkpoint import KNOWN_BUCKET
from stratalog.hot.storage.filesystem import RealFilesystem

FILES = RealFilesystem()


def test_the_remembered_bucket_is_read_again(tmp_path):
    """None before anything was."""
    assert read_known_bucket(FILES, str(tmp_path)) is None
    known = KnownBucket("id", "s3://b/p", incarnation=2).with_start("a", 10).with_start("b", 20).with_start("b", 30)
    assert (known.since_ms, known.starts, known.times_ms) == (10, ("a", "b"), (10, 20))
    write_known_bucket(FILES, str(tmp_path), known)
    assert read_known_bucket(FILES, str(tmp_path)) == known


def test_a_file_of_an_earlier_release_names_no_incarnation_and_no_times(tmp_path):
    """It is read all the same."""
    (tmp_path / KNOWN_BUCKET).write_text('{"bucket_id": "id", "url": "", "starts": ["a"], "since_ms": 0}')
    known = read_known_bucket(FILES, str(tmp_path))
    assert known == KnownBucket("id", "", 0, ("a",))
    assert known.with_start("b", 5).times_ms == (-1, 5)


def test_the_latest_starts_are_remembered():
    """A directory that is started for years keeps a small file."""
    known = KnownBucket()
    for number in range(STARTS_MAX + 5):
        known = known.with_start(str(number), number)
    assert (len(known.starts), known.starts[0], len(known.times_ms)) == (STARTS_MAX, "5", STARTS_MAX)


@pytest.mark.parametrize(("noted", "first", "since_ms"), [("", "5", 50), ("0", "0", 60)])
def test_claims_from_before_the_remembered_starts_prove_nothing(noted, first, since_ms):
    """An idle partition is claimed by a start of long ago. That of the bucket's note is remembered, however old it is."""
    known = KnownBucket()
    for number in range(STARTS_MAX + 5):
        known = known.with_start(str(number), 10 * number, noted=noted)
    assert (known.starts[0], known.since_ms, len(known.starts)) == (first, since_ms, STARTS_MAX)
    old = replace(known, times_ms=(), since_ms=7)  # an earlier release has noted no times
    assert old.with_start("next", 1 << 40).since_ms == 7


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"bucket_id": 1, "url": "", "starts": [], "since_ms": 0}'])
def test_a_damaged_file_is_an_error(tmp_path, text):
    """The caller decides."""
    (tmp_path / KNOWN_BUCKET).write_text(text)
    with pytest.raises(ValueError, match=r"."):
        read_known_bucket(FILES, str(tmp_path))
