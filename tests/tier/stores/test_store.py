"""The port's conformance suite: one set of tests over every store, and the rules for keys.

``pytest --store=URL`` runs it on that store instead of those in memory, in a directory, in moto's S3 and in fsspec.
"""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.source import crc32c_of
from stratalog.tier.stores.store import (
    AlreadyExists,
    ChecksumMismatch,
    FileRange,
    InvalidKey,
    InvalidRange,
    NotFound,
    ObjectStore,
    PreconditionFailed,
    StoreError,
    StoreUnavailable,
    validate_key,
    validate_metadata,
    validate_prefix,
)
from stratalog.wire.errors import Corrupt, Invalid, Retriable, StratalogError

EVERY = ("memory_store", "local_store", "s3_store", "fsspec_store")
MULTI_WRITER = ("memory_store", "local_store", "s3_store")


def pytest_generate_tests(metafunc):
    """Run a marked test over each store that its mark names, or over the one that was given."""
    mark = metafunc.definition.get_closest_marker("store")
    if mark is not None:
        given_names = ("given_store",) if metafunc.config.getoption("store") else mark.args[0]
        metafunc.parametrize("store", given_names, indirect=True)


@pytest.fixture
def store(request):
    """The store under test."""
    found = request.getfixturevalue(request.param)
    if request.node.get_closest_marker("store").args[0] is MULTI_WRITER and not found.capabilities.multi_writer:
        pytest.skip("the store makes no promise to more than one writer")
    return found


over = pytest.mark.store


@over(EVERY)
def test_put_bytes_are_read_back(store):
    """The bytes of the last put come back with its version, and other bytes have another version."""
    first = store.put("a/b", b"one")
    assert store.get("a/b") == (b"one", first)
    second = store.put("a/b", b"another")
    assert store.get("a/b") == (b"another", second)
    assert first != second
    assert isinstance(store, ObjectStore)


@over(EVERY)
@pytest.mark.parametrize(
    "data",
    [b"", bytearray(b"abc"), memoryview(b"xabcx")[1:4], [b"a", bytearray(b"b"), memoryview(b"c")], [], (b"abc",)],
    ids=["empty", "bytearray", "view", "several", "none", "one"],
)
def test_any_buffers_are_accepted(store, data):
    """A buffer of any kind or a sequence of them is stored as the bytes it stands for."""
    expected = b"".join(data) if isinstance(data, (list, tuple)) else bytes(data)
    store.put("k", data)
    assert store.get("k")[0] == expected


@over(EVERY)
def test_missing_objects_are_not_found(store):
    """Every read of a missing object says the operation, the key and the store."""
    store.put("there/below", b"1")
    for name, read in {
        "get": store.get,
        "head": store.head,
        "get_range": lambda key: store.get_range(key, 0, 1),
        "get_suffix": lambda key: store.get_suffix(key, 1),
    }.items():
        for key in ("missing", "there", "there/below/deeper"):
            with pytest.raises(NotFound) as caught:
                read(key)
            assert name in str(caught.value)
            assert key in str(caught.value)


@over(EVERY)
def test_a_second_create_is_refused(store):
    """put_if_absent leaves an existing object alone."""
    version = store.put_if_absent("k", b"first")
    with pytest.raises(AlreadyExists, match=r"put_if_absent.*'.*k'"):
        store.put_if_absent("k", b"second")
    assert store.get("k") == (b"first", version)


@over(EVERY)
def test_create_works_again_after_delete(store):
    """A deleted key is absent for put_if_absent."""
    store.put_if_absent("k", b"first")
    store.delete_many(["k"])
    store.put_if_absent("k", b"second")
    assert store.get("k")[0] == b"second"


@over(MULTI_WRITER)
def test_a_create_race_has_one_winner(store):
    """If many threads create one key, exactly one succeeds, and its bytes are there."""

    def create(key, writer):
        start.wait()
        try:
            store.put_if_absent(key, f"{writer}".encode() * 1000)
        except AlreadyExists:
            return None
        return writer

    for turn in range(5):
        start = threading.Barrier(8)
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(create, [f"race/{turn}"] * 8, range(8)))
        winners = [writer for writer in results if writer is not None]
        assert len(winners) == 1
        assert store.get(f"race/{turn}")[0] == f"{winners[0]}".encode() * 1000


@over(EVERY)
def test_a_swap_needs_the_current_version(store):
    """compare_and_swap replaces the expected version; a stale one and a missing object are refused."""
    first = store.put("k", b"first")
    second = store.compare_and_swap("k", b"second", first)
    assert store.get("k") == (b"second", second)
    with pytest.raises(PreconditionFailed, match="compare_and_swap"):
        store.compare_and_swap("k", b"third", first)
    with pytest.raises(PreconditionFailed):
        store.compare_and_swap("missing", b"third", first)
    assert store.get("k") == (b"second", second)
    with pytest.raises(NotFound):
        store.get("missing")


