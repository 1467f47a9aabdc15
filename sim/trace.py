"""Records the run, line by line: a hash of everything, and the last lines for the report of a failure."""

from __future__ import annotations

import hashlib
import traceback
from collections import deque
from collections.abc import Callable

__all__ = ["Trace"]


class Trace:
    """Lines ``time who what``. ``out`` gets each as it comes; the last ``count`` are kept; all are hashed."""

    def __init__(self, count: int = 60, out: Callable[[str], object] | None = None) -> None:
        self.now: Callable[[], float] = lambda: 0.0
        self.lines: deque[str] = deque(maxlen=count)
        self.count = 0
        self.keep_errors = True
        self.hidden = ""
        """A text that differs from run to run: the directory that stands for the disk."""
        self.errors: list[str] = []
        self._out = out
        self._hash = hashlib.blake2b(digest_size=16)

    def note(self, who: str, what: str) -> None:
        """Something happened now."""
        if self.hidden and self.hidden in what:
            what = what.replace(self.hidden, "")
        line = f"{self.now():10.4f} {who:<12} {what}"
        self.count += 1
        self.lines.append(line)
        self._hash.update(line.encode())
        if self._out is not None:
            self._out(line)

    def keep_error(self, error: BaseException) -> None:
        """Keep the traceback of what should not have been raised."""
        self.errors.append("".join(traceback.format_exception(error)))

    @property
    def digest(self) -> str:
        """The hash of all lines so far: equal in two runs if and only if they were the same."""
        return self._hash.hexdigest()
