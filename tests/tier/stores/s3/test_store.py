"""The S3 store against faults on the wire: lost answers, damage, conflicts, pages."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

import stratalog.tier.stores.s3.store as store_module
from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.s3.multipart import PART_BYTES_MIN
from stratalog.tier.stores.s3.store import S3Store
from stratalog.tier.stores.source import SourceUnreadable, crc32c_of
from stratalog.tier.stores.store import (
    PUT_ID,
    AlreadyExists,
    ChecksumMismatch,
    FileRange,
    NotFound,
    PreconditionFailed,
    StoreDenied,
    StoreUnavailable,
)
from stratalog.wire.errors import Corrupt

pytestmark = pytest.mark.store
LOST = ("drop_after_commit", "fail_after_commit")


@pytest.mark.story
@pytest.mark.parametrize("retry", [None, "quick"], ids=["sdk", "ours"])
@pytest.mark.parametrize("action", LOST)
def test_a_lost_create_is_recognised(fault_proxy, action, retry):
    """A create whose answer was lost succeeds when the repetition is refused because of itself."""
    store = fault_proxy.open(**({"retry": None} if retry is None else {}))
    fault_proxy.rules({"action": action, "method": "PUT", "status": 500, "code": "InternalError"})
    version = store.put_if_absent("k", b"mine")
    assert len(fault_proxy.seen("PUT")) == 2
    assert store.get("k") == (b"mine", version)


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_file_that_cannot_be_sent_is_no_fault_of_the_service(s3_service, tmp_path, damage):
    """An HTTP client takes it for a broken connection: it would be tried again and again, and the bucket blamed for it."""
    store, file = s3_service.open("file"), tmp_path / "a.log"
    file.write_bytes(b"x" * 1000)
    source = [FileRange(str(file), 0, 1000), b"tail"]
    crc = crc32c_of(b"x" * 1000 + b"tail")
    file.write_bytes(b"x" * 500)
    if damage == "gone":
        file.unlink()
    with pytest.raises(SourceUnreadable if damage == "gone" else Corrupt) as raised:
        store.put_if_absent("k", source, crc32c=crc)
    assert getattr(raised.value, "filename", str(file)) == str(file)
    with pytest.raises(NotFound):
        store.head("k")


@pytest.mark.parametrize("action", LOST)
def test_a_lost_swap_is_recognised(fault_proxy, action):
    """A swap whose answer was lost succeeds, and the next one goes on from its version."""
    store = fault_proxy.open()
    first = store.put("k", b"1")
    fault_proxy.rules({"action": action, "method": "PUT", "status": 500, "code": "InternalError"})
    second = store.compare_and_swap("k", b"2", first)
    store.compare_and_swap("k", b"3", second)
    assert store.get("k")[0] == b"3"


def test_a_foreign_object_is_not_taken_for_our_own(fault_proxy):
    """After an attempt that never arrived, an object of another writer still counts as foreign."""
    store = fault_proxy.open()
    store.put("k", b"theirs", metadata={PUT_ID: "their-mark"})
    fault_proxy.rules({"action": "reset", "method": "PUT"})
    with pytest.raises(AlreadyExists):
        store.put_if_absent("k", b"mine")
    version = store.head("k").version
    store.put("k", b"theirs again")
    with pytest.raises(PreconditionFailed):
        store.compare_and_swap("k", b"mine", version)
    assert store.get("k")[0] == b"theirs again"


def test_a_conflict_is_repeated(fault_proxy):
    """409 ConditionalRequestConflict, which the SDK does not repeat, is repeated by our loop and by nothing else."""
    conflict = {"action": "status", "method": "PUT", "status": 409, "code": "ConditionalRequestConflict"}
    fault_proxy.rules(conflict)
    with pytest.raises(StoreUnavailable, match="ConditionalRequestConflict"):
        fault_proxy.open(retry=None).put_if_absent("k", b"1")
    assert len(fault_proxy.seen("PUT")) == 1
    fault_proxy.rules({**conflict, "count": 3})
    fault_proxy.open().put_if_absent("k", b"1")
    assert len(fault_proxy.seen("PUT")) == 4


def test_an_outage_is_waited_out(fault_proxy):
    """More refusals than the SDK repeats are waited out by our loop, within its deadline."""
    store = fault_proxy.open()
    fault_proxy.rules({"action": "status", "method": "PUT", "status": 503, "code": "ServiceUnavailable", "count": 4})
    store.put("k", b"1")
    assert store.get("k")[0] == b"1"


@pytest.mark.parametrize("action", ["truncate", pytest.param("stall", marks=pytest.mark.story)])
def test_a_short_body_is_an_error_and_then_repeated(fault_proxy, action):
    """A body that breaks off or stalls is never returned as if it were whole."""
    body = bytes(range(256)) * 40
    store = fault_proxy.open(retry=None, read_timeout_s=0.3)
    store.put("k", body)
    fault = {"action": action, "method": "GET", "seconds": 0.5 if action == "stall" else 0.0}
    for read in (lambda s: s.get("k")[0], lambda s: s.get_range("k", 0, 10_000), lambda s: s.get_suffix("k", 9_000)[0]):
        fault_proxy.rules(fault)
        with pytest.raises(StoreUnavailable):
            read(store)
        fault_proxy.rules(fault)
        assert body.find(read(fault_proxy.open(read_timeout_s=0.3))) >= 0


def test_damage_on_the_way_is_read_again_and_then_reported(fault_proxy):
    """A flipped bit in a whole object is found by its CRC-32C: now and then is cured, each time is an error."""
    store = fault_proxy.open()
    store.put("k", b"x" * 1000)
    fault_proxy.rules({"action": "corrupt", "method": "GET", "count": READS_MAX - 1})
    assert store.get("k")[0] == b"x" * 1000
    fault_proxy.rules({"action": "corrupt", "method": "GET", "count": READS_MAX})
    with pytest.raises(ChecksumMismatch, match="CRC-32C"):
        store.get("k")


def test_bodies_go_unsigned_with_a_checksum(fault_proxy):
    """On loopback a PUT carries no payload hash but our CRC-32C, in one plain body."""
    store = fault_proxy.open()
    fault_proxy.rules()
    store.put_if_absent("k", b"hello")
    headers = {name.lower(): value for name, value in fault_proxy.seen("PUT")[0].headers.items()}
    assert headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
    assert headers["x-amz-checksum-crc32c"] == "mnG7TA=="
    assert headers["if-none-match"] == "*"
    assert headers["content-length"] == "5"
    assert "x-amz-trailer" not in headers


@pytest.mark.story
def test_services_that_mistake_new_checksums_get_the_old_one(fault_proxy, tmp_path):
    """With md5 no header of the newer kind is sent, in one piece or in parts; what the service cannot check, we do."""
    store = fault_proxy.open(checksum="md5", single_put_bytes_max=1000)
    fault_proxy.rules()
    version = store.put_if_absent("k", b"hello", crc32c=crc32c_of(b"hello"))
    assert store.get("k") == (b"hello", version)
    body = bytes(PART_BYTES_MIN + 1)
    store.put_large("large", body, part_bytes=PART_BYTES_MIN)
    assert store.get_suffix("large", 1) == (b"\0", len(body))
    sent = [{name.lower() for name in one.headers} for one in fault_proxy.seen("PUT")]
    assert len(sent) == 3
    assert all("content-md5" in names for names in sent)
    every = [name.lower() for one in fault_proxy.seen() if one.method != "GET" for name in one.headers]
    assert not any(name.startswith(("x-amz-checksum", "x-amz-sdk-checksum")) for name in every)
    with pytest.raises(ChecksumMismatch):
        store.put("other", b"hello", crc32c=1)
    assert not store.capabilities.checksums
    assert store.head("k").crc32c is None
    probe(store).require(multi_writer=True)


@pytest.mark.story
def test_deletes_carry_no_condition(fault_proxy):
    """MinIO deletes against a stale condition, so none is ever relied on: a delete names keys and nothing else."""
    store = fault_proxy.open()
    store.put("k", b"1")
    fault_proxy.rules()
    store.delete_many(["k", "missing"])
    (seen,) = fault_proxy.seen()
    assert (seen.method, "delete" in seen.path) == ("POST", True)
    headers = {name.lower() for name in seen.headers}
    assert not any(name.startswith("if-") for name in headers)
    assert "content-md5" in headers  # some services insist on it


@pytest.mark.parametrize("page", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_listing_and_deleting_go_in_pages(s3_service, monkeypatch, page):
    """A listing of more keys than a page takes a request a page and misses none; deletions go a page a request."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", str(page))
    monkeypatch.setattr(store_module, "_DELETE_COUNT_MAX", page)
    store = s3_service.open(uuid.uuid4().hex, retry=None)
    keys = [f"page/{number:05}" for number in range(page + 3)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b""), keys))
    assert [info.key for info in store.list("page/")] == keys
    assert [info.key for info in store.list("page/", keys[-3])] == keys[-2:]
    store.delete_many(keys)
    assert list(store.list("")) == []


def test_a_bucket_that_does_not_exist_is_no_missing_object(s3_service):
    """A wrong bucket name is not mistaken for an empty archive."""
    store = s3_service.bucket()
    store.bucket = "no-such-bucket-here"
    with pytest.raises(StoreDenied, match="create it, or check its name") as caught:
        store.get("k")
    assert not isinstance(caught.value, NotFound)
    with pytest.raises(StoreDenied):
        list(store.list(""))


def test_failed_deletions_are_reported(monkeypatch):
    """A key that the service refused to delete is named, and a busy service is asked again later."""
    store = S3Store("bucket")
    for code, kind in (
        ("AccessDenied", StoreDenied),
        ("SlowDown", StoreUnavailable),
        ("InternalError", StoreUnavailable),
    ):
        answer = {"Errors": [{"Key": "b", "Code": code, "Message": "no"}, {"Key": "c", "Code": "NoSuchKey"}]}
        client = type("Client", (), {"delete_objects": staticmethod(lambda answer=answer, **_: answer)})()
        monkeypatch.setattr(S3Store, "client", client)
        with pytest.raises(kind, match=r"'b'.*1 of 3 keys not deleted"):
            store.delete_many(["a", "b", "c"])
