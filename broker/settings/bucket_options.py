"""How the store of the archive is opened: from settings to the options of `open_store`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["S3_SETTINGS", "SINGLE_WRITER", "bucket_options", "misplaced_settings"]

S3_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "stratalog.bucket.addressing.style": "addressing_style",
        "stratalog.bucket.ca.bundle": "ca_bundle",
        "stratalog.bucket.checksum": "checksum",
        "stratalog.bucket.endpoint.url": "endpoint_url",
        "stratalog.bucket.kms.key.id": "kms_key_id",
        "stratalog.bucket.region": "region",
        "stratalog.bucket.server.side.encryption": "server_side_encryption",
    }
)
"""Settings that mean something for S3 only, and the option that each of them is."""

SINGLE_WRITER: Final = "stratalog.bucket.single.writer"


def bucket_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that these settings amount to; those that say nothing are left to the store."""
    options: dict[str, Any] = {option: values[name] for name, option in S3_SETTINGS.items() if values[name]}
    if values[SINGLE_WRITER]:
        options["single_writer"] = True
    return options


def misplaced_settings(url: str | None, values: Mapping[str, Any]) -> list[str]:
    """Names of settings that are given and mean nothing for the store at ``url``, or without another one."""
    wrong = [] if url is not None and url.startswith("s3:") else [name for name in S3_SETTINGS if values[name]]
    if values["stratalog.bucket.kms.key.id"] and not wrong:
        encryption = values["stratalog.bucket.server.side.encryption"] or ""
        return [] if encryption.startswith("aws:kms") else ["stratalog.bucket.kms.key.id"]
    return wrong
