"""Whether the compiled kernel decodes records, or array code.

The kernel is a distribution of its own (the folder ``kernel`` of the repository), because it needs a compiler. Without it,
and for all that it refuses, the array code of `stratalog.spark.rows.decode` gives the same rows and finds the words for damage.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["INTERFACE", "VARIABLE", "Choice", "Kernel", "chosen_kernel", "installed_kernel"]

VARIABLE: Final = "STRATALOG_KERNEL"
"""The environment variable that says whether it is used: ``auto`` (the default), ``off`` or ``require``."""
INTERFACE: Final = 1
"""The form of `Kernel` that is spoken here; one of another form is not used."""

_INSTALL: Final = "'make kernel' in a checkout of stratalog builds and installs it"


class Kernel(Protocol):
    """The module ``stratalog_kernel.records``, which describes its function."""

    INTERFACE: int

    def decode(
        self,
        payload: bytes,
        batches: npt.NDArray[np.int64],
        window: tuple[int, int] | None,
        depth: int,
        rows: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        times: npt.NDArray[np.int64],
        keys: npt.NDArray[np.uint8] | None,
        values: npt.NDArray[np.uint8] | None,
        ends: npt.NDArray[np.int32],
        valid: npt.NDArray[np.uint8],
        tails: npt.NDArray[np.int32],
    ) -> tuple[int, int, int] | None:
        """Offsets, times, keys and values of the records of batches."""


class Choice(NamedTuple):
    """The kernel to decode with, or why there is none."""

    kernel: Kernel | None
    reason: str = ""


@cache
def installed_kernel() -> Choice:
    """Kernels that this interpreter can import."""
    try:
        from stratalog_kernel import records  # noqa: PLC0415 - optional, and asked for once
    except ImportError as error:
        return Choice(None, f"it cannot be imported ({error})")
    if records.INTERFACE != INTERFACE:
        return Choice(None, f"the one installed has interface {records.INTERFACE}, not {INTERFACE}")
    return Choice(records)


def chosen_kernel(environment: Mapping[str, str] = os.environ) -> Choice:
    """The decoder of this process.

    Raises `Invalid` if `VARIABLE` requires a kernel that is not there, or says something unknown.
    """
    wanted = environment.get(VARIABLE) or "auto"
    if wanted == "off":
        return Choice(None, f"{VARIABLE} is 'off'")
    if wanted not in {"auto", "require"}:
        raise Invalid(f"{VARIABLE} is {wanted!r}; it may be 'auto', 'off' or 'require'")
    found = installed_kernel()
    if wanted == "require" and found.kernel is None:
        raise Invalid(f"{VARIABLE} requires the compiled kernel, and {found.reason}: {_INSTALL}")
    return found
