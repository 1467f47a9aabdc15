"""The object store port: what every store of the archive does, and how it fails.

Bytes in, bytes out, versions returned. All calls are synchronous and every store is thread-safe; callers run them in
worker threads or worker processes. A write is atomic: an object is either absent, the old one, or the new one, never
a part of it. ``put_if_absent`` and ``compare_and_swap`` hold between all writers of the store when
``capabilities.multi_writer`` is set; :mod:`stratalog.tier.stores.probe` checks that claim against the real store.

Keys are UTF-8 text of parts joined by ``/``; :func:`validate_key` gives the rules that hold for every store.
Listings come in the order of the keys' UTF-8 bytes, which is Amazon S3's order for general purpose buckets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from stratalog.wire.errors import Corrupt, Invalid, Retriable, StratalogError

__all__ = [
    "PUT_ID",
    "STORAGE_CLASS",
    "AlreadyExists",
    "Buffer",
    "Capabilities",
    "ChecksumMismatch",
    "ConfirmedVersion",
    "FileRange",
    "InvalidKey",
    "InvalidRange",
    "Metadata",
    "NotFound",
    "ObjectInfo",
    "ObjectStore",
    "PreconditionFailed",
    "Source",
    "StoreDenied",
    "StoreError",
    "StoreUnavailable",
    "UnsafeStore",
    "UnsupportedOperation",
    "UploadInfo",
    "Version",
    "validate_key",
    "validate_metadata",
    "validate_prefix",
    "validate_range",
]

Buffer: TypeAlias = bytes | bytearray | memoryview
Version: TypeAlias = str


class ConfirmedVersion(str):
    """The version of an object for which the store confirmed this CRC-32C in its answer to the writer.

    Any other version leaves open what is stored: a caller that has to know asks by ``head``.
    """

    __slots__ = ()


Metadata: TypeAlias = Mapping[str, str]

PUT_ID = "put-id"
"""Metadata name of the writer's own mark. A writer whose answer was lost finds its object by it (HEAD and compare)."""

STORAGE_CLASS = "storage-class"
"""Metadata name that a store with ``capabilities.storage_classes`` does not keep: the object's storage class."""

KEY_BYTES_MAX = 1024
"""Longest key in UTF-8 bytes (Amazon S3's limit)."""

KEY_PART_BYTES_MAX = 255
"""Longest part between two slashes in UTF-8 bytes (Linux file name limit, so that every key fits a directory)."""

