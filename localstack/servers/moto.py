"""moto: Amazon's answers in pure Python, with conditional writes made right; any checksum and credential is accepted."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from servers.recipe import Plan, Recipe

PROGRAM = Path(__file__).resolve().parents[1] / "atomic_moto.py"
"""moto itself looks at a condition and stores in two steps."""


def _version() -> str:
    try:
        return importlib.metadata.version("moto")
    except importlib.metadata.PackageNotFoundError:
        return "5"


def _find(directory: Path) -> Path | None:
    del directory
    try:
        importlib.metadata.version("moto")
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(sys.executable)


def _plan(program: Path, port: int, directory: Path) -> Plan:
    del directory
    return Plan([str(program), str(PROGRAM), "-H", "127.0.0.1", "-p", str(port)], {})


RECIPE = Recipe("moto", _version(), 1, _find, None, "pip install 'moto[s3,server]'", _plan)
