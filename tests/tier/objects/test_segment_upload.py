from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.tier.objects.segment_object import FileRange, SegmentRequest, build_segment
from stratalog.tier.objects.segment_upload import ObjectDiffers, put_segment, release_pages, verify_object
from stratalog.tier.stores.source import as_bytes
from stratalog.tier.stores.store import ChecksumMismatch, ConfirmedVersion


@pytest.fixture
def built(log_bytes, tmp_path):
    """Builds an object from a file."""
    path = tmp_path / "0.log"
    path.write_bytes(log_bytes.segment(0, 20))

    def make():
        source = (FileRange(str(path), 0, path.stat().st_size),)
        return build_segment(SegmentRequest(log_bytes.partition, bytes(16), 0, 200, 5, source))

    return make


@pytest.mark.parametrize("single_put_bytes_max", [0, 1 << 26])
def test_the_stored_object_is_the_built_one(memory_store, built, single_put_bytes_max):
    """By one PUT or in parts, from the files."""
    segment = built()
    entry = put_segment(memory_store, segment, single_put_bytes_max=single_put_bytes_max)
    assert memory_store.get(entry.key)[0] == as_bytes(segment.source)
    assert memory_store.head(entry.key).crc32c == entry.crc32c


def test_an_attempt_repeated_after_a_lost_reply_succeeds(memory_store, built):
    """The object under our own key is compared, not overwritten."""
    segment = built()
    put_segment(memory_store, segment)
    version = memory_store.head(segment.entry.key).version
    assert put_segment(memory_store, segment) == segment.entry
    assert memory_store.head(segment.entry.key).version == version


@pytest.mark.parametrize("stored", [b"short", None])
def test_something_else_under_our_key_is_never_committed(memory_store, built, stored):
    """Another length or other bytes of the same length: the HEAD finds both (rule 4)."""
    segment = built()
    data = as_bytes(segment.source)
    memory_store.put(segment.entry.key, stored or bytes(len(data)))
    with pytest.raises(ObjectDiffers):
        put_segment(memory_store, segment)


class Confirming:
    """A store whose answers say, or leave out, which CRC-32C it holds; counts the HEADs."""

    def __init__(self, store, version):
        self._store = store
        self._version = version
        self.heads = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_if_absent(self, *args, **options):
        """As the store's, with another version."""
        self._store.put_if_absent(*args, **options)
        return self._version

    def put_large(self, *args, **options):
        """As the store's, with another version."""
        self._store.put_large(*args, **options)
        return self._version

    def head(self, key):
        """As the store's, counted."""
        self.heads += 1
        return self._store.head(key)


@pytest.mark.parametrize(
    ("version", "single_put_bytes_max", "heads"),
    [(ConfirmedVersion("v"), 1 << 26, 0), ("v", 1 << 26, 1), (ConfirmedVersion("v"), 0, 1)],
)
def test_a_head_follows_unless_the_answer_was_clear(memory_store, built, version, single_put_bytes_max, heads):
    """A request less where the store has said what it holds of what we checked; parts are counted anew."""
    store = Confirming(memory_store, version)
    put_segment(store, built(), single_put_bytes_max=single_put_bytes_max)
    assert store.heads == heads


@pytest.mark.parametrize(("single_put_bytes_max", "error"), [(1 << 26, ChecksumMismatch), (0, ObjectDiffers)])
def test_files_that_change_between_check_and_upload_are_never_committed(
    memory_store, built, single_put_bytes_max, error
):
    """Sent bytes are compared with the checked ones, in one PUT and in parts, however sure the store is of it."""
    segment = built()
    with Path(segment.source[0].path).open("r+b") as file:
        file.seek(100)
        file.write(b"!")
    with pytest.raises(error):
        put_segment(Confirming(memory_store, ConfirmedVersion("v")), segment, single_put_bytes_max=single_put_bytes_max)


class WithoutChecksums:
    """A store that keeps no CRC-32C."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def head(self, key):
        """As the store's, without the checksum."""
        return replace(self._store.head(key), crc32c=None)


def test_a_store_without_checksums_is_read_back(memory_store, built):
    """Footer, chunk table and one chunk stand in for the CRC."""
    weak = WithoutChecksums(memory_store)
    entry = put_segment(weak, built())
    data = bytearray(memory_store.get(entry.key)[0])
    data[entry.data_bytes - 1] ^= 1
    memory_store.put(entry.key, bytes(data))
    with pytest.raises(Exception, match="CRC-32C"):
        verify_object(weak, entry)
    with pytest.raises(ObjectDiffers, match="bytes"):
        verify_object(weak, replace(entry, size_bytes=entry.size_bytes + 1))
    other = replace(entry, uuid=bytes([1] * 16))
    with pytest.raises(ObjectDiffers, match="another object"):
        verify_object(weak, other)


def test_page_cache_is_given_back(built):
    """Files are read again afterwards as if nothing had happened."""
    segment = built()
    before = as_bytes(segment.source)
    release_pages(segment.source)
    assert as_bytes(segment.source) == before