METADATA_BYTES_MAX = 2048
"""Most metadata of one object, names and values together (Amazon S3's limit)."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_METADATA_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_METADATA_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?|")


class FileRange(Struct, frozen=True):
    """Bytes ``[position, position + length)`` of the local file ``path``."""

    path: str
    position: int
    length: int


Source: TypeAlias = Buffer | FileRange | Sequence[Buffer | FileRange]
"""Parts that :meth:`ObjectStore.put_large` uploads: buffers and file ranges, in order."""


class Capabilities(Struct, frozen=True):
    """The guarantees of a store.

    ``conditional_create``  ``put_if_absent`` has exactly one winner.
    ``compare_and_swap``    ``compare_and_swap`` never loses an update.
    ``checksums``           a wrong CRC-32C is refused and the right one is kept and returned by ``head``.
    ``ordered_list``        listings come in key order from the store itself.
    ``multi_writer``        the above hold between all processes and machines that can reach the store.
    ``storage_classes``     an object is put into the class that its metadata name `STORAGE_CLASS` says.
    """

    conditional_create: bool
    compare_and_swap: bool
    checksums: bool
    ordered_list: bool
    multi_writer: bool
    storage_classes: bool = False


class ObjectInfo(Struct, frozen=True):
    """One object, without its bytes.

    ``list`` fills key, size and time; its ``version`` is empty, its ``metadata`` empty and its ``crc32c`` ``None``
    where the store's listing does not carry them. ``crc32c`` covers the whole object.
    """

    key: str
    size_bytes: int
    version: Version
    modified_ms: int
    metadata: Metadata = field(default_factory=dict)
    crc32c: int | None = None


class UploadInfo(Struct, frozen=True):
    """One multipart upload that was begun and neither completed nor aborted."""

    key: str
    upload_id: str
    started_ms: int


class StoreError(StratalogError):
    """An object store call failed.

    Carries ``operation``, ``key`` (or prefix), ``url`` of the store, ``reason`` and ``advice``, and can be pickled, so
    that a worker process hands it to the broker as it is.
    """

    def __init__(self, operation: str, key: str, url: str, reason: str, advice: str = "") -> None:
        super().__init__(operation, key, url, reason, advice)
        self.operation = operation
        self.key = key
        self.url = url
        self.reason = reason
        self.advice = advice or self.default_advice

    default_advice = "See the store's own log; the call was not retried."

    def __str__(self) -> str:
        return f"{self.operation} {self.key!r} in {self.url}: {self.reason}. {self.advice}"


class NotFound(StoreError):
    """There is no such object."""

    default_advice = "Check the key and the store's prefix; the object may have been removed by retention."


class AlreadyExists(StoreError):
    """``put_if_absent`` found an object under the key."""

    default_advice = "Another writer created it: read it and go on from there, or choose another key."


class PreconditionFailed(StoreError):
    """``compare_and_swap`` found another version, or none.

    After a lost answer this may be raised although this very call was applied and then replaced by another writer:
    the caller looks for its own mark in the object before it concludes that it lost.
    """

    default_advice = "Read the object again, look for your own mark in it, and decide anew."


class StoreUnavailable(StoreError, Retriable):
    """The store did not answer, or asked to be called later. The call may have been applied."""

    default_advice = "Retry later; if it lasts, check the network, the endpoint and the store's health."


class StoreDenied(StoreError):
    """The store refused these credentials this operation."""

    default_advice = "Check the credentials, the clock and the bucket policy; retrying will not help."


class ChecksumMismatch(StoreError, Corrupt):
    """The bytes sent or received are not those that the CRC-32C was computed from."""

    default_advice = "Treat the bytes as corrupt: compute them again from their source, or read another copy."


class InvalidKey(StoreError, Invalid):
    """The key or the metadata breaks the rules that hold for every store."""

    default_advice = "Use a key and metadata that every store accepts."


class InvalidRange(StoreError, Invalid):
    """The range is malformed or goes beyond the object's end."""

    default_advice = "Read the object's size first; the object may be shorter than its manifest says."


class UnsupportedOperation(StoreError, Invalid):
    """The store cannot do this, or was opened without leave to do it."""

    default_advice = "Use file:// or s3:// for an archive that is written."


class UnsafeStore(StoreError, Invalid):
    """The store's answers to the probe show that writers could overwrite each other."""

    default_advice = "Use a store that honours If-None-Match and If-Match, or run a single writer."


