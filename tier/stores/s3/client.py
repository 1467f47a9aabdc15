"""Settings of an S3 store and the boto3 client made from them: one client per process and settings.

boto3 is imported on first use: it costs a second at start-up that a broker without a bucket need not pay.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from stratalog.tier.stores.s3.checksum import content_md5
from stratalog.tier.stores.s3.credentials import RenewingClient
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

__all__ = ["S3Settings", "client_for"]

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT")
"""Environment variables naming the endpoint, strongest first; an option given in code is stronger still."""

SETTING_VARIABLES = {
    "addressing_style": "STRATALOG_BUCKET_ADDRESSING_STYLE",
    "ca_bundle": "STRATALOG_BUCKET_CA_BUNDLE",
    "checksum": "STRATALOG_BUCKET_CHECKSUM",
    "server_side_encryption": "STRATALOG_BUCKET_SERVER_SIDE_ENCRYPTION",
}
KMS_KEY_VARIABLE = "STRATALOG_BUCKET_KMS_KEY_ID"
"""The broker's settings in their form as environment variables: commands that open a bucket take them from there."""

CHECKSUMS = ("crc32c", "md5")
"""The checksum header of objects: the newer one, or ``Content-MD5`` for services that refuse or mistake that."""

ENCRYPTIONS = ("AES256", "aws:kms", "aws:kms:dsse")
"""Ways in which S3 encrypts an object: with its own keys, or a key of the key management service, or twice that."""

ADDRESSING_STYLES = ("auto", "path", "virtual")

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SDK_ATTEMPTS = 3

_clients_lock = threading.Lock()
_clients: dict[tuple[int, S3Settings], S3Client] = {}


class S3Settings(Struct, frozen=True):
    """How to reach S3; everything has a default that works with Amazon's own service.

    ``endpoint_url``      of another service than Amazon's; also switches to path-style addresses.
    ``region``            default: as boto3 finds it; ``us-east-1`` with an own endpoint.
    ``access_key_id``, ``secret_access_key``, ``session_token``   default: boto3's credential chain.
    ``trusted_network``   send unsigned payloads over plain HTTP too (the header is always signed). Loopback and TLS
                          need no such leave.
    ``connect_timeout_s``, ``read_timeout_s``   of one socket operation.
    ``connections``       size of the connection pool: no fewer than the threads that use the store at once.
    ``addressing_style``  ``path`` (host/bucket/key), ``virtual`` (bucket.host/key) or ``auto``; default: ``path`` with
                          an own endpoint, else ``auto``.
    ``ca_bundle``         file of the certificates that the endpoint is checked with; default: ``AWS_CA_BUNDLE``, else
                          those that boto3 brings.
    ``server_side_encryption``   one of `ENCRYPTIONS`; default: what the bucket does by itself.
    ``checksum``          one of `CHECKSUMS`; default: ``crc32c``, which services keep and give back.
    ``kms_key_id``        key for the ``aws:kms`` ones; default: the account's own for S3.
    """

    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None
    trusted_network: bool = False
    connect_timeout_s: float = 3.0
    read_timeout_s: float = 30.0
    connections: int = 16
    addressing_style: str | None = None
    ca_bundle: str | None = None
    checksum: str | None = None
    server_side_encryption: str | None = None
    kms_key_id: str | None = None

    def __repr__(self) -> str:
        """Without credentials: settings end up in logs."""
        return f"S3Settings(endpoint_url={self.endpoint_url!r}, region={self.region!r})"

    def completed(self, environment: Mapping[str, str] | None = None) -> S3Settings:
        """Return the settings with what the environment says where nothing is given.

        Raises `Invalid` for what cannot be meant.
        """
        environment = os.environ if environment is None else environment
        found = self._from(environment)
        _check(found)
        endpoint = self.endpoint_url or next(
            (environment[name] for name in ENDPOINT_VARIABLES if environment.get(name)), None
        )
        if endpoint is None:
            return found
        if urlsplit(endpoint).scheme not in {"http", "https"}:
            raise Invalid(f"the S3 endpoint {endpoint!r} is no URL: write http://host:port or https://host")
        region = self.region or environment.get("AWS_REGION") or "us-east-1"
        return replace(found, endpoint_url=endpoint.rstrip("/"), region=region)

    def _from(self, environment: Mapping[str, str]) -> S3Settings:
        found: dict[str, Any] = {
            name: environment[variable]
            for name, variable in SETTING_VARIABLES.items()
            if getattr(self, name) is None and environment.get(variable)
        }
        if "server_side_encryption" in found and self.kms_key_id is None:
            found["kms_key_id"] = environment.get(KMS_KEY_VARIABLE) or None
        return replace(self, **found)

    @property
    def put_options(self) -> dict[str, Any]:
        """Encryption arguments of each PUT and each new multipart upload."""
        options: dict[str, Any] = {}
        if self.server_side_encryption is not None:
            options["ServerSideEncryption"] = self.server_side_encryption
        if self.kms_key_id is not None:
            options["SSEKMSKeyId"] = self.kms_key_id
        if self.server_side_encryption == "aws:kms":
            options["BucketKeyEnabled"] = True  # one call to the key service for many objects instead of one each
        return options

    @property
    def unsigned_payload(self) -> bool:
        """Whether bodies go unsigned: their integrity comes from TLS or loopback and from our own CRC-32C.

        Signing costs a SHA-256 over every byte, four times the processor time of the whole upload without it.
        """
        if self.endpoint_url is None:
            return True
        parts = urlsplit(self.endpoint_url)
        return parts.scheme == "https" or parts.hostname in _LOOPBACK or self.trusted_network


