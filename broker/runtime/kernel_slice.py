"""How long the kernel lets this process compute at a stretch, as against others that want the same core.

Since Linux 6.12 a process that wakes takes the core at once from one that has asked for longer slices (EEVDF); both get
the same share in the end. Workers ask for long ones, so that a broker beside them answers without waiting for the end
of theirs. Niceness alone decides about shares, not about which process may interrupt another.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from typing import Final

__all__ = ["ask_time_slice", "time_slice_us"]

_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""Numbers of sched_setattr and sched_getattr."""
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQII")
"""struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period, least and most utilisation."""
_RUNTIME: Final = 5


def ask_time_slice(slice_us: int) -> bool:
    """Ask for slices of this length for the calling thread and those it starts; nothing else of it changes.

    False where the kernel does not take it: before 6.12 it says yes and does nothing, which `time_slice_us` shows.
    """
    attributes = _attributes()
    if attributes is None:
        return False
    fields = list(attributes)
    fields[_RUNTIME] = slice_us * 1000
    set_number, _ = _CALLS[platform.machine()]
    return _call(set_number, 0, _ATTRIBUTES.pack(*fields), 0) == 0


def time_slice_us() -> int | None:
    """The length of the calling thread's slices; None where the kernel does not tell."""
    attributes = _attributes()
    return None if attributes is None else attributes[_RUNTIME] // 1000 or None


def _attributes() -> tuple[int, ...] | None:
    numbers = _CALLS.get(platform.machine())
    if numbers is None:
        return None
    buffer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if _call(numbers[1], 0, buffer, len(buffer), 0) != 0:
        return None
    return _ATTRIBUTES.unpack(buffer.raw)


def _call(*arguments: object) -> int:
    return int(ctypes.CDLL(None).syscall(*arguments))
