from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stratalog.tier.stores.prefix_store import PrefixStore
from stratalog.tier.stores.s3.listing import lists_by_directory, milliseconds
from stratalog.tier.stores.s3.store import S3Store
from stratalog.tier.stores.store import StoreError


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
    """A service that lists in another order than the keys' is refused, or sorted here if the store is set so."""
    listing_of(monkeypatch, "", "b", "c", "a")
    for told in (None, False):
        with pytest.raises(StoreError, match=r"not key order.*unordered_listing=True"):
            list(S3Store("bucket", unordered_listing=told).list(""))
    unordered = S3Store("bucket", unordered_listing=True)
    assert [info.key for info in unordered.list("", "a")] == ["b", "c"]
    assert not unordered.capabilities.ordered_list


class ByDirectory:
    """The client of a service that walks directories: plain listings come in its order, levels by name."""

    def __init__(self, *keys):
        self.keys = sorted(keys, key=lambda key: [part.encode() for part in key.split("/")])
        self.asked = []

    def list_objects_v2(self, **request):
        prefix, after, delimiter = request["Prefix"], request.get("StartAfter", ""), request.get("Delimiter", "")
        self.asked.append((prefix, after, delimiter))
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        contents, directories = [], []
        for key in self.keys:
            if key.startswith(prefix) and key > after:
                head, slash, _ = key[len(prefix) :].partition("/")
                if delimiter and slash:
                    directories.append(prefix + head + slash)
                else:
                    contents.append({"Key": key, "Size": 0, "ETag": "e", "LastModified": moment})
        return {
            "Contents": contents,
            "CommonPrefixes": [{"Prefix": one} for one in dict.fromkeys(directories)],
            "IsTruncated": False,
            "ResponseMetadata": {"HTTPHeaders": {"server": "SeaweedFS 8000GB 4.48"}},
        }


def test_a_service_known_for_disorder_needs_no_declaration(monkeypatch):
    """SeaweedFS walks directories, and says its name: it is asked level by level, after one question to know it."""
    client = ByDirectory("a/b", "a-", "ab", "a/c/d", "a/emptied/")
    monkeypatch.setattr(S3Store, "client", client)
    store = S3Store("bucket")
    assert [info.key for info in store.list("")] == ["a-", "a/b", "a/c/d", "ab"]
    assert [asked for asked in client.asked if not asked[2]] == [("", "", "")]
    assert [info.key for info in store.list("", "a-")] == ["a/b", "a/c/d", "ab"]
    assert [info.key for info in store.list("a/", "a/b")] == ["a/c/d"]
    assert len([asked for asked in client.asked if not asked[2]]) == 1
    with pytest.raises(StoreError, match="not key order"):
        list(S3Store("bucket", unordered_listing=False).list(""))


@pytest.mark.parametrize("unordered", [None, True])
def test_marks_of_folders_are_no_objects(monkeypatch, unordered):
    """The console of a service puts them there; a listing whose keys cannot be read would stop all readers of it."""
    listing_of(monkeypatch, "", "prod/", "prod/leases/", "prod/leases/a.json")
    store = PrefixStore(S3Store("bucket", unordered_listing=unordered), "prod")
    assert [info.key for info in store.list("leases/")] == ["leases/a.json"]


def test_names_of_services():
    """Only the beginning of the header counts, and no header means nothing."""
    assert lists_by_directory("SeaweedFS 30GB 3.80")
    assert not any(lists_by_directory(name) for name in ("AmazonS3", "MinIO", "VERSITYGW", ""))


def test_times_are_unix_milliseconds():
    """A time with a zone becomes the milliseconds since 1970-01-01T00:00Z."""
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)) == 1500
