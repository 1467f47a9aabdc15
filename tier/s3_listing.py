"""Listings of a bucket in the order of the keys, from services that list so and from those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stratalog.tier.s3_errors import s3_errors
from stratalog.tier.store import ObjectInfo, StoreError

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

__all__ = ["Listing", "lists_by_directory", "milliseconds"]

_BY_DIRECTORY = ("seaweedfs",)
"""Services, by the beginning of their ``Server`` header, that walk directories: ``a/b`` comes before ``a-``."""


def lists_by_directory(server: str) -> bool:
    """Whether a service that calls itself so is known for another order than that of the keys."""
    return server.lower().startswith(_BY_DIRECTORY)


def milliseconds(moment: datetime) -> int:
    """Unix time in milliseconds."""
    return int(moment.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of ``bucket`` whose keys begin with ``prefix``; ``url`` is named in errors."""

    client: S3Client
    bucket: str
    prefix: str
    url: str

    def objects(self, start_after: str, unordered: bool | None) -> Iterator[ObjectInfo]:
        """Yield those after ``start_after`` in key order.

        ``unordered`` says whether the service lists otherwise; None: as its name tells. Such a listing is fetched
        whole and sorted. Raises :class:`StoreError` where a service turns out to list in another order than it should.
        """
        if unordered:
            yield from self._sorted(start_after)
            return
        previous = start_after
        for page in self._pages(start_after):
            if unordered is None and lists_by_directory(_server_of(page)):
                # Nothing was yielded yet: the first page tells.
                yield from self._sorted(start_after)
                return
            for entry in page.get("Contents", ()):
                info = _info(entry)
                if info.key.encode() <= previous.encode():
                    reason = f"the listing gave {info.key!r} after {previous!r}, which is not key order"
                    advice = "Open the store with unordered_listing=True."
                    raise StoreError("list", self.prefix, self.url, reason, advice)
                previous = info.key
                yield info

    def _sorted(self, start_after: str) -> Iterator[ObjectInfo]:
        found = (_info(entry) for page in self._pages("") for entry in page.get("Contents", ()))
        after = start_after.encode()
        yield from sorted((one for one in found if one.key.encode() > after), key=lambda one: one.key.encode())

    def _pages(self, start_after: str) -> Iterator[Any]:
        arguments: dict[str, Any] = {"StartAfter": start_after} if start_after else {}
        while True:
            with s3_errors("list", self.prefix, self.url):
                page = self.client.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix, **arguments)
            yield page
            if not page.get("IsTruncated"):
                return
            arguments = {"ContinuationToken": page["NextContinuationToken"]}


def _server_of(page: Any) -> str:
    return str(page.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("server", ""))


def _info(entry: Any) -> ObjectInfo:
    return ObjectInfo(entry["Key"], entry["Size"], entry["ETag"], milliseconds(entry["LastModified"]))
