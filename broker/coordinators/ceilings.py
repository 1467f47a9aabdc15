"""How much the coordinators of a broker remember: strangers make groups, members and transactional ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stratalog.broker.clock import Clock
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["Ceiling"]

_NAME_CHARACTERS: Final = 1024
"""A name this long counts twice, one twice as long three times: names have up to 32 KiB."""
_COUNTED_SECONDS: Final = 10.0
"""So long a count is gone by, with what came since added."""
_FULL_SECONDS: Final = 1.0
"""The same where there seems to be no room: something may have gone."""


class Ceiling:
    """Admits things of one kind up to a maximum, which ``maximum`` gives, as the setting ``name`` says it.

    ``count`` counts all that there are, by a pass over them.
    """

    def __init__(self, name: str, maximum: Callable[[], int], count: Callable[[], int], clock: Clock) -> None:
        self.name = name
        self.refused = 0
        self._maximum = maximum
        self._count = count
        self._clock = clock
        self._counted_at: float | None = None
        self._estimate = 0

    def admit(self, name: str, code: ErrorCode) -> None:
        """Note that there is one more, called ``name``. Raises `KafkaError` with this code if there is no room."""
        weight = 1 + len(name) // _NAME_CHARACTERS
        maximum = self._maximum() // weight
        now = self._clock.monotonic()
        old_after = _COUNTED_SECONDS if self._estimate < maximum else _FULL_SECONDS
        if self._counted_at is None or now - self._counted_at >= old_after:
            self._counted_at, self._estimate = now, self._count()
        if self._estimate >= maximum:
            self.refused += 1
            size = f", for names of {len(name)} characters {maximum}" if weight > 1 else ""
            raise KafkaError(code, f"This broker remembers no more: {self.name} is {self._maximum()}{size}.")
        self._estimate += 1
