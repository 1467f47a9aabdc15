"""kafkajs, a client in JavaScript of its own making: each of its scenarios (``kafkajs/*.mjs``) against a broker."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

HERE = Path(__file__).parent / "kafkajs"
SCENARIOS = [
    (path.stem, name)
    for path in sorted(HERE.glob("*.mjs"))
    for name in re.findall(r"^export async function (\w+)\(judge\b", path.read_text(), re.MULTILINE)
]


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