def _check(settings: S3Settings) -> None:
    if settings.server_side_encryption not in {None, *ENCRYPTIONS}:
        known = ", ".join(ENCRYPTIONS)
        raise Invalid(f"server-side encryption {settings.server_side_encryption!r} is not one of {known}")
    if settings.kms_key_id is not None and not (settings.server_side_encryption or "").startswith("aws:kms"):
        raise Invalid("a KMS key was given without server-side encryption aws:kms or aws:kms:dsse")
    if settings.addressing_style not in {None, *ADDRESSING_STYLES}:
        known = ", ".join(ADDRESSING_STYLES)
        raise Invalid(f"the addressing style {settings.addressing_style!r} is not one of {known}")
    if settings.checksum not in {None, *CHECKSUMS}:
        known = ", ".join(CHECKSUMS)
        raise Invalid(f"the checksum {settings.checksum!r} is not one of {known}")


def client_for(settings: S3Settings) -> S3Client:
    """Return this process's client for ``settings``; thread-safe, made on first use, never shared across a fork."""
    key = (os.getpid(), settings)
    with _clients_lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = _first_client(settings)
    return client


def _first_client(settings: S3Settings) -> S3Client:
    if settings.secret_access_key is not None:
        return _new_client(settings)  # given once and for all: nothing to find anew
    return cast("S3Client", RenewingClient(lambda: _new_client(settings)))


def _new_client(settings: S3Settings) -> S3Client:
    import boto3.session  # noqa: PLC0415 - slow, so only where S3 is used
    from botocore.config import Config  # noqa: PLC0415 - slow, so only where S3 is used

    session = boto3.session.Session()
    addressing: Any = settings.addressing_style or ("path" if settings.endpoint_url else "auto")
    config: Any = Config(
        signature_version="s3v4",
        s3={
            "addressing_style": addressing,
            "payload_signing_enabled": not settings.unsigned_payload,
        },
        # We compute and compare CRC-32C ourselves; the SDK's own default checksum breaks older services.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        # The SDK's retry quota runs dry when it is needed most; the real loop is RetryingStore.
        retries={"mode": "standard", "total_max_attempts": _SDK_ATTEMPTS},
        connect_timeout=settings.connect_timeout_s,
        read_timeout=settings.read_timeout_s,
        max_pool_connections=settings.connections,
        tcp_keepalive=True,
    )
    client: S3Client = session.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        region_name=settings.region,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=settings.secret_access_key,
        aws_session_token=settings.session_token,
        verify=settings.ca_bundle,
        config=config,
    )
    if settings.endpoint_url is not None:
        # Amazon takes the SDK's newer checksum of a list of keys; some others insist on this one.
        client.meta.events.register("before-sign.s3.DeleteObjects", _add_content_md5)
    return client


def _add_content_md5(request: Any, **_: Any) -> None:
    request.headers["Content-MD5"] = content_md5(request.body)
