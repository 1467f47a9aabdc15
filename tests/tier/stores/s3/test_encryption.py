from __future__ import annotations

import uuid

import pytest

from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.s3.client import S3Settings
from stratalog.tier.stores.s3.encryption import check_encrypted
from stratalog.tier.stores.s3.multipart import PART_BYTES_MIN
from stratalog.tier.stores.store import UnsafeStore, UnsupportedOperation


@pytest.mark.story
def test_objects_are_encrypted_as_asked(s3_service):
    """Every way to write says so: PUT, conditional PUT, multipart; and the service confirms it."""
    name = uuid.uuid4().hex
    store = s3_service.open(name, server_side_encryption="aws:kms", kms_key_id="my-key", single_put_bytes_max=1000)
    store.put("put", b"1")
    first = store.put_if_absent("create", b"1")
    store.compare_and_swap("create", b"2", first)
    store.put_large("large", b"x" * (PART_BYTES_MIN + 1), part_bytes=PART_BYTES_MIN)
    bucket = s3_service.bucket()
    for key in ("put", "create", "large"):
        answer = bucket.client.head_object(Bucket=bucket.bucket, Key=f"{name}/{key}")
        assert answer["ServerSideEncryption"] == "aws:kms"
        assert answer["SSEKMSKeyId"].endswith("my-key")
    assert store.get("create")[0] == b"2"
    probe(store).require(multi_writer=True)


def test_encryption_with_the_keys_of_the_service(s3_service):
    """AES256 needs no key and is confirmed too."""
    store = s3_service.open(uuid.uuid4().hex, server_side_encryption="AES256")
    store.put("k", b"1")
    assert store.get("k")[0] == b"1"


def test_an_unencrypted_object_is_an_error():
    """A service that takes the header and says nothing of it, or of another encryption, is not trusted with more."""
    settings = S3Settings(server_side_encryption="AES256")
    check_encrypted("put", "k", "s3://b", settings, {"ServerSideEncryption": "AES256"})
    check_encrypted("put", "k", "s3://b", S3Settings(), {})
    with pytest.raises(UnsupportedOperation, match=r"nothing of it\. The object lies there unencrypted"):
        check_encrypted("put", "k", "s3://b", settings, {})
    with pytest.raises(UnsupportedOperation, match=r"says aws:kms\. Check the bucket's policy"):
        check_encrypted("put", "k", "s3://b", settings, {"ServerSideEncryption": "aws:kms"})


def test_the_probe_refuses_a_service_that_does_not_encrypt(s3_service, monkeypatch):
    """Before the first segment is sent there."""
    store = s3_service.open(uuid.uuid4().hex, server_side_encryption="AES256")
    client = store.inner.inner.client
    put = client.put_object

    class Forgets:
        def __getattr__(self, name):
            return getattr(client, name)

        def put_object(self, **arguments):
            answer = put(**arguments)
            del answer["ServerSideEncryption"]
            return answer

    monkeypatch.setattr(type(store.inner.inner), "client", Forgets())
    with pytest.raises(UnsafeStore, match="server-side encryption AES256 was asked for"):
        probe(store).require(multi_writer=False)


def test_no_part_is_sent_to_a_service_that_does_not_encrypt(s3_service, monkeypatch):
    """The upload is aborted before its first part."""
    store = s3_service.open(uuid.uuid4().hex, server_side_encryption="AES256", single_put_bytes_max=1000)
    client = store.inner.inner.client
    called = []

    class Forgets:
        def __getattr__(self, name):
            called.append(name)
            return getattr(client, name)

        def create_multipart_upload(self, **arguments):
            answer = client.create_multipart_upload(**arguments)
            answer.pop("ServerSideEncryption", None)
            return answer

    monkeypatch.setattr(type(store.inner.inner), "client", Forgets())
    with pytest.raises(UnsupportedOperation, match="AES256"):
        store.put_large("k", b"x" * 2000, part_bytes=PART_BYTES_MIN)
    assert called == ["abort_multipart_upload"]
