"""From a URL to a store. Every kind of store is imported only when its URL is opened.

``file:///path``      a local directory (the embedded default); ``/path`` is short for it
``memory:NAME``       in this process; the same name is the same store
``s3://bucket/prefix`` Amazon S3 or a compatible service
anything else         through fsspec, read-only or for a single writer
"""

from __future__ import annotations

import os
import threading
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from stratalog.tier.stores.store import ObjectStore, UnsupportedOperation

__all__ = ["open_store", "provide_store", "withdraw_store"]

_ADVICE = "Write file:///path, s3://bucket/prefix or memory:name."

SINGLE_WRITER_VARIABLE = "STRATALOG_BUCKET_SINGLE_WRITER"
"""The broker's setting in its form as environment variable: commands that write to a bucket take it from there."""

_S3_STORE_OPTIONS = ("single_put_bytes_max", "upload_threads", "unordered_listing")

_memory_lock = threading.Lock()
_memory_stores: dict[str, ObjectStore] = {}


def open_store(url: str, **options: Any) -> ObjectStore:
    """Open the store at ``url``.

    ``options`` are keyword arguments of the store's own class. A directory: ``create``, ``sync``. S3: the fields of
    :class:`~stratalog.tier.stores.s3.client.S3Settings`, ``single_put_bytes_max``, ``upload_threads``, ``unordered_listing``
    and ``retry`` (a :class:`~stratalog.tier.stores.retrying_store.RetryPolicy`, or ``None`` for single attempts). fsspec: the
    file system's own. ``single_writer`` says that there is no other writer, which opens stores without conditional writes
    for writing and changes nothing for others. Raises :class:`UnsupportedOperation` for a URL that names no store.
    """
    single_writer = bool(options.pop("single_writer", False))
    if url.startswith("/"):
        url = f"file://{quote(url)}"
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise UnsupportedOperation("open", "", url, "this is no URL", _ADVICE)
    if scheme == "memory" and not rest.startswith("//"):
        return _open_memory(url, options)
    if scheme == "file":
        return _open_local(url, options)
    if scheme == "s3":
        return _open_s3(url, options)
    if rest.startswith("//"):
        return _open_fsspec(url, single_writer, options)
    raise UnsupportedOperation("open", "", url, f"no store is known for {scheme!r}", _ADVICE)


def provide_store(url: str, store: ObjectStore) -> None:
    """From now on ``store`` is what `open_store` gives for ``url``, a ``memory:NAME`` URL: one that fails on demand."""
    if not url.startswith("memory:"):
        raise UnsupportedOperation("provide", "", url, "only memory:NAME can be provided", _ADVICE)
    with _memory_lock:
        _memory_stores[url] = store


def withdraw_store(url: str) -> None:
    """Forget the store of a ``memory:NAME`` URL and what it holds, unless it is open."""
    with _memory_lock:
        _memory_stores.pop(url, None)


def _open_memory(url: str, options: dict[str, Any]) -> ObjectStore:
    from stratalog.tier.stores.memory_store import MemoryStore  # noqa: PLC0415 - loaded on first use

    with _memory_lock:
        store = _memory_stores.get(url)
        if store is None:
            store = _memory_stores[url] = MemoryStore(url, **options)
    return store


def _open_local(url: str, options: dict[str, Any]) -> ObjectStore:
    from stratalog.tier.stores.local_store import LocalStore  # noqa: PLC0415 - loaded on first use

    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise UnsupportedOperation("open", "", url, "a file URL needs an absolute path", "Write file:///path.")
    return LocalStore(unquote(parts.path), **options)


def _open_s3(url: str, options: dict[str, Any]) -> ObjectStore:
    from stratalog.tier.stores.prefix_store import PrefixStore  # noqa: PLC0415 - loaded on first use
    from stratalog.tier.stores.retrying_store import RetryingStore, RetryPolicy  # noqa: PLC0415 - loaded on first use
    from stratalog.tier.stores.s3.client import S3Settings  # noqa: PLC0415 - loaded on first use
    from stratalog.tier.stores.s3.store import S3Store  # noqa: PLC0415 - loaded on first use

    parts = urlsplit(url)
    if not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
        raise UnsupportedOperation("open", "", url, "an S3 URL is s3://bucket/prefix and nothing more", _ADVICE)
    retry = options.pop("retry", RetryPolicy())
    own = {name: options.pop(name) for name in _S3_STORE_OPTIONS if name in options}
    store: ObjectStore = S3Store(parts.netloc, S3Settings(**options), **own)
    prefix = parts.path.strip("/")
    if prefix:
        store = PrefixStore(store, prefix)
    return store if retry is None else RetryingStore(store, retry)


def _open_fsspec(url: str, single_writer: bool, options: dict[str, Any]) -> ObjectStore:
    from stratalog.tier.stores.fsspec_store import FsspecStore  # noqa: PLC0415 - loaded on first use

    promised = os.environ.get(SINGLE_WRITER_VARIABLE, "").lower() == "true"
    return FsspecStore(url, single_writer=single_writer or promised, **options)
