"""A store that is only read: every request that would change the bucket is refused before it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from stratalog.tier.stores.opening import open_store
from stratalog.tier.stores.store import ObjectStore, UnsupportedOperation
from stratalog.tier.stores.wrappers import Call, StoreWrapper

__all__ = ["ReadOnlyStore", "open_to_read"]

T = TypeVar("T")

_READS: Final = frozenset({"get", "get_range", "get_suffix", "head", "list", "list_uploads"})


class ReadOnlyStore(StoreWrapper):
    """Lets reads through and raises `UnsupportedOperation` for everything else, whatever the store could do."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)

    def _around(self, call: Call, run: Callable[[], T]) -> T:
        if call.operation not in _READS:
            raise UnsupportedOperation(
                call.operation,
                call.key,
                self.url,
                "the bucket is open for reading only",
                "Use a broker to write to it.",
            )
        return run()


def open_to_read(url: str, **options: Any) -> ObjectStore:
    """Open the store at ``url`` for reading; ``options`` as `open_store` takes them.

    A directory that does not exist raises `NotFound` instead of being made. Raises what `open_store` raises.
    """
    if url.startswith("file:"):
        options = {"create": False, **options}
    return ReadOnlyStore(open_store(url, **options))
