import platform
import subprocess
import sys

import pytest

from stratalog.broker.runtime.allocator import tune_allocator


class Library:
    """A C library that records its calls."""

    def __init__(self, *, glibc=True, result=1):
        self.calls = []
        self._result = result
        if glibc:
            self.gnu_get_libc_version = lambda: b"2.36"

    def mallopt(self, option, value):
        self.calls.append((option, value))
        return self._result


def test_glibc_is_set_to_keep_large_blocks(monkeypatch):
    """M_MMAP_THRESHOLD (-3) and M_TRIM_THRESHOLD (-1) are set; a refusal is reported as False."""
    library = Library()
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    assert tune_allocator()
    assert dict(library.calls) == {-3: 32 << 20, -1: 16 << 20}
    monkeypatch.setattr("ctypes.CDLL", lambda name: Library(result=0))
    assert not tune_allocator()


def test_other_c_libraries_are_left_alone(monkeypatch):
    """Without glibc nothing is called."""
    library = Library(glibc=False)
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    assert not tune_allocator()
    assert library.calls == []


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_on_glibc_large_blocks_stay_in_the_heap():
    """After tuning, allocating and freeing 1 MiB again and again faults in no new pages; before, every time."""
    program = """
import resource, sys
from stratalog.broker.runtime.allocator import tune_allocator

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        bytes(bytearray(1 << 20))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

untuned = faults()
assert tune_allocator()
faults()
print(untuned, faults())
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    untuned, tuned = map(int, output.stdout.split())
    assert tuned * 10 < untuned
