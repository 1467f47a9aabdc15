"""From a URL to a store. Every kind of store is imported only when its URL is opened.

``file:///path``      a local directory (the embedded default)
``memory:NAME``       in this process; the same name is the same store
``s3://bucket/prefix`` Amazon S3 or a compatible service
anything else         through fsspec, read-only or for a single writer
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from stratalog.tier.store import ObjectStore, UnsupportedOperation

if TYPE_CHECKING:
    from stratalog.tier.memory_store import MemoryStore

__all__ = ["open_store"]

_memory_lock = threading.Lock()
_memory_stores: dict[str, MemoryStore] = {}


def open_store(url: str, **options: Any) -> ObjectStore:
    """Open the store at ``url``.

    ``options`` are the keyword arguments of the store's own class: :class:`~stratalog.tier.local_store.LocalStore`
    (``create``, ``sync``) and :class:`~stratalog.tier.memory_store.MemoryStore` (``clock_ms``). Raises
    :class:`UnsupportedOperation` for a URL that names no store.
    """
    scheme, colon, rest = url.partition(":")
    if not colon:
        reason = "this is no URL"
        raise UnsupportedOperation("open", "", url, reason, "Write file:///path, s3://bucket/prefix or memory:name.")
    if scheme == "memory" and not rest.startswith("//"):
        return _open_memory(url, options)
    if scheme == "file":
        return _open_local(url, options)
    raise UnsupportedOperation("open", "", url, f"no store is known for {scheme!r}")


def _open_memory(url: str, options: dict[str, Any]) -> ObjectStore:
    from stratalog.tier.memory_store import MemoryStore  # noqa: PLC0415 - loaded on first use

    with _memory_lock:
        store = _memory_stores.get(url)
        if store is None:
            store = _memory_stores[url] = MemoryStore(url, **options)
    return store


def _open_local(url: str, options: dict[str, Any]) -> ObjectStore:
    from stratalog.tier.local_store import LocalStore  # noqa: PLC0415 - loaded on first use

    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise UnsupportedOperation("open", "", url, "a file URL needs an absolute path", "Write file:///path.")
    return LocalStore(unquote(parts.path), **options)
