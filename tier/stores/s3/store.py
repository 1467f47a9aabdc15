"""A store in an S3 bucket, by low-level boto3 calls.

Every body is sent with a CRC-32C computed beforehand, so a service that checks refuses what was damaged on the way,
and ``head`` gives it back. Conditional writes are ``If-None-Match: *`` and ``If-Match``. Where an answer is lost, the
SDK sends the request again and S3 refuses it because the first one was applied: each conditional write therefore
carries a ``put-id`` in its metadata, and a refusal is followed by HEAD and comparison.

The calls here are single attempts (with the SDK's own two repetitions); waiting for a store that is away is
:class:`stratalog.tier.stores.retrying_store.RetryingStore`, around this one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.s3.checksum import content_md5, decode_crc32c, encode_crc32c
from stratalog.tier.stores.s3.client import S3Settings, client_for
from stratalog.tier.stores.s3.encryption import check_encrypted
from stratalog.tier.stores.s3.errors import code_error, s3_errors
from stratalog.tier.stores.s3.listing import Listing, Service, milliseconds
from stratalog.tier.stores.s3.multipart import MultipartUpload
from stratalog.tier.stores.s3.put_id import own_version, with_put_id
from stratalog.tier.stores.source import as_bytes, check_crc32c, crc32c_of, source_length
from stratalog.tier.stores.source_reader import SourceReader
from stratalog.tier.stores.storage_class import split_storage_class
from stratalog.tier.stores.store import (
    PUT_ID,
    AlreadyExists,
    Buffer,
    Capabilities,
    ChecksumMismatch,
    ConfirmedVersion,
    FileRange,
    InvalidRange,
    Metadata,
    NotFound,
    ObjectInfo,
    PreconditionFailed,
    Source,
    StoreError,
    StoreUnavailable,
    UploadInfo,
    Version,
    validate_key,
    validate_metadata,
    validate_prefix,
    validate_range,
)

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

__all__ = ["S3Store"]

SINGLE_PUT_BYTES_MAX = 64 << 20
"""Objects up to this size go in one PUT: one write request instead of ten."""

_DELETE_COUNT_MAX = 1000
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class S3Store:
    """Objects in ``bucket``. Thread-safe; all stores of one process with equal settings share one client.

    ``single_put_bytes_max`` and ``upload_threads`` shape :meth:`put_large`. ``unordered_listing`` is for services that
    do not list in key order (Amazon's directory buckets): each listing is then fetched whole and sorted here; by
    default services known to walk directories are asked level by level (:mod:`stratalog.tier.stores.s3.walk`). The
    capabilities are those of Amazon S3; other services are held to them by :mod:`stratalog.tier.stores.probe`.
    """

    def __init__(
        self,
        bucket: str,
        settings: S3Settings | None = None,
        *,
        single_put_bytes_max: int = SINGLE_PUT_BYTES_MAX,
        upload_threads: int = 4,
        unordered_listing: bool | None = None,
    ) -> None:
        self.bucket = bucket
        self.settings = (settings or S3Settings()).completed()
        self.url = f"s3://{bucket}"
        self._single_put_bytes_max = single_put_bytes_max
        self._upload_threads = upload_threads
        self._unordered_listing = unordered_listing
        self._service = Service()
        self.capabilities = Capabilities(
            conditional_create=True,
            compare_and_swap=True,
            checksums=self.settings.checksum != "md5",  # which is checked and not kept
            ordered_list=not unordered_listing,
            multi_writer=True,
            storage_classes=True,
        )

    @property
    def client(self) -> S3Client:
        """The boto3 client of this process."""
        return client_for(self.settings)

    def put(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object; see :meth:`ObjectStore.put`."""
        kept = validate_metadata("put", key, self.url, metadata)
        return self._put("put", key, data, crc32c=crc32c, metadata=kept)

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object if there is none; a lost answer is recognised, see :meth:`ObjectStore.put_if_absent`."""
        marked = self._marked("put_if_absent", key, metadata)
        try:
            return self._put("put_if_absent", key, data, crc32c=crc32c, metadata=marked, IfNoneMatch="*")
        except PreconditionFailed as error:
            own = own_version(self, key, marked[PUT_ID])
            if own is not None:
                return own
            raise AlreadyExists("put_if_absent", key, self.url, error.reason) from error

    def compare_and_swap(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        expected: Version,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Replace the expected version; see :meth:`ObjectStore.compare_and_swap`.

        A lost answer is recognised unless another writer replaced the object meanwhile.
        """
        marked = self._marked("compare_and_swap", key, metadata)
        try:
            return self._put("compare_and_swap", key, data, crc32c=crc32c, metadata=marked, IfMatch=expected)
        except (PreconditionFailed, NotFound) as error:
            own = own_version(self, key, marked[PUT_ID])
            if own is not None:
                return own
            raise PreconditionFailed("compare_and_swap", key, self.url, error.reason) from error

    def put_large(self, key: str, source: Source, *, part_bytes: int, metadata: Metadata | None = None) -> Version:
        """Write a large object in parts; see :meth:`ObjectStore.put_large`. Small ones go in a single PUT.

        Parts are made larger where S3's limits (5 MiB, 10 000 parts) ask for it.
        """
        validate_key("put_large", key, self.url)
        validate_range("put_large", key, self.url, 0, part_bytes)
        marked = self._marked("put_large", key, metadata)
        if source_length(source) <= self._single_put_bytes_max:
            return self._put("put_large", key, as_bytes(source), crc32c=None, metadata=marked)
        upload = MultipartUpload(self.client, self.bucket, key, self.url, self.settings, self._upload_threads)
        try:
            return upload.run(source, part_bytes=part_bytes, metadata=marked)
        except (NotFound, StoreUnavailable):
            # The completion may have been applied and its answer lost; some services then know no such upload.
            own = own_version(self, key, marked[PUT_ID])
            if own is None:
                raise
            return own

    def copy_inside(self, key: str, target_key: str) -> bool:
        """Copy the object by one request, up to S3's 5 GiB; see :class:`CopiesItself`."""
        validate_key("copy", key, self.url)
        validate_key("copy", target_key, self.url)
        with s3_errors("copy", key, self.url):
            self.client.copy_object(
                Bucket=self.bucket,
                Key=target_key,
                CopySource={"Bucket": self.bucket, "Key": key},
                **self.settings.put_options,
            )
        return True

    def get(self, key: str) -> tuple[bytes, Version]:
        """Return bytes and version, checked against the stored CRC-32C where there is one."""
        validate_key("get", key, self.url)
        for _ in range(READS_MAX - 1):
            with suppress(ChecksumMismatch):  # it may have happened on the way
                return self._get_checked(key)
        return self._get_checked(key)

    def get_range(self, key: str, position: int, length: int) -> bytes:
        """Return exactly the range; see :meth:`ObjectStore.get_range`. S3 keeps no checksum of ranges."""
        validate_range("get_range", key, self.url, position, length)
        data, first, total = self._ranged("get_range", key, f"bytes={position}-{position + length - 1}")
        if position + length > total:
            reason = f"bytes {position} to {position + length} of an object of {total} bytes"
            raise InvalidRange("get_range", key, self.url, reason)
        if first != position or len(data) != length:
            reason = f"asked for {length} bytes from {position}, got {len(data)} from {first}"
            raise StoreUnavailable("get_range", key, self.url, reason)
        return data

    def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes and the total size; see :meth:`ObjectStore.get_suffix`."""
        validate_range("get_suffix", key, self.url, 0, length)
        try:
            data, _, total = self._ranged("get_suffix", key, f"bytes=-{length}")
        except InvalidRange:
            if self.head(key).size_bytes == 0:
                return b"", 0  # S3 refuses a range of an empty object
            raise
        expected = min(length, total)
        if len(data) != expected:
            reason = f"asked for the last {expected} of {total} bytes, got {len(data)}"
            raise StoreUnavailable("get_suffix", key, self.url, reason)
        return data, total

    def head(self, key: str) -> ObjectInfo:
        """Describe the object; see :meth:`ObjectStore.head`."""
        validate_key("head", key, self.url)
        with s3_errors("head", key, self.url):
            answer = self.client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        return ObjectInfo(
            key,
            answer["ContentLength"],
            answer["ETag"],
            milliseconds(answer["LastModified"]),
            dict(answer["Metadata"]),
            decode_crc32c(answer.get("ChecksumCRC32C")),
        )

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order, a page of 1000 a request; see :meth:`ObjectStore.list`.

        Raises :class:`StoreError` if the service lists in another order, unless it is known or declared to do so.
        """
        validate_prefix("list", prefix, self.url)
        listing = Listing(self.client, self.bucket, prefix, self.url, self._service)
        return listing.objects(start_after, self._unordered_listing)

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete the objects, 1000 a request; see :meth:`ObjectStore.delete_many`."""
        batch: list[Any] = []
        for key in keys:
            validate_key("delete_many", key, self.url)
            batch.append({"Key": key})
            if len(batch) == _DELETE_COUNT_MAX:
                self._delete(batch)
                batch = []
        if batch:
            self._delete(batch)

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Yield unfinished multipart uploads; see :meth:`ObjectStore.list_uploads`."""
        validate_prefix("list_uploads", prefix, self.url)
        arguments: dict[str, Any] = {}
        while True:
            with s3_errors("list_uploads", prefix, self.url):
                page = self.client.list_multipart_uploads(Bucket=self.bucket, Prefix=prefix, **arguments)
            for entry in page.get("Uploads", ()):
                yield UploadInfo(entry["Key"], entry["UploadId"], milliseconds(entry["Initiated"]))
            if not page.get("IsTruncated"):
                return
            arguments = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Abort an unfinished upload; see :meth:`ObjectStore.abort_upload`."""
        validate_key("abort_upload", key, self.url)
        try:
            with s3_errors("abort_upload", key, self.url):
                self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)
        except NotFound:
            return  # completed or aborted before: what was asked for holds

    def _put(
        self,
        operation: str,
        key: str,
        data: Source,
        *,
        crc32c: int | None,
        metadata: Metadata,
        **conditions: Any,
    ) -> Version:
        validate_key(operation, key, self.url)
        kept, storage_class = split_storage_class(metadata)
        with (
            self._body_to_send(operation, key, data, crc32c) as (body, checksum),
            s3_errors(operation, key, self.url),
        ):
            answer = self.client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                Metadata=kept,
                **checksum,
                **self.settings.put_options,
                **storage_class,
                **conditions,
            )
            if isinstance(body, SourceReader) and body.crc32c not in {None, crc32c}:
                reason = f"the files changed while they were sent: CRC-32C {body.crc32c:08x}, it was {crc32c:08x}"
                raise ChecksumMismatch(operation, key, self.url, reason)
        check_encrypted(operation, key, self.url, self.settings, answer)
        confirmed = crc32c is not None and decode_crc32c(answer.get("ChecksumCRC32C")) == crc32c
        return ConfirmedVersion(answer["ETag"]) if confirmed else answer["ETag"]

    @contextmanager
    def _body_to_send(
        self, operation: str, key: str, data: Source, crc32c: int | None
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The body and its checksum; several pieces whose checksum is known are sent as they lie."""
        if (
            isinstance(data, (bytes, bytearray, memoryview, FileRange))
            or crc32c is None
            or self.settings.checksum == "md5"
        ):
            body = as_bytes(data)
            yield body, self._checksum(operation, key, body, crc32c)
            return
        with SourceReader(data) as reader:
            try:
                yield reader, {"ChecksumAlgorithm": "CRC32C", "ChecksumCRC32C": encode_crc32c(crc32c)}
            except StoreError as error:
                if reader.error is None:
                    raise
                raise reader.error from error

    def _checksum(self, operation: str, key: str, body: bytes, crc32c: int | None) -> dict[str, Any]:
        """Checksum arguments for the body of a PUT; what the service will not check is checked here."""
        if self.settings.checksum == "md5":
            check_crc32c(operation, key, self.url, body, crc32c)
            return {"ContentMD5": content_md5(body)}
        crc = crc32c_of(body) if crc32c is None else crc32c
        return {"ChecksumAlgorithm": "CRC32C", "ChecksumCRC32C": encode_crc32c(crc)}

    def _get_checked(self, key: str) -> tuple[bytes, Version]:
        with s3_errors("get", key, self.url):
            answer = self.client.get_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        data = self._body("get", key, answer)
        stored = decode_crc32c(answer.get("ChecksumCRC32C"))
        actual = crc32c_of(data)
        if stored is not None and stored != actual:
            reason = f"the bytes received have CRC-32C {actual:08x}, the store keeps {stored:08x}"
            raise ChecksumMismatch("get", key, self.url, reason)
        return data, answer["ETag"]

    def _marked(self, operation: str, key: str, metadata: Metadata | None) -> dict[str, str]:
        return validate_metadata(operation, key, self.url, with_put_id(metadata))

    def _ranged(self, operation: str, key: str, header: str) -> tuple[bytes, int, int]:
        """Return the bytes, their position, and the object's size."""
        validate_key(operation, key, self.url)
        with s3_errors(operation, key, self.url):
            answer = self.client.get_object(Bucket=self.bucket, Key=key, Range=header)
        data = self._body(operation, key, answer)
        found = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
        if found:
            return data, int(found[1]), int(found[3])
        if not data:
            return b"", 0, 0  # an empty object may be answered without a range
        reason = f"the service ignored the range {header}"
        raise StoreError(operation, key, self.url, reason, "This service cannot hold an archive.")

    def _body(self, operation: str, key: str, answer: Any) -> bytes:
        # Not `with body`: that hands out urllib3's response beneath, whose errors are not botocore's.
        with s3_errors(operation, key, self.url), closing(answer["Body"]) as body:
            data: bytes = body.read()  # fewer bytes than announced are an error of botocore's
        return data

    def _delete(self, batch: Sequence[Any]) -> None:
        first = batch[0]["Key"]
        with s3_errors("delete_many", first, self.url):
            answer = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": batch, "Quiet": True})
        failed = [entry for entry in answer.get("Errors", ()) if entry.get("Code") != "NoSuchKey"]
        if failed:
            worst = failed[0]
            message = f"{worst.get('Message', '')} ({len(failed)} of {len(batch)} keys not deleted)"
            raise code_error(
                "delete_many", worst.get("Key", first), self.url, code=worst.get("Code", ""), status=0, message=message
            )
