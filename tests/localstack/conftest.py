from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def load_program():
    """Import a program of localstack/ by its path: the directory is no package, its name belongs to another one."""

    def load(name):
        path = Path(__file__).resolve().parents[2] / "localstack" / f"{name}.py"
        module_name = f"stratalog_localstack_{name}"
        if module_name not in sys.modules:
            spec = importlib.util.spec_from_file_location(module_name, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            spec.loader.exec_module(module)
        return sys.modules[module_name]

    return load
