"""The C programs: built with gcc -O2 into ``bench/build``, again whenever a source is newer than what came of it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["broker_environment", "build", "cubic_environment"]

SOURCES = Path(__file__).resolve().parent / "c"
BUILD = Path(__file__).resolve().parent / "build"

_SHARED = frozenset({"cubic"})


def build(name: str) -> Path:
    """The path of a C program (or of the shared library ``cubic``), compiled if need be.

    Raises ``SystemExit`` with the compiler's words if it cannot be built.
    """
    source = SOURCES / f"{name}.c"
    target = BUILD / (f"{name}.so" if name in _SHARED else name)
    newest = max(path.stat().st_mtime for path in (source, *SOURCES.glob("*.h")))
    if target.exists() and target.stat().st_mtime >= newest:
        return target
    BUILD.mkdir(exist_ok=True)
    command = [os.environ.get("CC", "gcc"), "-O2", "-Wall", "-Wextra"]
    if platform.machine() in {"x86_64", "AMD64"}:
        command.append("-msse4.2")  # the CRC-32C instruction
    if name in _SHARED:
        command += ["-shared", "-fPIC"]
    unfinished = target.with_suffix(".new")
    command += ["-o", str(unfinished), str(source)]
    if name in _SHARED:
        command.append("-ldl")
    try:
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(f"no C compiler: {command[0]} is not installed (apt-get install gcc)") from None
    if outcome.returncode:
        raise SystemExit(f"{' '.join(command)}\n{outcome.stderr}")
    unfinished.replace(target)
    return target


def cubic_environment() -> dict[str, str]:
    """Our environment, in which every TCP socket uses cubic: BBR paces even the loopback."""
    return {**os.environ, "LD_PRELOAD": str(build("cubic"))}


@cache
def broker_environment() -> dict[str, str]:
    """That of an installed broker: `cubic_environment`, and modules as bytecode, as an installer leaves them.

    Some machines tell Python to write none, and would measure its compiler at every start.
    """
    environment = {**cubic_environment(), "PYTHONPYCACHEPREFIX": str(BUILD / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    program = "import stratalog.cli.serve, stratalog.broker.embedded, stratalog.broker.network.limits"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    return environment
