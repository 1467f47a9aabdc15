"""One range of offsets that a plan has cut, on its way into the archive."""

from __future__ import annotations

from msgspec import Struct, field

from stratalog.tier.manifests.lifecycle import RangeEvent, RangeState, advance
from stratalog.tier.planning.plan_events import RangeRef
from stratalog.tier.stores.backoff import Backoff

__all__ = ["PlannedRange"]


class PlannedRange(Struct):
    """The offsets ``[base, end)`` and the latest attempt to upload them."""

    base: int
    end: int
    state: RangeState = RangeState.SEALED
    attempt: int = 0
    retry: Backoff = field(default_factory=Backoff)

    @property
    def ref(self) -> RangeRef:
        """The latest attempt, by name."""
        return RangeRef(self.base, self.end, self.attempt)

    def take(self, event: RangeEvent) -> None:
        """Go on to the state that follows. Raises what `advance` raises."""
        self.state = advance(self.state, event)

    def settle(self) -> None:
        """Take it for archived, by our commit or by another writer's objects; one in quarantine stays, and is passed over."""
        if self.state is RangeState.QUARANTINED:
            return
        if self.state is RangeState.UPLOADED:
            self.take(RangeEvent.COMMIT_DONE)
            return
        if self.state is RangeState.COPYING:
            self.take(RangeEvent.UPLOAD_FAILED)
        self.take(RangeEvent.FOUND_ARCHIVED)
