"""Lines about requests to the active controller that fail again and again: one for each kind of failure."""

from __future__ import annotations

import logging

__all__ = ["Complaints"]


class Complaints:
    """Those of one asker. A failure of the same kind as the last one is for those who look closely."""

    def __init__(self, log: logging.Logger, asker: str) -> None:
        """Lines go to ``log`` and begin with ``asker``."""
        self._log = log
        self._asker = asker
        self._kind = ""
        self.last = ""
        """The text of the last failure; empty after a success."""

    def add(self, kind: str, text: str) -> None:
        """A request has failed."""
        level = logging.DEBUG if kind == self._kind else logging.WARNING
        self._log.log(level, "%s: %s", self._asker, text)
        self._kind, self.last = kind, text

    def end(self) -> None:
        """A request has succeeded: the next failure is news."""
        self._kind = self.last = ""
