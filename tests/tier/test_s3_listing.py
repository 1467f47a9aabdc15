from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stratalog.tier.s3_listing import lists_by_directory, milliseconds
from stratalog.tier.s3_store import S3Store
from stratalog.tier.store import StoreError


def listing_of(monkeypatch, server, *names):
    """Let S3 stores list these keys in this order, as a server of that name."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    contents = [{"Key": name, "Size": 0, "ETag": "e", "LastModified": moment} for name in names]
    page = {
        "Contents": contents,
        "IsTruncated": False,
        "ResponseMetadata": {"HTTPHeaders": {"server": server} if server else {}},
    }
    client = type("Client", (), {"list_objects_v2": staticmethod(lambda **_: page)})()
    monkeypatch.setattr(S3Store, "client", client)


def test_disorder_in_a_listing_is_an_error_unless_declared(monkeypatch):
    """A service that lists in another order than the keys' is refused, or sorted here if the store was told."""
    listing_of(monkeypatch, "", "b", "c", "a")
    for told in (None, False):
        with pytest.raises(StoreError, match=r"not key order.*unordered_listing=True"):
            list(S3Store("bucket", unordered_listing=told).list(""))
    unordered = S3Store("bucket", unordered_listing=True)
    assert [info.key for info in unordered.list("", "a")] == ["b", "c"]
    assert not unordered.capabilities.ordered_list


def test_a_service_known_for_disorder_needs_no_declaration(monkeypatch):
    """SeaweedFS walks directories, and says its name: its listings are sorted here."""
    listing_of(monkeypatch, "SeaweedFS 8000GB 4.48", "a/b", "a-", "ab")
    assert [info.key for info in S3Store("bucket").list("")] == ["a-", "a/b", "ab"]
    assert [info.key for info in S3Store("bucket").list("", "a-")] == ["a/b", "ab"]
    with pytest.raises(StoreError, match="not key order"):
        list(S3Store("bucket", unordered_listing=False).list(""))


def test_names_of_services():
    """Only the beginning of the header counts, and no header means nothing."""
    assert lists_by_directory("SeaweedFS 30GB 3.80")
    assert not any(lists_by_directory(name) for name in ("AmazonS3", "MinIO", "VERSITYGW", ""))


def test_times_are_unix_milliseconds():
    """Whatever the zone."""
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)) == 1500
