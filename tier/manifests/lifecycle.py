"""The life of an offset range on its way into the archive and out of it: one table, run by the code and by the checker.

.. code-block:: text

    sealed -> copying -> uploaded -> committed -> evictable -> evicted
                |           |            |
                +-> sealed <+            +-> trash -> deleted
                +-> quarantined

What is not in the table is refused: no path leads from `SEALED` to `EVICTED` without a commit and a read-back
(rules 1 to 4 of ``docs/safety.md``).
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Final

from stratalog.wire.errors import Invalid

__all__ = ["TRANSITIONS", "IllegalTransition", "RangeEvent", "RangeState", "advance"]


class RangeState(Enum):
    """Where a range stands."""

    SEALED = "sealed"
    """Frozen, flushed and stable: it may be copied."""
    COPYING = "copying"
    """One upload attempt is under way, under its own key."""
    UPLOADED = "uploaded"
    """The object is complete and was checked by HEAD; no manifest names it."""
    COMMITTED = "committed"
    """The manifest names it, as far as the committer knows."""
    EVICTABLE = "evictable"
    """Read back under our claim, and the object's length and CRC agree: the local copy may go."""
    EVICTED = "evicted"
    """The local copy is gone."""
    QUARANTINED = "quarantined"
    """The local bytes fail their check: never archived."""
    TRASH = "trash"
    """No longer served; its object waits for readers and the grace."""
    DELETED = "deleted"
    """The object is gone."""


class RangeEvent(Enum):
    """Events of a range."""

    COPY = "copy"
    UPLOAD_DONE = "upload done"
    UPLOAD_FAILED = "upload failed"
    UPLOAD_CORRUPT = "upload corrupt"
    COMMIT_DONE = "commit done"
    COMMIT_REFUSED = "commit refused"
    FOUND_ARCHIVED = "found archived"
    READ_BACK = "read back"
    EVICT = "evict"
    DISCARD = "discard"
    DELETE = "delete"


class IllegalTransition(Invalid):
    """The state of the range does not allow this event: a defect of the caller."""


_S = RangeState
_E = RangeEvent
TRANSITIONS: Final = MappingProxyType(
    {
        (_S.SEALED, _E.COPY): _S.COPYING,
        # An earlier leader, or this one before a lost reply, had archived it already.
        (_S.SEALED, _E.FOUND_ARCHIVED): _S.COMMITTED,
        (_S.COPYING, _E.UPLOAD_DONE): _S.UPLOADED,
        (_S.COPYING, _E.UPLOAD_FAILED): _S.SEALED,
        (_S.COPYING, _E.UPLOAD_CORRUPT): _S.QUARANTINED,
        (_S.UPLOADED, _E.COMMIT_DONE): _S.COMMITTED,
        # The remote end is elsewhere: the object becomes an orphan and the range is cut anew.
        (_S.UPLOADED, _E.COMMIT_REFUSED): _S.SEALED,
        (_S.COMMITTED, _E.READ_BACK): _S.EVICTABLE,
        (_S.EVICTABLE, _E.EVICT): _S.EVICTED,
        (_S.COMMITTED, _E.DISCARD): _S.TRASH,
        (_S.EVICTABLE, _E.DISCARD): _S.TRASH,
        (_S.EVICTED, _E.DISCARD): _S.TRASH,
        (_S.TRASH, _E.DELETE): _S.DELETED,
    }
)


def advance(state: RangeState, event: RangeEvent) -> RangeState:
    """The next state. Raises `IllegalTransition` for a pair that the table does not have."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"a range that is {state.value} cannot take {event.value!r}") from None
