"""CPU time and memory of a process and those it started, as the kernel counts them."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = [
    "cpu_seconds",
    "cpu_seconds_of_children",
    "cpu_seconds_of_tree",
    "cpu_seconds_of_tree_and_ended",
    "family",
    "parse_cpu_ticks",
    "parse_pss_kib",
    "pss_megabytes_of_tree",
]

_SCHEDULER_TIME = 2
"""Which of a process's clocks: the time on processors, as the scheduler counts it."""

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def parse_cpu_ticks(stat: str) -> tuple[int, int]:
    """The parent's id, and the ticks in user and kernel mode, of a line of ``/proc/PID/stat`` (proc(5))."""
    fields = stat.rsplit(")", 1)[1].split()
    return int(fields[1]), int(fields[11]) + int(fields[12])


def parse_pss_kib(smaps_rollup: str) -> int:
    """The proportional set size in KiB of a ``/proc/PID/smaps_rollup``."""
    for line in smaps_rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise ValueError("no Pss line in smaps_rollup")


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used, all of its threads together, to the nanosecond. Raises OSError if it is gone.

    By the process's own clock (clock_getcpuclockid(3)): ticks of 10 ms are a tenth of what some runs take.
    """
    return time.clock_gettime(~pid << 3 | _SCHEDULER_TIME)


def family(pid: int) -> list[int]:
    """A process and all that descend from it and live."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent, _ = parse_cpu_ticks((entry / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for member in found:
        found.extend(children.get(member, ()))
    return found


def cpu_seconds_of_children(pid: int) -> float:
    """The CPU time of a process's living descendants (a broker's workers)."""
    return sum(cpu_seconds(member) for member in family(pid)[1:])


def cpu_seconds_of_tree(pid: int) -> float:
    """The CPU time of a process and its living descendants (a broker and its workers)."""
    return sum(cpu_seconds(member) for member in family(pid))


def cpu_seconds_of_tree_and_ended(pid: int) -> float:
    """The same with those of its descendants that have ended and were waited for: a Spark session's workers come and go."""
    ticks = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_SECOND


def pss_megabytes_of_tree(pid: int) -> float:
    """The proportional set size of a process and its descendants in 10**6 bytes: shared pages are counted once."""
    kibibytes = [parse_pss_kib(Path(f"/proc/{member}/smaps_rollup").read_text()) for member in family(pid)]
    return sum(kibibytes) * 1024 / 1e6
