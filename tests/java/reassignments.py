"""kafka-reassign-partitions: plans, and what the program says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.java.mixed_nodes import MixedCluster

PROGRAM = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
STATES = re.compile(r"^Reassignment of partition (\S+) is (completed|still in progress)\.$", re.MULTILINE)
Placed = Mapping[tuple[str, int], Sequence[int]]


class Reassignment:
    """One plan: ``placed`` has the brokers of each partition. Every step is the program's, and must end well."""

    def __init__(self, tools, mixed: MixedCluster, folder: Path, placed: Placed) -> None:
        self._tools = tools
        self._at = ("--bootstrap-server", mixed.brokers)
        self._path = folder / f"reassign-{len(list(folder.glob('reassign-*.json')))}.json"
        self._names = {f"{topic}-{number}" for topic, number in placed}
        rows = [{"topic": topic, "partition": number, "replicas": list(to)} for (topic, number), to in placed.items()]
        self._path.write_text(json.dumps({"version": 1, "partitions": rows}))

    def execute(self) -> str:
        """Begin it; what the program says."""
        said = self._run("--execute")
        assert "Successfully started partition reassignment" in said, said
        return said

    def states(self) -> dict[str, str]:
        """``completed`` or ``still in progress`` for each partition. The program says more of what failed."""
        said = self._run("--verify", "--preserve-throttles")
        states = dict(STATES.findall(said))
        assert states.keys() == self._names, said
        return states

    def completed(self) -> bool:
        """Whether all of it is done, as ``--verify`` says."""
        return set(self.states().values()) == {"completed"}

    def cancel(self) -> str:
        """Take back what is under way; what the program says."""
        said = self._run("--cancel", "--preserve-throttles")
        assert "Successfully cancelled partition reassignment" in said, said
        return said

    def _run(self, *options: str) -> str:
        return self._tools.run(PROGRAM, *self._at, "--reassignment-json-file", str(self._path), *options).ok()
