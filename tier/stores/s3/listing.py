"""Listings of a bucket in the order of the keys, from services that list so and from those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from stratalog.tier.stores.s3.errors import s3_errors
from stratalog.tier.stores.s3.walk import Level, Walk
from stratalog.tier.stores.store import ObjectInfo, StoreError

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

__all__ = ["Listing", "Service", "lists_by_directory", "milliseconds"]

_BY_DIRECTORY = ("seaweedfs",)
"""Services, by the beginning of their ``Server`` header, that walk directories: ``a/b`` comes before ``a-``."""


def lists_by_directory(server: str) -> bool:
    """Whether a service that calls itself so is known for another order than that of the keys."""
    return server.lower().startswith(_BY_DIRECTORY)


def milliseconds(moment: datetime) -> int:
    """Unix time in milliseconds."""
    return int(moment.timestamp() * 1000)


class Service(Struct):
    """Findings about the service behind a store, from its listings."""

    by_directory: bool | None = None


class Listing(Struct, frozen=True):
    """The objects of ``bucket`` whose keys begin with ``prefix``; ``url`` is named in errors."""

    client: S3Client
    bucket: str
    prefix: str
    url: str
    service: Service = field(default_factory=Service)

    def objects(self, start_after: str, unordered: bool | None) -> Iterator[ObjectInfo]:
        """Yield those after ``start_after`` in key order.

        ``unordered`` says whether the service lists otherwise; None: as its name tells. A listing declared unordered is
        fetched whole and sorted, that of a service known to walk directories is asked for level by level. Keys with a slash at
        their end are left out: consoles and other programs put empty objects there to show a folder, and no call of the port
        takes such a key. Raises :class:`StoreError` where a service turns out to list in another order than it should.
        """
        if unordered:
            yield from self._sorted(start_after)
            return
        previous = start_after
        for info in self._in_order(start_after, known=unordered is None):
            if info.key.encode() <= previous.encode():
                reason = f"the listing gave {info.key!r} after {previous!r}, which is not key order"
                advice = "Open the store with unordered_listing=True."
                raise StoreError("list", self.prefix, self.url, reason, advice)
            previous = info.key
            if not info.key.endswith("/"):
                yield info

    def _in_order(self, start_after: str, *, known: bool) -> Iterator[ObjectInfo]:
        if known and self.service.by_directory:
            yield from Walk(self._levels).objects(self.prefix, start_after)
            return
        for page in self._pages(self.prefix, start_after):
            if known and self.service.by_directory is None:
                self.service.by_directory = lists_by_directory(_server_of(page))
                if self.service.by_directory:
                    yield from Walk(self._levels).objects(self.prefix, start_after)
                    return
            yield from map(_info, page.get("Contents", ()))

    def _levels(self, prefix: str, start_after: str) -> Iterator[Level]:
        for page in self._pages(prefix, start_after, Delimiter="/"):
            # A directory that was emptied is listed in itself, as an object with a slash at its end.
            objects = (one for one in page.get("Contents", ()) if not one["Key"].endswith("/"))
            entries: dict[str, Any] = {one["Key"]: _info(one) for one in objects}
            entries.update((one["Prefix"], None) for one in page.get("CommonPrefixes", ()))
            yield Level(entries)

    def _sorted(self, start_after: str) -> Iterator[ObjectInfo]:
        found = (_info(entry) for page in self._pages(self.prefix, "") for entry in page.get("Contents", ()))
        after = start_after.encode()
        later = (one for one in found if one.key.encode() > after and not one.key.endswith("/"))
        yield from sorted(later, key=lambda one: one.key.encode())

    def _pages(self, prefix: str, start_after: str, **options: Any) -> Iterator[Any]:
        arguments: dict[str, Any] = {"StartAfter": start_after} if start_after else {}
        while True:
            with s3_errors("list", prefix, self.url):
                page = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, **options, **arguments)
            yield page
            if not page.get("IsTruncated"):
                return
            arguments = {"ContinuationToken": page["NextContinuationToken"]}


def _server_of(page: Any) -> str:
    return str(page.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("server", ""))


def _info(entry: Any) -> ObjectInfo:
    return ObjectInfo(entry["Key"], entry["Size"], entry["ETag"], milliseconds(entry["LastModified"]))
