"""The store behind the URL of an archive, opened once in a process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from stratalog.tier import open_store
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Invalid

__all__ = ["open_archive"]

_S3_SETTINGS: Final = {
    "s3.endpoint": "endpoint_url",
    "s3.region": "region",
    "s3.access-key": "access_key_id",
    "s3.secret-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.ca-bundle": "ca_bundle",
    "s3.addressing-style": "addressing_style",
}


def open_archive(url: str, options: Mapping[str, str], *, create: bool = False) -> ObjectStore:
    """The store of this process for ``url``, opened once; ``options`` are those named ``s3.…``.

    ``create`` makes a directory that is not there. Raises `Invalid` for options that the kind of store does not have.
    """
    return _open(url, tuple(sorted(options.items())), create=create)


@lru_cache(maxsize=8)
def _open(url: str, options: tuple[tuple[str, str], ...], *, create: bool = False) -> ObjectStore:
    if url.startswith(("s3://", "s3a://")):
        settings = {_S3_SETTINGS[name]: value for name, value in options}
        return open_store("s3://" + url.partition("://")[2], **settings)
    if options:
        raise Invalid(f"option '{options[0][0]}' has no meaning for the archive {url}")
    if url.startswith("/"):
        url = "file://" + quote(url)
    return open_store(url, create=create) if url.startswith("file:") else open_store(url)
