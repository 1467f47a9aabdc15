"""Up to where a log may lack tombstones and markers for good: a cleaner has dropped them, here or where the log was copied from."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ForgottenOffset"]


class ForgottenOffset:
    """The forgotten offset of one log.

    No tombstone that was dropped, and no marker, stood at it or behind it. Below it the log, as far as it goes, is clean: it has no
    record that one of them had ended. So a log that ends further down, and was never cleaned so far, may have such a record.
    """

    __slots__ = ("_awaits", "_keep", "_kept", "below")

    def __init__(self) -> None:
        self.below = 0
        """0 while no tombstone and no marker was dropped."""
        self._keep: Callable[[int], Callable[[], None]] = lambda _offset: lambda: None
        self._kept: Callable[[], bool] = lambda: True
        self._awaits = False

    def kept_by(self, below: int, keep: Callable[[int], Callable[[], None]], kept: Callable[[], bool]) -> None:
        """Have a log directory keep it, which says ``below``.

        ``keep`` notes another one, and returns what writes it down, in any thread; ``kept`` says whether the last one is written.
        """
        self.below, self._keep, self._kept = below, keep, kept

    @property
    def is_kept(self) -> bool:
        """Whether a start finds it as it is."""
        self._awaits = self._awaits and not self._kept()
        return not self._awaits

    def noting(self, offset: int) -> Callable[[], None]:
        """Call the result, in any thread, before anything below ``offset`` is dropped. It raises `OSError`.

        It is in force only with `dropped`: a replica that copies the log from its beginning before that may get a record whose
        tombstone goes next, and has to begin again.
        """
        return self._keep(max(self.below, offset))

    def dropped(self, offset: int) -> None:
        """The tombstone, or marker, right below ``offset`` is gone."""
        self.below = max(self.below, offset)

    def take_over(self, offset: int) -> None:
        """The log is empty, and is copied from one that has this. A crash before it is written has the log copied again."""
        self.below, self._awaits = offset, True
        self._keep(offset)

    def begin_to_lead(self, end_offset: int) -> None:
        """The records from the log's end on are new, and were never cleaned."""
        if self.below > end_offset:
            self.take_over(end_offset)

    def lower(self, offset: int) -> None:
        """The next records were cleaned up to ``offset`` only. Durable on return: too high, it would say too much. Raises `OSError`."""
        self._keep(offset)()
        self.below = offset
