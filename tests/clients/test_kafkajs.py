"""kafkajs, a client in JavaScript of its own making: each of its scenarios (``kafkajs/*.mjs``) against a broker."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

HERE = Path(__file__).parent / "kafkajs"
BUILD = HERE.parent.parent.parent / "build"
SCENARIOS = [
    (path.stem, name)
    for path in sorted(HERE.glob("*.mjs"))
    for name in re.findall(r"^export async function (\w+)\(judge\b", path.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="session")
def kafkajs() -> Path:
    """The directory of kafkajs; it is fetched once for each content of the lock file and kept under build/."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("kafkajs needs node and npm on the PATH")
    lock = HERE / "package-lock.json"
    directory = BUILD / f"kafkajs-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not directory.is_dir():
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, partial)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        fetched = subprocess.run(command, cwd=partial, capture_output=True, text=True, check=False)
        assert fetched.returncode == 0, f"npm could not fetch kafkajs:\n{fetched.stdout}\n{fetched.stderr}"
        partial.rename(directory)
    return directory


@pytest.fixture(scope="module")
def broker(start_shared_node):
    """One broker for all scenarios, with quick groups."""
    return start_shared_node(group_initial_rebalance_delay_ms=0)


def test_there_are_scenarios():
    """They are found by their names."""
    assert len(SCENARIOS) > 15


@pytest.mark.parametrize(("file", "scenario"), SCENARIOS, ids=[scenario for _, scenario in SCENARIOS])
def test_the_kafkajs_program_ends_well(kafkajs, broker, file, scenario) -> None:
    """The program ends well: what it asserts was so."""
    done = subprocess.run(
        ["node", str(HERE / "run.mjs"), broker.address, file, scenario],
        env={**os.environ, "KAFKAJS_DIRECTORY": str(kafkajs), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
