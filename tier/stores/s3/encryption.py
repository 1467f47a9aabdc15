"""Whether a service encrypted what it was asked to encrypt: some accept the header and ignore it."""

from __future__ import annotations

from typing import Any

from stratalog.tier.stores.s3.client import S3Settings
from stratalog.tier.stores.store import UnsupportedOperation

__all__ = ["check_encrypted"]


def check_encrypted(operation: str, key: str, url: str, settings: S3Settings, answer: Any) -> None:
    """Raise :class:`UnsupportedOperation` unless the ``answer`` to a write names the encryption that was asked for."""
    asked, done = settings.server_side_encryption, answer.get("ServerSideEncryption")
    if asked is None or done == asked:
        return
    reason = f"server-side encryption {asked} was asked for, the service says {done or 'nothing of it'}"
    advice = "The object lies there unencrypted: use a service that encrypts, or turn the setting off."
    raise UnsupportedOperation(operation, key, url, reason, advice if done is None else "Check the bucket's policy.")
