"""How much the coordinators of a broker remember: strangers make groups, members and transactional ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stratalog.broker.runtime.clock import Clock
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["Ceiling"]

_NAME_CHARACTERS: Final = 1024
"""A name this long counts twice, one twice as long three times: names have up to 32 KiB."""
_LOOKED_AT_MAX: Final = 1_000
"""Things that are looked through for each that is admitted. Where there are more, a count is good for a second."""
_FRESH_SECONDS: Final = 1.0


class Ceiling:
    """Admits things of one kind up to a maximum, which ``maximum`` gives, as the setting ``name`` says it.

    ``count`` counts all that there are; ``looked_at`` says through how many things it looks for that. It counts what
    there is, not what was asked for: requests that fail afterwards take no place.
    """

    def __init__(
        self,
        name: str,
        maximum: Callable[[], int],
        count: Callable[[], int],
        clock: Clock,
        *,
        looked_at: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name = name
        self.refused = 0
        self._maximum = maximum
        self._count = count
        self._looked_at = looked_at
        self._clock = clock
        self._counted_at: float | None = None
        self._held = 0

    def admit(self, name: str, code: ErrorCode, places: int = 1) -> None:
        """See whether there is room for one more, called ``name``, that takes so many places.

        Raises `KafkaError` with this code if there is not.
        """
        weight = 1 + len(name) // _NAME_CHARACTERS
        maximum = self._maximum() // weight
        if self._is_old():
            self._counted_at, self._held = self._clock.monotonic(), self._count()
        if self._held + places > maximum:
            self.refused += 1
            size = f", for names of {len(name)} characters {maximum}" if weight > 1 else ""
            size += f"; this one counts as {places}" if places > 1 else ""
            raise KafkaError(code, f"This broker remembers no more: {self.name} is {self._maximum()}{size}.")
        self._held += places - 1  # a large one is not overlooked until the next count

    def _is_old(self) -> bool:
        if self._counted_at is None or self._looked_at() <= _LOOKED_AT_MAX:
            return True
        return self._clock.monotonic() - self._counted_at >= _FRESH_SECONDS
