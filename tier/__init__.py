"""The archive: object stores, key names, segment objects, manifests and the life cycle between them.

``open_store`` is loaded on first use, so that the pure modules of this room can be imported without any store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stratalog.tier.stores.opening import open_store

__all__ = ["open_store"]


def __getattr__(name: str) -> object:
    """Load ``open_store`` on first use (PEP 562)."""
    if name == "open_store":
        from stratalog.tier.stores.opening import open_store  # noqa: PLC0415 - the point of this function

        return open_store
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
