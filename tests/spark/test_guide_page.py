"""Every block of ``docs/guide-spark.md``, in its order, prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide-spark.md"
ADDRESSES = ("127.0.0.1:9092", "127.0.0.1:8080")


class Block(NamedTuple):
    """Something to run, the line of the page where it begins, and what it prints."""

    language: str
    line: int
    text: str
    shown: str


def blocks(page: str) -> list[Block]:
    """Blocks of Python with the text block that follows them, commands of a console one by one."""
    found: list[Block] = []
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        language, text, line = match[1], match[2], page[: match.start()].count("\n") + 2
        if language == "console":
            commands = re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
            found += [Block("console", line + text[: each.start()].count("\n"), each[1], each[2]) for each in commands]
        elif language == "text":
            assert found[-1].language == "python", f"line {line}: this belongs to no block"
            assert not found[-1].shown, f"line {line}: the block has an output already"
            found[-1] = found[-1]._replace(shown=text)
        else:
            found.append(Block(language, line, text, ""))
    return found


def is_shown(printed: str, shown: str) -> bool:
    """Whether this was printed: `…` stands for anything in a line, on a line of its own for any lines; blanks differ."""
    lines = [r"(?:.*\n)*" if line.strip() == "…" else _pattern(line) + r"\n" for line in shown.splitlines()]
    return re.fullmatch("".join(lines), re.sub(r"[ \t]+\n", "\n", printed)) is not None


def _pattern(line: str) -> str:
    return ".*".join(
        r"\s+".join(map(re.escape, part.split(" "))) for part in re.split(r" *… *", re.sub(" +", " ", line.rstrip()))
    )


class Reader:
    """A user who follows the page, in an empty folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys
        self._names: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}
        self._broker: subprocess.Popen[str] | None = None
        (folder / "bin").mkdir()
        command = folder / "bin" / "stratalog"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stratalog.cli.main "$@"\n')
        command.chmod(0o755)

    def run(self, block: Block) -> str:
        """Its output."""
        text = block.text
        for ours, theirs in self._addresses.items():
            text = text.replace(ours, theirs)
        if block.language == "console":
            return self._command(text)
        exec(compile("\n" * (block.line - 1) + text, str(PAGE), "exec"), self._names)
        return self._capsys.readouterr().out

    def as_shown(self, printed: str) -> str:
        """With the addresses of the page."""
        for ours, theirs in self._addresses.items():
            printed = printed.replace(theirs, ours)
        return printed

    def leave(self) -> None:
        """Let go of everything, and end the broker."""
        self._names.clear()
        if self._broker is not None:
            self._broker.kill()
            self._broker.communicate()

    def _command(self, text: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{self._folder}/bin:{os.environ['PATH']}"}
        if self._addresses:
            environment["STRATALOG_BOOTSTRAP"], environment["STRATALOG_HTTP"] = self._addresses.values()
        options: dict[str, Any] = {"cwd": self._folder, "env": environment, "text": True, "stdout": subprocess.PIPE}
        if text.startswith("stratalog dev"):
            text = f"exec {text} --listen 127.0.0.1:0 --http 127.0.0.1:0"
            self._broker = subprocess.Popen(["bash", "-c", text], stderr=subprocess.DEVNULL, **options)
            assert self._broker.stdout is not None
            ready = self._broker.stdout.readline()
            self._addresses = dict(zip(ADDRESSES, re.findall(r"(127\.0\.0\.1:\d+)", ready), strict=True))
            return ready
        return subprocess.run(["bash", "-c", text], stderr=subprocess.STDOUT, timeout=60, check=False, **options).stdout


@pytest.mark.story
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_every_block_prints_what_the_page_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the broker to the last table, as a user would type it."""
    monkeypatch.chdir(tmp_path)
    # pyiceberg reads the environment when it is first imported: in a notebook later than here
    monkeypatch.setattr(
        pyiceberg.catalog, "_ENV_CONFIG", mock.Mock(get_catalog_config=lambda name: Config().get_catalog_config(name))
    )
    reader = Reader(tmp_path, capsys)
    wrong = []
    try:
        with mock.patch.dict(os.environ):
            for block in blocks(PAGE.read_text()):
                printed = reader.as_shown(reader.run(block))
                if not is_shown(printed, block.shown):
                    wrong.append(f"{PAGE.name}:{block.line}:\n{printed}")
    finally:
        reader.leave()
    if wrong:
        pytest.fail("\n".join(wrong))


def test_outputs_are_compared() -> None:
    """A page that differs is found; only what is left out differs freely."""
    assert is_shown("a  1\nb 2\n", "a 1\nb 2\n")
    assert is_shown("a 17 c\n", "a … c\n")
    assert is_shown("x\ny\nz\n", "…\nz\n")
    assert not is_shown("a 1\nb 2\n", "a 1\n")
    assert not is_shown("a 1\n", "a 2\n")
    assert not is_shown("a 1\n", "")
    page = "```console\n$ one\n1\n$ two\n```\n\n```python\nthree\n```\n\n```text\n3\n```\n"
    assert blocks(page) == [
        Block("console", 2, "one", "1\n"),
        Block("console", 4, "two", ""),
        Block("python", 8, "three\n", "3\n"),
    ]
