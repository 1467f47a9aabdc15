"""The type of a worst legal request, for the modules that list them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stratalog.wire.schema import Message

__all__ = ["ELEMENTS", "GROUP", "MANY", "Add", "Worst"]

ELEMENTS: Final = 9_900
"""Elements of the lists of one request; the broker takes 10,000."""
GROUP: Final = "all"
"""The group that has committed an offset of every topic."""
MANY: Final = "group-{:05}"

Add = Callable[..., None]
"""``add(what, message, *versions, pipelined=1)``: the newest version where none is named."""


@dataclass(frozen=True, slots=True)
class Worst:
    """One request: ``what`` it asks for, the message, the version it is sent in, how often it is sent at once."""

    what: str
    message: Message
    version: int
    pipelined: int = 1

    @property
    def name(self) -> str:
        """``DescribeConfigs v4: 9,900 groups``."""
        return f"{type(self.message).__name__.removesuffix('Request')} v{self.version}: {self.what}"
