"""Sizes and time spans as options of commands: ``100MiB``, ``6h``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.quantities import parse_duration_ms, parse_size_bytes
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    _IntParam = click.ParamType[int]
else:
    _IntParam = click.ParamType  # not generic in the older releases that we accept

__all__ = ["DURATION_MS", "SIGNED_MS", "SIGNED_SIZE", "SIZE_BYTES", "Quantity"]


class Quantity(_IntParam):
    """A number with a unit, as a whole number of the smallest one; negative ones only if ``signed``."""

    def __init__(self, name: str, parse: Callable[[str], int], *, signed: bool = False) -> None:
        self.name = name
        self._parse = parse
        self._signed = signed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; a usage error names what is wrong."""
        try:
            number = value if isinstance(value, int) else self._parse(str(value))
        except Invalid as error:
            self.fail(str(error), param, ctx)
        if number < 0 and not self._signed:
            self.fail(f"{value!r} is negative", param, ctx)
        return number


SIZE_BYTES: Final = Quantity("size", parse_size_bytes)
DURATION_MS: Final = Quantity("time", parse_duration_ms)
SIGNED_SIZE: Final = Quantity("size", parse_size_bytes, signed=True)
SIGNED_MS: Final = Quantity("time", parse_duration_ms, signed=True)
