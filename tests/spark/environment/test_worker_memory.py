"""Freed memory stays with the process that asked for that, and its modules are not searched."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from stratalog.spark.environment.worker_memory import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
    assert keep_freed_memory()

def turn():
    buffers = [bytearray(6 << 20) for _ in range(4)]
    for buffer in buffers:
        buffer[::4096] = b"x" * len(buffer[::4096])

turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(ran.stdout)


def has_mallopt() -> bool:
    return sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "mallopt")


@pytest.mark.skipif(not has_mallopt(), reason="the C library is not glibc")
def test_buffers_of_the_same_size_cost_no_page_faults_again() -> None:
    """Unlike without it, where each turn takes all of its pages from the kernel."""
    assert page_faults("keep") * 5 < page_faults("leave")


FREEZING = """
import gc, json, sys
from stratalog.spark.environment.worker_memory import freeze_modules

seen = []
for task in range(4):
    freeze_modules()
    if task == 0:
        import pyarrow
    garbage = []
    garbage.append(garbage)
    del garbage
    seen.append([gc.get_freeze_count(), len(gc.get_objects()), gc.collect()])
print(json.dumps(seen))
"""


def test_modules_that_two_tasks_loaded_are_not_searched_again() -> None:
    """Modules that the first of them needed included; garbage is found in every task."""
    ran = subprocess.run([sys.executable, "-c", FREEZING], capture_output=True, text=True, check=True)
    frozen, searched, found = zip(*json.loads(ran.stdout), strict=True)
    assert frozen[0] < frozen[1] == frozen[2] == frozen[3]
    assert searched[3] * 20 < frozen[3]
    assert min(found) > 0
