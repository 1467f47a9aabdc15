"""Multipart upload: parts in a few threads, a checksum each and one over all, and nothing left behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from stratalog.tier.stores.s3.checksum import content_md5, decode_crc32c, encode_crc32c
from stratalog.tier.stores.s3.client import S3Settings
from stratalog.tier.stores.s3.encryption import check_encrypted
from stratalog.tier.stores.s3.errors import s3_errors
from stratalog.tier.stores.source import crc32c_of, source_length, source_parts
from stratalog.tier.stores.storage_class import split_storage_class
from stratalog.tier.stores.store import ChecksumMismatch, Source, StoreError, Version

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

__all__ = ["PART_BYTES_MIN", "MultipartUpload", "effective_part_bytes"]

PART_BYTES_MIN = 5 << 20
"""Smallest part but the last (Amazon S3's limit)."""

_FULL_CRC: Final[dict[str, Any]] = {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}

PART_COUNT_MAX = 10_000
"""Most parts of one object (Amazon S3's limit)."""


def effective_part_bytes(size_bytes: int, part_bytes: int) -> int:
    """Return the smallest part size that is at least ``part_bytes`` and within S3's limits for ``size_bytes``."""
    return max(part_bytes, PART_BYTES_MIN, -(-size_bytes // PART_COUNT_MAX))


class MultipartUpload(Struct, frozen=True):
    """One upload of ``key``; ``threads`` parts travel at once, so memory stays within ``threads + 1`` parts.

    Where the service offers full-object checksums, the CRC-32C of the whole is checked at completion; it is computed
    while the parts are read, in order.
    """

    client: S3Client
    bucket: str
    key: str
    url: str
    settings: S3Settings = field(default_factory=S3Settings)
    threads: int = 4

    def run(self, source: Source, *, part_bytes: int, metadata: Mapping[str, str]) -> Version:
        """Upload ``source`` and return the object's version; on any failure abort the upload and raise."""
        size_bytes = source_length(source)
        begun = self._begin(metadata)
        upload_id, full_object = begun["UploadId"], begun.get("ChecksumType") == "FULL_OBJECT"
        try:
            check_encrypted("put_large", self.key, self.url, self.settings, begun)
            parts, crc = self._send(upload_id, source, effective_part_bytes(size_bytes, part_bytes))
            return self._complete(upload_id, parts, crc=crc if full_object else None, size_bytes=size_bytes)
        except BaseException as error:
            self._abort(upload_id, error)
            raise

    def _begin(self, metadata: Mapping[str, str]) -> Any:
        kept, storage_class = split_storage_class(metadata)
        with s3_errors("put_large", self.key, self.url):
            return self.client.create_multipart_upload(
                Bucket=self.bucket,
                Key=self.key,
                Metadata=kept,
                **({} if self.settings.checksum == "md5" else _FULL_CRC),
                **self.settings.put_options,
                **storage_class,
            )

    def _send(self, upload_id: str, source: Source, part_bytes: int) -> tuple[list[Any], int]:
        crc = 0
        parts: list[Any] = []
        pending: deque[Future[Any]] = deque()
        pool = ThreadPoolExecutor(max_workers=self.threads, thread_name_prefix="stratalog-part")
        try:
            for number, data in enumerate(source_parts(source, part_bytes), start=1):
                crc = crc32c_of(data, crc)
                if len(pending) >= self.threads:
                    parts.append(pending.popleft().result())
                pending.append(pool.submit(self._send_part, upload_id, number, data))
            parts.extend(future.result() for future in pending)
        finally:
            # Wait for parts in flight: one that lands after the abort would stay, and be billed.
            pool.shutdown(wait=True, cancel_futures=True)
        return parts, crc

    def _send_part(self, upload_id: str, number: int, data: bytes) -> dict[str, Any]:
        checksum, algorithm = self._checksum(data)
        with s3_errors("put_large", self.key, self.url):
            answer = self.client.upload_part(
                Bucket=self.bucket,
                Key=self.key,
                UploadId=upload_id,
                PartNumber=number,
                Body=data,
                **checksum,
                **algorithm,
            )
        known = {} if "ContentMD5" in checksum else checksum
        return {"PartNumber": number, "ETag": answer["ETag"], **known}

    def _checksum(self, data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        """The checksum sent with a part; the first of it also at completion, unless it is an MD5."""
        if self.settings.checksum == "md5":
            return {"ContentMD5": content_md5(data)}, {}
        return {"ChecksumCRC32C": encode_crc32c(crc32c_of(data))}, {"ChecksumAlgorithm": "CRC32C"}

    def _complete(self, upload_id: str, parts: list[Any], *, crc: int | None, size_bytes: int) -> Version:
        checked: dict[str, Any] = {}
        if crc is not None:
            checked = {
                "ChecksumCRC32C": encode_crc32c(crc),
                "ChecksumType": "FULL_OBJECT",
                "MpuObjectSize": size_bytes,
            }
        with s3_errors("put_large", self.key, self.url):
            answer = self.client.complete_multipart_upload(
                Bucket=self.bucket, Key=self.key, UploadId=upload_id, MultipartUpload={"Parts": parts}, **checked
            )
        stored = decode_crc32c(answer.get("ChecksumCRC32C"))
        if crc is not None and stored is not None and stored != crc:
            reason = f"the store computed CRC-32C {stored:08x} over the parts, we {crc:08x}"
            raise ChecksumMismatch("put_large", self.key, self.url, reason)
        return answer["ETag"]

    def _abort(self, upload_id: str, cause: BaseException) -> None:
        """Abort; a failure of that is noted on the error that led here, and left to the sweep of old uploads."""
        try:
            with s3_errors("abort_upload", self.key, self.url):
                self.client.abort_multipart_upload(Bucket=self.bucket, Key=self.key, UploadId=upload_id)
        except StoreError as error:
            cause.add_note(f"The upload {upload_id} could not be aborted either: {error}")
