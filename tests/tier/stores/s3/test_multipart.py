from __future__ import annotations

import hashlib
import random
import uuid

import pytest

from stratalog.tier.stores.s3.multipart import PART_BYTES_MIN, effective_part_bytes
from stratalog.tier.stores.source import crc32c_of
from stratalog.tier.stores.store import FileRange, NotFound, StoreUnavailable
from stratalog.wire.errors import Corrupt

pytestmark = pytest.mark.store
LARGE = PART_BYTES_MIN + 1000


@pytest.fixture(scope="module")
def large_body():
    """Bytes for one full part and a bit."""
    return random.Random(7).randbytes(LARGE)


def test_parts_are_joined_and_checked_as_a_whole(s3_service, large_body, tmp_path):
    """An object above the single-PUT limit arrives in parts, with metadata and a CRC-32C over all of it."""
    path = tmp_path / "segment.log"
    path.write_bytes(large_body)
    store = s3_service.open(uuid.uuid4().hex, single_put_bytes_max=1000)
    version = store.put_large(
        "k", [b"head", FileRange(str(path), 0, LARGE)], part_bytes=PART_BYTES_MIN, metadata={"kind": "seg"}
    )
    assert version.strip('"').endswith("-2")
    info = store.head("k")
    assert info.size_bytes == LARGE + 4
    assert info.crc32c == crc32c_of(b"head" + large_body)
    assert info.metadata["kind"] == "seg"
    assert hashlib.sha256(store.get("k")[0]).digest() == hashlib.sha256(b"head" + large_body).digest()
    assert list(store.list_uploads("")) == []


def test_a_source_that_fails_aborts_the_upload(s3_service, large_body, tmp_path):
    """When the file ends early after a part was sent, no object and no unfinished upload remain."""
    path = tmp_path / "segment.log"
    path.write_bytes(large_body)
    store = s3_service.open(uuid.uuid4().hex, single_put_bytes_max=1000)
    with pytest.raises(Corrupt):
        store.put_large("k", FileRange(str(path), 0, 2 * LARGE), part_bytes=PART_BYTES_MIN)
    with pytest.raises(NotFound):
        store.head("k")
    assert list(store.list_uploads("")) == []


@pytest.mark.story
def test_a_part_that_fails_aborts_the_upload(fault_proxy, large_body):
    """When the service refuses a part for good, the upload is aborted and the error is the part's."""
    store = fault_proxy.open(single_put_bytes_max=1000, retry=None)
    fault_proxy.rules({"action": "status", "method": "PUT", "path": "partNumber=2", "code": "Busy", "count": 9})
    with pytest.raises(StoreUnavailable, match="Busy"):
        store.put_large("k", large_body, part_bytes=PART_BYTES_MIN)
    assert len(fault_proxy.seen("DELETE")) == 1
    assert list(store.list_uploads("")) == []


@pytest.mark.story
@pytest.mark.parametrize("action", ["drop_after_commit", "fail_after_commit"])
def test_a_lost_completion_is_recognised(fault_proxy, large_body, action):
    """A completion that was applied and whose answer never came counts as done."""
    store = fault_proxy.open(single_put_bytes_max=1000, retry=None)
    lost = {"action": action, "method": "POST", "path": "uploadId=", "status": 500, "code": "InternalError"}
    refused = {"action": "status", "method": "POST", "path": "uploadId=", "status": 404, "code": "NoSuchUpload"}
    fault_proxy.rules(lost, {**refused, "count": 5})
    version = store.put_large("k", large_body, part_bytes=PART_BYTES_MIN)
    assert store.head("k").version == version


def test_unfinished_uploads_are_listed_and_aborted(s3_service):
    """An upload left by a killed process is found under its prefix and can be removed."""
    store = s3_service.open(uuid.uuid4().hex, retry=None)
    inner = store.inner
    prefix = store.url.split("/", 3)[3]
    upload_id = inner.client.create_multipart_upload(Bucket=inner.bucket, Key=f"{prefix}/a/k")["UploadId"]
    # MinIO finds uploads by the whole key only, and removes old ones by itself.
    (found,) = list(store.list_uploads("a/")) or store.list_uploads("a/k")
    assert (found.key, found.upload_id) == ("a/k", upload_id)
    assert found.started_ms > 1_200_000_000_000  # moto says 2010 whenever it was
    assert list(store.list_uploads("b/")) == []
    store.abort_upload(found.key, found.upload_id)
    store.abort_upload(found.key, found.upload_id)
    assert list(store.list_uploads("")) == []


def test_part_sizes_keep_the_limits():
    """Parts grow where 10 000 of them would not do, and are never below 5 MiB."""
    assert effective_part_bytes(1 << 30, 1) == PART_BYTES_MIN
    assert effective_part_bytes(1 << 30, 16 << 20) == 16 << 20
    huge = 1 << 40
    part_bytes = effective_part_bytes(huge, 16 << 20)
    assert (part_bytes - 1) * 10_000 < huge <= part_bytes * 10_000
