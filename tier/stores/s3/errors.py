"""From botocore's errors to ours: the one place that knows S3's codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stratalog.tier.stores.store import (
    ChecksumMismatch,
    InvalidRange,
    NotFound,
    PreconditionFailed,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    UnsupportedOperation,
)

__all__ = ["code_error", "s3_errors"]

_BY_CODE: dict[str, tuple[type[StoreError], str]] = {
    "NoSuchKey": (NotFound, ""),
    "NoSuchUpload": (NotFound, "The upload was completed or aborted before."),
    "AccessDenied": (StoreDenied, ""),
    "NoSuchBucket": (StoreDenied, "The bucket does not exist: create it, or check its name and the endpoint."),
    "PreconditionFailed": (PreconditionFailed, ""),
    # Another conditional write of the key is in flight; SDKs do not retry this one.
    "ConditionalRequestConflict": (StoreUnavailable, ""),
    "OperationAborted": (StoreUnavailable, ""),
    "SlowDown": (StoreUnavailable, "The store asks for fewer requests: lower the copy rate if it lasts."),
    "RequestTimeout": (StoreUnavailable, ""),
    "InvalidRange": (InvalidRange, ""),
    "BadDigest": (ChecksumMismatch, ""),
    "InvalidDigest": (ChecksumMismatch, ""),
    "XAmzContentChecksumMismatch": (ChecksumMismatch, ""),
    "XAmzContentSHA256Mismatch": (ChecksumMismatch, ""),
    "RequestTimeTooSkewed": (StoreDenied, "This machine's clock is wrong by more than the store allows: set it."),
    "ExpiredToken": (StoreDenied, "The session token has expired: renew the credentials."),
    "InvalidAccessKeyId": (StoreDenied, "The service does not know this access key: renew the credentials."),
    "InvalidToken": (StoreDenied, "The session token is not valid: renew the credentials."),
    "InvalidObjectState": (
        StoreDenied,
        "The object is in an archive storage class: restore it, or keep the archive out of such classes.",
    ),
    "PermanentRedirect": (StoreDenied, "The bucket is in another region: set the region."),
    "NotImplemented": (UnsupportedOperation, "The service lacks this S3 call."),
}

_BY_STATUS: dict[int, type[StoreError]] = {
    401: StoreDenied,
    403: StoreDenied,
    404: NotFound,
    405: UnsupportedOperation,
    408: StoreUnavailable,
    409: StoreUnavailable,
    412: PreconditionFailed,
    416: InvalidRange,
    429: StoreUnavailable,
    501: UnsupportedOperation,
}


def code_error(operation: str, key: str, url: str, *, code: str, status: int, message: str) -> StoreError:
    """Return our error for an S3 error code and HTTP status (0 if there was none)."""
    reason = f"S3 answered {status or ''} {code}: {message}".replace("  ", " ")
    if code in _BY_CODE:
        kind, advice = _BY_CODE[code]
        return kind(operation, key, url, reason, advice)
    if status in _BY_STATUS:
        return _BY_STATUS[status](operation, key, url, reason)
    if status >= 500 or code.startswith(("Throttl", "InternalError", "ServiceUnavailable")):
        return StoreUnavailable(operation, key, url, reason)
    return StoreError(operation, key, url, reason)


@contextmanager
def s3_errors(operation: str, key: str, url: str) -> Iterator[None]:
    """Turn what botocore raises inside into a :class:`StoreError`."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - slow, so only where S3 is used
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - botocore's own dependency

    try:
        yield
    except ClientError as error:
        response: Any = error.response
        details = response.get("Error", {})
        raise code_error(
            operation,
            key,
            url,
            code=str(details.get("Code", "")),
            status=int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)),
            message=str(details.get("Message", "")),
        ) from error
    except BotoCoreError as error:
        raise _transport_error(operation, key, url, error) from error
    except (HTTPError, OSError) as error:  # botocore lets some of those below it through
        raise StoreUnavailable(operation, key, url, f"{type(error).__name__}: {error}") from error


def _transport_error(operation: str, key: str, url: str, error: Exception) -> StoreError:
    from botocore import exceptions  # noqa: PLC0415 - slow, so only where S3 is used

    reason = f"{type(error).__name__}: {error}"
    if isinstance(
        error,
        (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.CredentialRetrievalError),
    ):
        return StoreDenied(operation, key, url, reason, "Give credentials by environment, profile or role.")
    if isinstance(error, exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in reason:
        advice = "Give the certificates of its authority: stratalog.bucket.ca.bundle, or AWS_CA_BUNDLE."
        return StoreDenied(operation, key, url, reason, advice)
    if isinstance(error, exceptions.FlexibleChecksumError):  # botocore compares itself where awscrt is installed
        return ChecksumMismatch(operation, key, url, reason)
    # Three unrelated classes for what a network does.
    if isinstance(error, (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)):
        return StoreUnavailable(operation, key, url, reason)
    return StoreError(operation, key, url, reason)
