"""Services do what docs/operations.md says about them; `make test-s3` asks the one that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def documented():
    """By service and version, as in ``LOCAL_SERVER``: what the table of services says to each question."""
    lines = (ROOT / "docs" / "operations.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
    start = next(at for at, row in enumerate(rows) if row[0] == "what Amazon does")
    table = {name.replace("`", ""): {} for name in rows[start][1:]}
    for question, *answers in rows[start + 2 :]:
        if len(answers) != len(table):
            break
        for told, answer in zip(table.values(), answers, strict=True):
            told[question] = answer.replace("*", "")
    return table


def test_the_table_of_services_is_complete():
    """Every question has an answer for each of the five services."""
    table = documented()
    assert [name.split()[0] for name in table] == ["seaweed", "versitygw", "minio", "localstack", "moto"]
    assert {len(answers) for answers in table.values()} == {15}
    assert {answer.split()[0] for answers in table.values() for answer in answers.values()} == {"yes", "no"}


@pytest.mark.s3
def test_the_service_does_what_the_table_says(request):
    """Question by question."""
    given, server = request.config.getoption("--store") or "", os.environ.get("LOCAL_SERVER")
    table = documented()
    if not given.startswith("s3:") or server not in table:
        pytest.skip("no service of the table was started (make test-s3)")
    command = [sys.executable, str(ROOT / "localstack" / "quirks.py"), "--bucket", given.split("/")[2]]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    answers = dict(reversed(line.split("  ", 1)) for line in done.stdout.splitlines())
    assert {text.strip(): answer.strip() for text, answer in answers.items()} == table[server]