@pytest.mark.story
@over(MULTI_WRITER)
def test_swaps_lose_no_update(store):
    """Threads that count by compare_and_swap reach the sum of their steps."""
    store.put("counter", b"0")

    def count(steps):
        while steps:
            data, version = store.get("counter")
            try:
                store.compare_and_swap("counter", b"%d" % (int(data) + 1), version)
            except PreconditionFailed:
                continue
            steps -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, [8] * 4))
    assert store.get("counter")[0] == b"32"


@over(MULTI_WRITER)
def test_readers_never_see_a_part_of_an_object(store):
    """While an object is replaced over and over, every read is one whole version."""
    store.put("k", b"0" * 50_000)
    done = threading.Event()

    def rewrite():
        for turn in range(30):
            store.put("k", b"%d" % (turn % 10) * 50_000)
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not done.is_set():
        data = store.get("k")[0]
        assert len(data) == 50_000
        assert data.count(data[:1]) == 50_000
    writer.join()


@over(EVERY)
def test_ranges_are_exact(store):
    """get_range returns the bytes asked for; beyond the end and malformed ranges are refused."""
    body = bytes(range(256)) * 4
    store.put("k", body)
    assert store.get_range("k", 0, 1) == body[:1]
    assert store.get_range("k", 100, 300) == body[100:400]
    assert store.get_range("k", 1000, 24) == body[1000:]
    for position, length in ((1000, 25), (1024, 1), (5000, 10), (-1, 5), (0, 0)):
        with pytest.raises(InvalidRange, match="get_range"):
            store.get_range("k", position, length)


@over(EVERY)
def test_a_suffix_comes_with_the_total_size(store):
    """get_suffix returns the end of the object, or all of a shorter one, and the object's size."""
    store.put("k", b"0123456789")
    store.put("empty", b"")
    assert store.get_suffix("k", 3) == (b"789", 10)
    assert store.get_suffix("k", 10) == (b"0123456789", 10)
    assert store.get_suffix("k", 64) == (b"0123456789", 10)
    assert store.get_suffix("empty", 64) == (b"", 0)
    with pytest.raises(InvalidRange):
        store.get_suffix("k", 0)


@over(EVERY)
def test_head_describes_the_object(store):
    """head gives size, version and a plausible time of modification."""
    version = store.put("k", b"12345")
    info = store.head("k")
    assert (info.key, info.size_bytes, info.version) == ("k", 5, version)
    assert info.modified_ms > 1_600_000_000_000


@over(MULTI_WRITER)
def test_metadata_and_checksum_make_the_round_trip(store):
    """User metadata of the last write and the object's CRC-32C come back from head."""
    version = store.put_if_absent("k", b"12345", metadata={"writer-epoch": "7", "put-id": "a b=c/d"})
    info = store.head("k")
    assert {"writer-epoch": "7", "put-id": "a b=c/d"}.items() <= info.metadata.items()
    assert info.crc32c == (crc32c_of(b"12345") if store.capabilities.checksums else None)
    version = store.compare_and_swap("k", b"67890", version, metadata={"writer-epoch": "8"})
    assert store.head("k").metadata["writer-epoch"] == "8"
    store.put("k", b"67890")
    assert "writer-epoch" not in store.head("k").metadata


@over(EVERY)
def test_a_wrong_checksum_is_refused_or_reported(store, request):
    """A wrong CRC-32C stores nothing; of a service that does not check, the probe says so."""
    body = b"some bytes"
    try:
        store.put("k", body, crc32c=crc32c_of(body) ^ 1)
    except ChecksumMismatch as error:
        assert isinstance(error, Corrupt)
        with pytest.raises(NotFound):
            store.get("k")
    else:
        assert request.node.callspec.params["store"] in {"s3_store", "given_store"}
        assert not probe(store).capabilities.checksums
    store.put("k", body, crc32c=crc32c_of(body))
    assert store.get("k")[0] == body


@over(EVERY)
def test_listings_are_in_utf8_order(store):
    """Keys come in the order of their bytes, whatever directories they share, from any prefix and after any key."""
    keys = ["a-", "a.b", "a/0", "a/b/c", "a/b/d", "a/b0", "ab", "b/\u00e9", "b/\uffee", "b/\U0001f600", "z z", "~"]
    for key in reversed(keys):
        store.put(key, key.encode())
    assert keys == sorted(keys, key=str.encode)
    for prefix in ("", "a", "a/", "a/b", "a/b/", "b/", "nothing"):
        expected = [key for key in keys if key.startswith(prefix)]
        found = list(store.list(prefix))
        assert [info.key for info in found] == expected
        assert [info.size_bytes for info in found] == [len(key.encode()) for key in expected]
        for after in ("a/b", "a/b/c", "a/b/", "b"):
            rest = [key for key in expected if key.encode() > after.encode()]
            assert [info.key for info in store.list(prefix, after)] == rest


