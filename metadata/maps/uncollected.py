"""Values of the image, and records that change it, that no collection of garbage looks at.

A full collection looks at each object that may be part of a cycle, with everything else standing still: 100 ms for the 60,000
objects of 33,000 partitions whose leaders have changed. Such values never are part of a cycle. They hold numbers, texts and each
other, and nothing that holds them, so their reference counts alone free them, and the collector may leave them out.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

__all__ = ["leave_out_of_collections"]

_untrack: Final = ctypes.pythonapi.PyObject_GC_UnTrack
_untrack.argtypes = [ctypes.py_object]
_untrack.restype = None


def leave_out_of_collections(value: dict[Any, Any] | list[Any] | object) -> None:
    """Have no collection look at ``value`` again: a dict, a list, or an instance of a class that is written in Python.

    These may be freed afterwards, which does not hold for every type of C: CPython's ``mappingproxy`` unlinks itself from the
    collector's list without looking whether it is there. A dict is looked at again once something is put into it.
    """
    _untrack(value)
