from __future__ import annotations

import pytest
import urllib3.exceptions
from botocore import exceptions
from botocore.exceptions import ClientError

from stratalog.tier.stores.s3.errors import s3_errors
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


def translated(error):
    """Return what becomes of an error."""
    with pytest.raises(StoreError) as caught, s3_errors("get", "a/b", "s3://bucket"):
        raise error
    assert caught.value.__cause__ is error
    assert str(caught.value).startswith("get 'a/b' in s3://bucket: ")
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchKey", NotFound),
        (404, "404", NotFound),
        (404, "NoSuchBucket", StoreDenied),
        (412, "PreconditionFailed", PreconditionFailed),
        (409, "ConditionalRequestConflict", StoreUnavailable),
        (416, "InvalidRange", InvalidRange),
        (400, "BadDigest", ChecksumMismatch),
        (400, "XAmzContentChecksumMismatch", ChecksumMismatch),
        (400, "RequestTimeout", StoreUnavailable),
        (400, "ExpiredToken", StoreDenied),
        (400, "MalformedXML", StoreError),
        (401, "", StoreDenied),
        (403, "AccessDenied", StoreDenied),
        (403, "RequestTimeTooSkewed", StoreDenied),
        (408, "", StoreUnavailable),
        (429, "TooManyRequests", StoreUnavailable),
        (500, "InternalError", StoreUnavailable),
        (501, "NotImplemented", UnsupportedOperation),
        (502, "", StoreUnavailable),
        (503, "SlowDown", StoreUnavailable),
        (504, "", StoreUnavailable),
        (0, "ThrottlingException", StoreUnavailable),
    ],
)
def test_codes_have_their_kind(status, code, kind):
    """Each answer of S3 becomes the error that says what the caller may do, with status and code in its text."""
    response = {"Error": {"Code": code, "Message": "because"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error = translated(ClientError(response, "GetObject"))
    assert type(error) is kind
    assert code in error.reason
    assert "because" in error.reason


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.EndpointConnectionError(endpoint_url="http://x"), StoreUnavailable),
        (exceptions.ConnectTimeoutError(endpoint_url="http://x"), StoreUnavailable),
        (exceptions.ConnectionClosedError(endpoint_url="http://x"), StoreUnavailable),
        (exceptions.ReadTimeoutError(endpoint_url="http://x"), StoreUnavailable),
        (exceptions.ResponseStreamingError(error="cut"), StoreUnavailable),
        (exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), StoreUnavailable),
        (urllib3.exceptions.ProtocolError("cut"), StoreUnavailable),
        (ConnectionResetError("reset"), StoreUnavailable),
        (exceptions.FlexibleChecksumError(error_msg="differs"), ChecksumMismatch),
        (exceptions.NoCredentialsError(), StoreDenied),
        (exceptions.ParamValidationError(report="bad"), StoreError),
    ],
)
def test_transport_errors_have_their_kind(error, kind):
    """Failures below HTTP may pass; missing credentials and our own mistakes do not."""
    assert type(translated(error)) is kind


def test_other_errors_pass_through():
    """A mistake in our own code is not dressed up as a store's."""
    with pytest.raises(ZeroDivisionError), s3_errors("get", "k", "s3://b"):
        raise ZeroDivisionError