@over(EVERY)
def test_deleting_is_idempotent(store):
    """delete_many removes what is there and does not mind what is not."""
    for key in ("d/1", "d/2", "d/3"):
        store.put(key, b"x")
    store.delete_many(["d/1", "d/missing", "d/3", "e/never"])
    store.delete_many(["d/1"])
    store.delete_many([])
    assert [info.key for info in store.list("d/")] == ["d/2"]


@over(EVERY)
def test_large_objects_come_from_buffers_and_file_ranges(store, tmp_path):
    """put_large joins buffers and ranges of files in order."""
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(range(256)) * 100)
    source = [b"head", FileRange(str(path), 10, 5000), memoryview(b"tail"), FileRange(str(path), 0, 1)]
    version = store.put_large("k", source, part_bytes=1000, metadata={"kind": "seg"})
    assert store.get("k") == (b"head" + (bytes(range(256)) * 100)[10:5010] + b"tail\0", version)
    store.put_large("one", FileRange(str(path), 256, 256), part_bytes=1 << 20)
    assert store.get("one")[0] == bytes(range(256))


@over(EVERY)
def test_a_source_that_fails_leaves_nothing(store, tmp_path):
    """A file shorter than its range is corruption: the object does not appear and no upload stays behind."""
    path = tmp_path / "segment.log"
    path.write_bytes(b"x" * 100)
    with pytest.raises(Corrupt, match=r"segment\.log ends at byte 100"):
        store.put_large("k", [b"head", FileRange(str(path), 50, 100)], part_bytes=64)
    with pytest.raises(NotFound):
        store.head("k")
    assert list(store.list("")) == []
    assert list(store.list_uploads("")) == []


@over(EVERY)
def test_aborting_an_unknown_upload_is_done_already(store):
    """abort_upload of something that is not there succeeds."""
    store.abort_upload("k", "no-such-upload-id-1234567890")


@over(EVERY)
def test_bad_keys_and_metadata_are_refused_alike(store):
    """No store takes a key or metadata that another could not keep."""
    for key in ("", "/a", "a/", "a//b", "a/../b", "./a", ".hidden/a", "a\nb", "a\\b", "x" * 256, "y/" * 512 + "z"):
        for call in (lambda key: store.put(key, b""), store.get, lambda key: store.delete_many([key])):
            with pytest.raises(InvalidKey):
                call(key)
    for metadata in ({"Upper": "x"}, {"a_b": "x"}, {"a": "\u00e9"}, {"a": " x"}, {"a": "b\n"}, {"a": "x" * 2048}):
        with pytest.raises(InvalidKey):
            store.put("k", b"", metadata=metadata)
    with pytest.raises(InvalidKey):
        list(store.list("../outside"))
    assert list(store.list("")) == []


@over(MULTI_WRITER)
def test_the_probe_is_content(store, request):
    """A store of ours passes its own probe, and the probe leaves nothing behind."""
    report = probe(store)
    report.require(multi_writer=True)
    if request.node.callspec.params["store"] != "given_store":
        is_moto = request.node.callspec.params["store"] == "s3_store"
        assert report.capabilities.checksums is not is_moto
    assert list(store.list("")) == []


def test_errors_survive_a_process_boundary():
    """A pickled store error keeps its class, fields and text, so that a worker can hand it to the broker."""
    error = StoreUnavailable("get", "a/b", "s3://bucket", "timed out")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is StoreUnavailable
    assert str(copy) == str(error) == "get 'a/b' in s3://bucket: timed out. " + StoreUnavailable.default_advice
    assert (copy.operation, copy.key, copy.url, copy.reason) == ("get", "a/b", "s3://bucket", "timed out")


def test_errors_belong_to_the_trees():
    """Callers that only know the rooms' four kinds of error know what to do about a store's."""
    assert issubclass(StoreError, StratalogError)
    assert issubclass(StoreUnavailable, Retriable)
    assert issubclass(ChecksumMismatch, Corrupt)
    for kind in (InvalidKey, InvalidRange):
        assert issubclass(kind, Invalid)
    for kind in (NotFound, AlreadyExists, PreconditionFailed):
        assert not issubclass(kind, Retriable)


PARTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1, max_size=20)


@given(st.lists(PARTS.filter(lambda part: part.strip(".")), min_size=1, max_size=5))
def test_ordinary_keys_are_valid(parts):
    """Any parts of printable text make a key, unless the first begins with a dot; what precedes a slash is a prefix."""
    key = "/".join(parts)
    if key.startswith("."):
        with pytest.raises(InvalidKey, match="dot"):
            validate_key("put", key, "memory:")
    else:
        validate_key("put", key, "memory:")
        validate_prefix("list", key + "/", "memory:")


def test_metadata_is_copied():
    """validate_metadata returns a dictionary of its own, so that a caller's later change does not reach the store."""
    given_metadata = {"put-id": "1"}
    kept = validate_metadata("put", "k", "memory:", given_metadata)
    given_metadata["put-id"] = "2"
    assert kept == {"put-id": "1"}
    assert validate_metadata("put", "k", "memory:", None) == {}