@runtime_checkable
class ObjectStore(Protocol):
    """The port. Every method may raise :class:`StoreUnavailable` and :class:`StoreDenied` besides those it names."""

    @property
    def url(self) -> str:
        """Where the store is, for people: no credentials."""

    @property
    def capabilities(self) -> Capabilities:
        """The guarantees of this store."""

    def put(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object, replacing what is there; durable on return. Idempotent.

        ``crc32c`` is that of all of ``data``; where it is given, a store that checks raises
        :class:`ChecksumMismatch` and keeps the old object.
        """

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object only if there is none; otherwise raise :class:`AlreadyExists`. One of many writers wins.

        Files are read while they are sent; with a ``crc32c`` what was sent is compared with it. Returns a
        :class:`ConfirmedVersion` if the store's answer says that it holds this CRC-32C.
        """

    def compare_and_swap(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        expected: Version,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Replace the object only if its version is ``expected``; otherwise raise :class:`PreconditionFailed`.

        An absent object fails too. Two writes of the same bytes may have the same version (as S3's ETag): put a
        sequence number or a unique id into what is swapped.
        """

    def put_large(self, key: str, source: Source, *, part_bytes: int, metadata: Metadata | None = None) -> Version:
        """Write a large object in parts of ``part_bytes``, atomically; nothing is left behind by a failure.

        Memory stays within a few parts. Use a key of your own (uuid): an existing object is replaced.
        """

    def get(self, key: str) -> tuple[bytes, Version]:
        """Return the whole object and its version; :class:`NotFound` if there is none."""

    def get_range(self, key: str, position: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``position``.

        Raises :class:`InvalidRange` if the object is shorter and :class:`StoreUnavailable` if the answer was cut
        short on the way. ``length`` is at least 1.
        """

    def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last ``length`` bytes (all of a shorter object) and the object's total size in bytes."""

    def head(self, key: str) -> ObjectInfo:
        """Describe the object; :class:`NotFound` if there is none."""

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with ``prefix`` and are greater than ``start_after``, in key order.

        ``prefix`` is any text, not only whole parts. Objects written or deleted meanwhile may or may not be seen;
        all others are seen exactly once.
        """

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete the objects; those that do not exist count as deleted."""

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Yield the unfinished multipart uploads under ``prefix``; none on stores that have no such thing."""

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Abort an unfinished upload; one that is unknown or finished counts as aborted."""


def validate_key(operation: str, key: str, url: str) -> None:
    """Raise :class:`InvalidKey` unless ``key`` works on every store.

    Not empty, at most 1024 bytes of UTF-8, no control characters and no backslash, no empty part (leading, trailing
    or double slash), no part ``.`` or ``..`` or longer than 255 bytes, and no leading dot (a local directory keeps
    its own files there).
    """
    reason = _key_fault(key)
    if reason:
        raise InvalidKey(operation, key, url, reason)


def validate_prefix(operation: str, prefix: str, url: str) -> None:
    """Raise :class:`InvalidKey` unless keys can begin with ``prefix``: what precedes its last slash is itself a key."""
    directory, slash, rest = prefix.rpartition("/")
    reason = _key_fault(directory) if slash else ""
    if reason or _CONTROL.search(rest):
        raise InvalidKey(operation, prefix, url, reason or "the prefix holds a control character or a backslash")


def _key_fault(key: str) -> str:
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        return "the key is not valid Unicode"
    if not encoded or len(encoded) > KEY_BYTES_MAX:
        return f"the key has {len(encoded)} bytes, allowed are 1 to {KEY_BYTES_MAX}"
    if _CONTROL.search(key):
        return "the key holds a control character or a backslash"
    if key.startswith("."):
        return "the key begins with a dot"
    parts = encoded.split(b"/")
    if any(part in {b"", b".", b".."} for part in parts):
        return "the key holds an empty part, '.' or '..'"
    if any(len(part) > KEY_PART_BYTES_MAX for part in parts):
        return f"the key holds a part of more than {KEY_PART_BYTES_MAX} bytes"
    return ""


def validate_metadata(operation: str, key: str, url: str, metadata: Metadata | None) -> dict[str, str]:
    """Return a copy of ``metadata``; raise :class:`InvalidKey` unless every store keeps it unchanged.

    Names are lower-case letters, digits and hyphens (they travel as HTTP headers); values are printable ASCII without
    blanks at the ends; 2048 bytes altogether.
    """
    if not metadata:
        return {}
    for name, value in metadata.items():
        if not _METADATA_NAME.fullmatch(name) or not _METADATA_VALUE.fullmatch(value):
            raise InvalidKey(operation, key, url, f"metadata {name!r} = {value!r} cannot travel as an HTTP header")
    if sum(len(name) + len(value) for name, value in metadata.items()) > METADATA_BYTES_MAX:
        raise InvalidKey(operation, key, url, f"the metadata is larger than {METADATA_BYTES_MAX} bytes")
    return dict(metadata)


def validate_range(operation: str, key: str, url: str, position: int, length: int) -> None:
    """Raise :class:`InvalidRange` unless ``position`` is at least 0 and ``length`` at least 1."""
    if position < 0 or length < 1:
        raise InvalidRange(operation, key, url, f"position {position} and length {length} are no range")
